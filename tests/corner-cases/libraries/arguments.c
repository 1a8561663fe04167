#include "arguments.h"
#include <fenv.h>

#define WEIGHTED(n) a##n * n
#define WEIGHTED_PAIR(n) a##n * n + b##n / n
#define PLUS1(X) X(1)
#define PLUS2(X) PLUS1(X) + X(2)
#define PLUS3(X) PLUS2(X) + X(3)
#define PLUS4(X) PLUS3(X) + X(4)
#define PLUS5(X) PLUS4(X) + X(5)
#define PLUS6(X) PLUS5(X) + X(6)
#define PLUS7(X) PLUS6(X) + X(7)
#define PLUS8(X) PLUS7(X) + X(8)
#define PLUS9(X) PLUS8(X) + X(9)
#define PLUS10(X) PLUS9(X) + X(10)
#define PLUS11(X) PLUS10(X) + X(11)
#define PLUS12(X) PLUS11(X) + X(12)
#define DEFINE(n) \
    long longs##n(LIST##n(LONG_PARAMETER)) { return PLUS##n(WEIGHTED); } \
    double doubles##n(LIST##n(DOUBLE_PARAMETER)) { return PLUS##n(WEIGHTED); } \
    double mixed##n(LIST##n(MIXED_PARAMETER)) { return PLUS##n(WEIGHTED_PAIR); }
EACH_ARITY(DEFINE)

unsigned char narrow(signed char a, unsigned char b, short c, unsigned short d, _Bool e) {
    return (unsigned char)(a * 3 + b * 5 + c * 7 + d * 11 + e);
}
float floats(float a, float b, float c, float d, float e, float f, float g, float h, float i) {
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9;
}
long double long_doubles(long double a, int b, long double c) { return a / 3 + b * c; }
__int128 wide(__int128 a, long b, __int128 c) { return a * b - c; }
float complex complex_float(float complex a, float complex b) { return a * b + 1; }
double complex complex_double(double complex a, double complex b) { return a * b + 1; }
long double complex complex_long_double(long double complex a, long double complex b) { return a * b + 1; }

Bytes1 bytes1(Bytes1 s, int k) { s.a += k; return s; }
Bytes3 bytes3(Bytes3 s, int k) { s.a[0] += k; s.a[2] -= k; return s; }
Bytes8 bytes8(Bytes8 s, int k) { s.a += k; s.b *= k; return s; }
Bytes9 bytes9(Bytes9 s, int k) { s.a *= k; s.b += k; return s; }
TwoIntegers two_integers(TwoIntegers s, int k) { s.a *= k; s.b -= k; return s; }
TwoDoubles two_doubles(TwoDoubles s, int k) { s.a *= k; s.b -= k; return s; }
ThreeFloats three_floats(ThreeFloats s, int k) { s.a *= k; s.b -= k; s.c += k; return s; }
IntegerThenDouble integer_then_double(IntegerThenDouble s, int k) { s.a *= k; s.b /= k; return s; }
DoubleThenInteger double_then_integer(DoubleThenInteger s, int k) { s.a *= k; s.b -= k; return s; }
PackedMix packed_mix(PackedMix s, int k) { s.a *= k; s.b -= k; s.c /= k; return s; }
Memory24 memory24(Memory24 s, int k) { s.a *= k; s.b -= k; s.c ^= k; return s; }
Memory108 memory108(Memory108 s, int k) { for (int i = 0; i < 100; i++) s.a[i] += k; s.b *= k; return s; }
LongDoubleInStruct long_double_in_struct(LongDoubleInStruct s, int k) { s.a *= k; return s; }
Union8 union8(Union8 s, int k) { s.d *= k; return s; }
Memory24 crowded(long a, long b, long c, long d, long e, long f, Memory24 g, TwoIntegers h, double i, Memory108 j) {
    Memory24 result = {a + b * 2 + c * 3, d + e * 5 + f * 7 + g.a + g.b * 3 + g.c, h.a - h.b + (long)(i * 4) + j.a[99] + (long)j.b};
    return result;
}

double variadic_list(const char *kinds, va_list list) {
    double sum = 0;
    int weight = 1;
    for (; *kinds; kinds++, weight++) switch (*kinds) {
        case 'i': sum += weight * (double)va_arg(list, int); break;
        case 'l': sum += weight * (double)va_arg(list, long); break;
        case 'd': sum += weight * va_arg(list, double); break;
        case 'L': sum += weight * (double)va_arg(list, long double); break;
        case 's': { TwoDoubles s = va_arg(list, TwoDoubles); sum += weight * (s.a - s.b); break; }
        case 'm': { Memory24 s = va_arg(list, Memory24); sum += weight * (double)(s.a + s.b + s.c); break; }
    }
    return sum;
}
double variadic(const char *kinds, ...) {
    va_list list;
    va_start(list, kinds);
    double sum = variadic_list(kinds, list);
    va_end(list);
    return sum;
}

int set_rounding(int mode) { return fesetround(mode); }
int get_rounding(void) { return fegetround(); }

__asm__(
    ".text\n"
    ".globl rax_at_entry_low_byte\n.type rax_at_entry_low_byte,@function\n"
    "rax_at_entry_low_byte: movzbl %al, %eax\n ret\n.size rax_at_entry_low_byte,.-rax_at_entry_low_byte\n"
    ".globl stack_alignment_at_entry\n.type stack_alignment_at_entry,@function\n"
    "stack_alignment_at_entry: mov %rsp, %rax\n and $15, %eax\n ret\n"
    ".size stack_alignment_at_entry,.-stack_alignment_at_entry\n"
    ".globl r10_at_entry\n.type r10_at_entry,@function\n"
    "r10_at_entry: mov %r10, %rax\n ret\n.size r10_at_entry,.-r10_at_entry\n"
    /* Everything a callee may change, changed; direction flag and control words are the convention's. */
    ".globl clobber_everything\n.type clobber_everything,@function\n"
    "clobber_everything:\n"
    " mov $-1, %rax\n mov %rax, %rcx\n mov %rax, %rdx\n mov %rax, %rsi\n mov %rax, %rdi\n"
    " mov %rax, %r8\n mov %rax, %r9\n mov %rax, %r10\n mov %rax, %r11\n"
    " pcmpeqd %xmm0, %xmm0\n movdqa %xmm0, %xmm1\n movdqa %xmm0, %xmm7\n movdqa %xmm0, %xmm15\n ret\n"
    ".size clobber_everything,.-clobber_everything\n");
