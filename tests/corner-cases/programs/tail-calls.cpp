// Tail calls through linkage, chains of 1 to 8, some left by an exception or a jump.
#include <csetjmp>
#include <cstdio>
#include <new>
#include <string>
#include <vector>
extern "C" {
#define EACH(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8)
#define DECLARE(n) long link##n(long, long); void run##n(void (*)(long), long);
EACH(DECLARE)
}
static jmp_buf out;
static long seen;
static void note(long x) { seen += x; }
static void thrower(long x) { throw x; }
static void jumper(long x) { longjmp(out, (int)x); }
static void again(long x) { run3(note, x), seen += link5(x, 1); }
int main() {
    long sum = 0;
    for (long i = 0; i < 20000; i++) {
#define CALL(n) sum += link##n(i, n); run##n(note, i);
        EACH(CALL)
        if (i % 100 == 0) {
#define THROW(n) try { run##n(thrower, i); } catch (long x) { sum += x; }
            EACH(THROW)
#define JUMP(n) if (setjmp(out) == 0) run##n(jumper, n); else seen++;
            EACH(JUMP)
            run1(again, i);
        }
        int *p = new int[10];
        p[0] = (int)i;
        sum += p[0];
        delete[] p; // libstdc++: operator delete[] -> operator delete -> free, all by jmp
    }
    std::vector<std::string> v;
    for (int i = 0; i < 1000; i++) v.push_back(std::string(i % 60, 'x'));
    for (auto &s : v) sum += s.size();
    printf("%ld %ld\n", sum, seen);
}
