/* Refers to each function of shapes.c in the way that its name says. */
int only_called(int), tail_called(int), only_loaded(int), called_and_loaded(int), called_in_loop(int), compared(int);
int returned(int), indirect(int), versioned(int);
int take(int (*function)(int));
int maybe_there(int) __attribute__((weak));

__attribute__((noinline)) int tail(int x) { return tail_called(x); }

__attribute__((noinline)) int loop(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += called_in_loop(i) + called_in_loop(sum);
    return sum;
}

__attribute__((noinline)) int is_it(int (*function)(int)) { return function == compared; }

__attribute__((noinline)) int (*give(void))(int) { return returned; }

int main(int argc, char **argv) {
    (void)argv;
    int sum = only_called(argc) + tail(argc) + loop(argc);
    sum += take(only_loaded) + called_and_loaded(argc) + take(called_and_loaded);
    sum += is_it(tail) + indirect(argc) + versioned(argc);
    if (maybe_there)
        sum += maybe_there(argc);
    return sum == 0;
}
