// Sorts shops by their distance. The lambda that compares works out both distances anew each time.
#include "../own_clock.h"
#include <algorithm>
#include <cmath>
#include <vector>

struct Shop { double latitude, longitude; long id; };

static double angle_of(uint64_t number, double most) { return (double)(scrambled(number) % 100000) / 100000 * most; }

static std::vector<Shop> shops_of(uint64_t town, long count) {
    std::vector<Shop> shops;
    for (long i = 0; i < count; i++)
        shops.push_back({angle_of(town + (uint64_t)i, 1.5), angle_of(town * 7 + (uint64_t)i, 3.0), i});
    return shops;
}

__attribute__((noinline)) static double arc_to(const Shop &shop, double latitude, double longitude) {
    double up = std::sin((shop.latitude - latitude) / 2), across = std::sin((shop.longitude - longitude) / 2); // culprit
    return 2 * std::asin(std::sqrt(up * up + std::cos(latitude) * std::cos(shop.latitude) * across * across)); // culprit
}

__attribute__((noinline)) static long nearest_shop(std::vector<Shop> &shops, double latitude, double longitude) {
    std::sort(shops.begin(), shops.end(), [=](const Shop &a, const Shop &b) {
        return arc_to(a, latitude, longitude) < arc_to(b, latitude, longitude); // culprit
    });
    return shops.front().id;
}

int main(int argc, char **argv) {
    long towns = amount(argc, argv, 100);
    double begin = seconds(), sorting = 0, sum = 0;
    for (long town = 0; town < towns; town++) {
        std::vector<Shop> shops = shops_of((uint64_t)town, 10000);
        double start = seconds();
        sum += (double)nearest_shop(shops, angle_of((uint64_t)town, 1.5), 0.7);
        sorting += seconds() - start;
    }
    return tell(sorting, begin, sum);
}
