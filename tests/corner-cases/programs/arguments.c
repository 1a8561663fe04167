/* Every argument and return class crosses the boundary unchanged. */
#include "../libraries/arguments.h"
#include <fenv.h>
#include <stdio.h>
#include <string.h>

#define LONG_ARGUMENT(n) 1000000007L * n
#define DOUBLE_ARGUMENT(n) 1.25 * n
#define MIXED_ARGUMENT(n) -77L * n, 0.5 * n
#define CALL(n) \
    printf("%d %ld %.17g %.17g\n", n, longs##n(LIST##n(LONG_ARGUMENT)), doubles##n(LIST##n(DOUBLE_ARGUMENT)), \
           mixed##n(LIST##n(MIXED_ARGUMENT)));

/* Calls through this object's own linkage table with chosen register contents. */
__asm__(
    ".text\n"
    ".globl call_with_r10\ncall_with_r10: mov %rdi, %r10\n sub $8, %rsp\n call r10_at_entry@PLT\n add $8, %rsp\n ret\n"
    ".globl kept\nkept:\n"
    " push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $8, %rsp\n"
    " mov $0x1111, %ebx\n mov $0x2222, %ebp\n mov $0x3333, %r12d\n mov $0x4444, %r13d\n mov $0x5555, %r14d\n"
    " mov $0x6666, %r15d\n mov %rsp, (%rsp)\n call clobber_everything@PLT\n"
    " xor %eax, %eax\n cmp $0x1111, %ebx\n jne 1f\n cmp $0x2222, %ebp\n jne 1f\n cmp $0x3333, %r12d\n jne 1f\n"
    " cmp $0x4444, %r13d\n jne 1f\n cmp $0x5555, %r14d\n jne 1f\n cmp $0x6666, %r15d\n jne 1f\n cmp %rsp, (%rsp)\n jne 1f\n"
    " mov $1, %eax\n1: add $8, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
long kept(void);

int main(void) {
    for (int round = 0; round < 3; round++) {
        EACH_ARITY(CALL)
    }
    printf("%d %g\n", narrow(-3, 250, -30000, 65000, 1), floats(1, 2, 3, 4, 5, 6, 7, 8, 9));
    printf("%.21Lg\n", long_doubles(1.0L / 7, -5, 1e300L));
    __int128 w = wide((__int128)1 << 90, -3, ((__int128)7 << 64) + 5);
    printf("%lx %lx\n", (long)(w >> 64), (long)w);
    float complex cf = complex_float(1 + 2 * I, 3 - 4 * I);
    double complex cd = complex_double(1 + 2 * I, 3 - 4 * I);
    long double complex cl = complex_long_double(1 + 2 * I, 3 - 4 * I);
    printf("%g %g %g %g %Lg %Lg\n", crealf(cf), cimagf(cf), creal(cd), cimag(cd), creall(cl), cimagl(cl));
    Bytes3 b3 = bytes3((Bytes3){{1, 2, 3}}, 9);
    Bytes8 b8 = bytes8((Bytes8){7, 8}, -2);
    Bytes9 b9 = bytes9((Bytes9){1L << 40, 3}, 4);
    TwoIntegers ti = two_integers((TwoIntegers){1L << 50, -1}, 3);
    TwoDoubles td = two_doubles((TwoDoubles){1.5, 2.5}, 3);
    ThreeFloats tf = three_floats((ThreeFloats){1.5f, 2.5f, 3.5f}, 3);
    IntegerThenDouble id = integer_then_double((IntegerThenDouble){5, 2.5}, 4);
    DoubleThenInteger di = double_then_integer((DoubleThenInteger){5.5, 2}, 4);
    PackedMix pm = packed_mix((PackedMix){5.5f, 2, 9}, 4);
    Memory24 m24 = memory24((Memory24){1, 2, 3}, 7);
    Memory108 m108 = {.b = 2.25};
    memset(m108.a, 'a', 100);
    m108 = memory108(m108, 2);
    printf("%d %d,%d,%d %d,%d %ld,%d %ld,%ld\n", bytes1((Bytes1){5}, 3).a, b3.a[0], b3.a[1], b3.a[2], b8.a, b8.b, b9.a, b9.b,
           ti.a, ti.b);
    printf("%g,%g %g,%g,%g %ld,%g %g,%ld %g,%d,%g %ld,%ld,%ld %.100s,%g\n", td.a, td.b, tf.a, tf.b, tf.c, id.a, id.b, di.a,
           di.b, pm.a, pm.b, pm.c, m24.a, m24.b, m24.c, m108.a, m108.b);
    printf("%Lg %g\n", long_double_in_struct((LongDoubleInStruct){2.5L}, 3).a, union8((Union8){.d = 4.5}, 3).d);
    Memory24 c = crowded(1, 2, 3, 4, 5, 6, m24, ti, 2.75, m108);
    printf("%ld %ld %ld\n", c.a, c.b, c.c);
    printf("%.17g\n", variadic("idLlsmdddddddddiiiii", 1, 2.5, 3.5L, 4L, (TwoDoubles){9, 4}, m24, 1., 2., 3., 4., 5., 6., 7., 8.,
                               9., 1, 2, 3, 4, 5));
    printf("%.17g %.17g\n", variadic("iiiiiiiii", 1, 2, 3, 4, 5, 6, 7, 8, 9), variadic("dddddddddd", 1., 2., 3., 4., 5., 6., 7., 8., 9., 10.));
    printf("al %ld %ld %ld\n", rax_at_entry_low_byte(1.0), rax_at_entry_low_byte(1.0, 2.0, 3.0),
           rax_at_entry_low_byte(1., 2., 3., 4., 5., 6., 7., 8., 9.));
    call_with_r10(0); /* a lazy slot: the loader does not keep r10 while it binds */
    printf("alignment %ld, r10 %lx, kept %ld\n", stack_alignment_at_entry(), call_with_r10(0x123456789abcdef), kept());
    set_rounding(FE_UPWARD);
    volatile double one = 1, three = 3;
    double up = one / three;
    int mode = get_rounding();
    set_rounding(FE_TONEAREST);
    printf("rounding %d %.20g %.20g\n", mode == FE_UPWARD, up, one / three);
    return 0;
}
