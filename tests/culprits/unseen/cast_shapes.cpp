// Asks each shape by dynamic_cast what it is.
#include "hclock.h"
#include <memory>
#include <vector>
struct Shape { virtual ~Shape() {} }; struct A : Shape {}; struct B : A {}; struct C : B {}; struct D : C { int d = 1; }; struct E : virtual Shape { int e = 2; };
__attribute__((noinline)) static int kind_of(Shape *s) {
    if (auto *d = dynamic_cast<D *>(s)) return d->d; // HERE
    if (auto *e = dynamic_cast<E *>(s)) return e->e; // HERE
    return 0;
}
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 40000000; std::vector<std::unique_ptr<Shape>> v; uint64_t sum = 0;
    for (int i = 0; i < 64; i++) v.emplace_back(i % 3 ? (i % 3 == 1 ? (Shape *)new C : (Shape *)new E) : new D);
    for (long i = 0; i < n; i++) sum += kind_of(v[mixed(i) & 63].get());
    printf("%d\n", (int)(sum & 7)); CLOCK_SAY;
}
