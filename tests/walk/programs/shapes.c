// Ways in which a program's own functions call each other: shapes SECONDS MODE.
#define _GNU_SOURCE
#include "../../../workloads/walk/truth.h"
#include <dlfcn.h>
#include <sys/mman.h>

#define OWN __attribute__((noinline))
static uint64_t sink;
static int t_one, t_two;

// Rounds of about a nanosecond and a half.
// A function that ends in a call of another would be missing from stacks, which is wanted in one place only.
#define NO_TAIL_CALL __asm__ volatile("" : : : "memory")

static inline __attribute__((always_inline)) void burn(unsigned rounds) {
    sink += truth_mixed(sink, rounds);
    __asm__ volatile("" : : : "memory");
}

// -- Recursion --------------------------------------------------------------------------------------------------------

OWN static void bottom(void) { burn(20000); }
OWN static void descend(unsigned depth) {
    if (depth == 0)
        TRUTH_TIMED(t_one, bottom());
    else
        descend(depth - 1);
    burn(150);
}
OWN static void recursion(unsigned i) {
    descend(20 + i % 3);
    NO_TAIL_CALL;
}

OWN static void odd(unsigned depth);
OWN static void even(unsigned depth) {
    if (depth == 0)
        TRUTH_TIMED(t_one, bottom());
    else
        odd(depth - 1);
    burn(150);
}
OWN static void odd(unsigned depth) {
    if (depth)
        even(depth - 1);
    burn(150);
}
OWN static void mutual(unsigned i) {
    even(20 + 2 * (i % 3));
    NO_TAIL_CALL;
}

// More calls than a stack shows of a sample: what is below them has its time all the same.
OWN static void seabed(void) { burn(20000); }
OWN static void beach(void) { burn(10000); }
OWN static void plunge(unsigned depth) {
    if (depth == 0)
        TRUTH_TIMED(t_one, seabed());
    else
        plunge(depth - 1);
    NO_TAIL_CALL;
}
OWN static void deep(unsigned i) {
    plunge(400 + i % 3);
    TRUTH_TIMED(t_two, beach());
    NO_TAIL_CALL;
}

// A function that calls itself above and below another: its time counts once.
OWN static void inner_work(void) { burn(30000); }
OWN static void again(unsigned depth);
OWN static void between(unsigned depth) {
    burn(3000);
    again(depth - 1);
}
OWN static void again(unsigned depth) {
    if (depth)
        between(depth);
    else
        TRUTH_TIMED(t_one, inner_work());
    burn(1000);
}
OWN static void sandwich(unsigned i) {
    again(3 + i % 2);
    NO_TAIL_CALL;
}

// -- Tail calls ---------------------------------------------------------------------------------------------------------

OWN static void final_step(unsigned i) { burn(10000 + i % 3); }
OWN static void middle_step(unsigned i) {
    burn(100);
    final_step(i);
}
OWN static void tail_calls(unsigned i) {
    TRUTH_TIMED(t_one, middle_step(i));
    burn(1000);
}

// -- Inlined -------------------------------------------------------------------------------------------------------------

static inline __attribute__((always_inline)) void inlined_hash(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++)
        sink = (sink ^ i) * 0x100000001b3u;
}
OWN static void checksum(unsigned i) {
    inlined_hash(20000 + i % 3);
    sink ^= i;
}
OWN static void inlined(unsigned i) {
    checksum(i);
    NO_TAIL_CALL;
}

// -- Several ---------------------------------------------------------------------------------------------------------------

OWN static void left_half(void) { burn(20000); }
OWN static void right_half(void) { burn(20000); }
OWN static void two_heavy(unsigned i) {
    (void)i;
    TRUTH_TIMED(t_one, left_half());
    TRUTH_TIMED(t_two, right_half());
}

#define PART(n) \
    OWN static void part_##n(void) { burn(3000 + n); }
PART(1) PART(2) PART(3) PART(4) PART(5) PART(6) PART(7) PART(8) PART(9) PART(10)
OWN static void spread(unsigned i) {
    (void)i;
    part_1(), part_2(), part_3(), part_4(), part_5(), part_6(), part_7(), part_8(), part_9(), part_10();
}

// Just above and below a quarter.
OWN static void thirty(void) { burn(30000); }
OWN static void twenty(void) { burn(20000); }
OWN static void near_threshold(unsigned i) {
    (void)i;
    TRUTH_TIMED(t_one, thirty());
    TRUTH_TIMED(t_two, twenty());
    burn(50000);
}

// Takes turns at the times at which samples are taken, if those are even: 997 a second.
enum { DAY = 1000000000 / 997 };
OWN static void morning(uint64_t noon) {
    while (truth_now() < noon)
        burn(1000);
}
OWN static void evening(uint64_t midnight) {
    while (truth_now() < midnight)
        burn(1000);
}
OWN static void even_times(unsigned i) {
    (void)i;
    static uint64_t midnight;
    if (midnight + DAY < truth_now())
        midnight = truth_now();
    midnight += DAY;
    TRUTH_TIMED(t_one, morning(midnight - DAY * 2 / 5));
    TRUTH_TIMED(t_two, evening(midnight));
}

// Many short calls, that timing would distort.
OWN static void tiny(void) { burn(20); }
OWN static void short_calls(unsigned i) {
    (void)i;
    for (unsigned n = 0; n < 1000; n++)
        tiny();
}

// Phases: what holds the time changes.
OWN static void early_phase(void) { burn(20000); }
OWN static void late_phase(void) { burn(20000); }
OWN static void phases(unsigned i) {
    (void)i;
    if (truth_now() - truth.start < (truth.end - truth.start) * 3 / 10)
        TRUTH_TIMED(t_one, early_phase());
    else
        TRUTH_TIMED(t_two, late_phase());
}

// The library calls back.
OWN static int by_mixed_value(const void *a, const void *b) {
    uint64_t x = truth_mixed(*(const unsigned *)a, 60), y = truth_mixed(*(const unsigned *)b, 60);
    return (x > y) - (x < y);
}
OWN static void sort_numbers(unsigned i) {
    static unsigned numbers[2000];
    for (unsigned n = 0; n < 2000; n++)
        numbers[n] = n * 7919 + i;
    qsort(numbers, 2000, sizeof *numbers, by_mixed_value);
    NO_TAIL_CALL;
}

// Through a table of pointers.
OWN static void handler_a(void) { burn(1000); }
OWN static void handler_b(void) { burn(20000); }
OWN static void handler_c(void) { burn(1000); }
static void (*volatile handlers[])(void) = {handler_a, handler_b, handler_c};
OWN static void dispatch(unsigned i) {
    if (i % 3 == 1)
        TRUTH_TIMED(t_one, handlers[1]());
    else
        handlers[i % 3]();
}

// -- Code that comes later -----------------------------------------------------------------------------------------------

static void (*plugin)(unsigned);
OWN static void use_plugin(unsigned i) {
    if (!plugin) {
        char file[4096];
        ssize_t size = readlink("/proc/self/exe", file, sizeof file - 32);
        file[size] = 0;
        strcpy(strrchr(file, '/') + 1, "libplugin.so");
        void *library = dlopen(file, RTLD_NOW);
        if (!library)
            fprintf(stderr, "%s\n", dlerror()), exit(1);
        plugin = (void (*)(unsigned))dlsym(library, "plugin_entry");
    }
    TRUTH_TIMED(t_one, plugin(i));
}

// push %rbp; mov %rsp,%rbp; mov $40000,%ecx; again: dec %ecx; jnz again; pop %rbp; ret
static const unsigned char loop[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x9c, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
OWN static void call_generated(unsigned i) {
    static void (*code)(void);
    (void)i;
    if (!code) {
        char *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(place, loop, sizeof loop);
        char map[64];
        snprintf(map, sizeof map, "/tmp/perf-%d.map", (int)getpid());
        FILE *file = fopen(map, "w");
        fprintf(file, "%lx %zx generated_loop\n", (unsigned long)place, sizeof loop);
        fclose(file);
        code = (void (*)(void))place;
    }
    TRUTH_TIMED(t_one, code());
    burn(100);
}

struct mode {
    const char *name, *one, *two;
    void (*call)(unsigned);
};
static const struct mode modes[] = {
    {"recursion", "bottom", NULL, recursion},
    {"deep", "seabed", "beach", deep},
    {"mutual", "bottom", NULL, mutual},
    {"sandwich", "inner_work", NULL, sandwich},
    {"tail-calls", "final_step", NULL, tail_calls},
    {"inlined", NULL, NULL, inlined},
    {"two-heavy", "left_half", "right_half", two_heavy},
    {"spread", NULL, NULL, spread},
    {"near-threshold", "thirty", "twenty", near_threshold},
    {"even-times", "morning", "evening", even_times},
    {"short-calls", NULL, NULL, short_calls},
    {"phases", "early_phase", "late_phase", phases},
    {"sort", NULL, NULL, sort_numbers},
    {"dispatch", "handler_b", NULL, dispatch},
    {"plugin", "plugin_entry", NULL, use_plugin},
    {"generated", "generated_loop", NULL, call_generated},
};

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    for (const struct mode *mode = modes; mode < modes + sizeof modes / sizeof *modes; mode++)
        if (argc > 2 && !strcmp(argv[2], mode->name)) {
            if (mode->one)
                t_one = truth_function(mode->one);
            if (mode->two)
                t_two = truth_function(mode->two);
            for (unsigned i = 0; truth_running(); i++, truth.operations++)
                mode->call(i);
            truth_print();
            char map[64];
            snprintf(map, sizeof map, "/tmp/perf-%d.map", (int)getpid());
            unlink(map);
            return 0;
        }
    return fprintf(stderr, "shapes SECONDS MODE\n"), 2;
}
