// Probes all member functions of a class by a pattern, prints what was found, and counts and times them; then hands out
// each call's result from an exit handler.
//
//     c++ -O2 -g watch_class.cpp $(pkg-config --cflags --libs transect) -o watch_class
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <transect.h>
#include <vector>

namespace shop {

class Cart {
  public:
    [[gnu::noinline]] void add(const std::string &what, long cents) { items[what] += cents; }
    [[gnu::noinline]] long total() const {
        long sum = 0;
        for (const auto &item : items) sum += item.second;
        return sum;
    }
    [[gnu::noinline]] void check(long limit) const {
        if (total() > limit) throw std::string("too much");
    }

  private:
    std::map<std::string, long> items;
};

} // namespace shop

static int found(const transect_site *site, void *data) {
    if (site->event != TRANSECT_ENTRY) return TRANSECT_IGNORE;
    std::printf("%s (%s:%u)\n", site->function, site->file, site->line);
    static_cast<std::vector<transect_id> *>(data)->push_back(site->id);
    return TRANSECT_ACTIVATE;
}

static void left(transect_id, transect_registers *registers, void *, uint64_t, void *data) {
    *static_cast<long *>(data) = static_cast<long>(registers->rax);
}

static void check(int64_t status, const char *what) {
    if (status >= 0) return;
    std::fprintf(stderr, "%s: %s\n", what, transect_last_error());
    std::exit(1);
}

int main() {
    check(transect_init(TRANSECT_ABI_VERSION, sizeof(transect_options), nullptr), "init");
    std::vector<transect_id> ids;
    check(transect_discover(":shop::Cart::*", 0, found, &ids), "discover");
    for (transect_id id : ids) transect_set_handler(id, TRANSECT_HANDLER_TIME);

    shop::Cart cart;
    for (int i = 0; i < 1000; i++) cart.add("item " + std::to_string(i % 10), i);
    int refused = 0;
    for (int i = 0; i < 100; i++) {
        try {
            cart.check(i % 2 ? 10 : 1000000); // exceptions pass through timed functions
        } catch (const std::string &) {
            refused++;
        }
    }
    for (transect_id id : ids) {
        transect_site site;
        transect_times times;
        check(transect_get_site(id, &site), "site");
        check(transect_get_times(id, &times), "times");
        std::printf("%-40s %6lu calls, %5lu ns\n", site.function, static_cast<unsigned long>(times.calls),
                    static_cast<unsigned long>(times.mean_ns));
    }

    transect_id total;
    check(transect_find("shop::Cart::total", &total), "find");
    long result = 0;
    transect_handler_options options = {};
    options.tier = TRANSECT_TIER_VECTOR;
    options.exit = left;
    options.data = &result;
    transect_handler handler;
    check(transect_register_handler(&options, &handler), "handler");
    check(transect_set_handler(total, handler), "set");
    long sum = cart.total();
    std::printf("total() returned %ld, the handler saw %ld; %d of 100 carts refused\n", sum, result, refused);
    transect_restore_all();
    return sum == result && refused == 50 ? 0 : 1;
}
