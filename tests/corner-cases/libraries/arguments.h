/* One function per argument and return class of the x86-64 System V calling convention. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H
#include <complex.h>
#include <stdarg.h>
#include <stdint.h>

typedef struct { char a; } Bytes1;
typedef struct { char a[3]; } Bytes3;
typedef struct { short a; int b; } Bytes8;
typedef struct { long a; char b; } Bytes9;
typedef struct { long a, b; } TwoIntegers;
typedef struct { double a, b; } TwoDoubles;
typedef struct { float a, b, c; } ThreeFloats;
typedef struct { long a; double b; } IntegerThenDouble;
typedef struct { double a; long b; } DoubleThenInteger;
typedef struct { float a; int b; double c; } PackedMix;
typedef struct { long a, b, c; } Memory24;
typedef struct { char a[100]; double b; } Memory108;
typedef struct { long double a; } LongDoubleInStruct;
typedef union { double d; long i; } Union8;

#define LIST1(X) X(1)
#define LIST2(X) LIST1(X), X(2)
#define LIST3(X) LIST2(X), X(3)
#define LIST4(X) LIST3(X), X(4)
#define LIST5(X) LIST4(X), X(5)
#define LIST6(X) LIST5(X), X(6)
#define LIST7(X) LIST6(X), X(7)
#define LIST8(X) LIST7(X), X(8)
#define LIST9(X) LIST8(X), X(9)
#define LIST10(X) LIST9(X), X(10)
#define LIST11(X) LIST10(X), X(11)
#define LIST12(X) LIST11(X), X(12)
#define EACH_ARITY(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12)

#define LONG_PARAMETER(n) long a##n
#define DOUBLE_PARAMETER(n) double a##n
#define MIXED_PARAMETER(n) long a##n, double b##n
#define DECLARE(n) \
    long longs##n(LIST##n(LONG_PARAMETER)); \
    double doubles##n(LIST##n(DOUBLE_PARAMETER)); \
    double mixed##n(LIST##n(MIXED_PARAMETER));
EACH_ARITY(DECLARE)

unsigned char narrow(signed char a, unsigned char b, short c, unsigned short d, _Bool e);
float floats(float a, float b, float c, float d, float e, float f, float g, float h, float i);
long double long_doubles(long double a, int b, long double c);
__int128 wide(__int128 a, long b, __int128 c);
float complex complex_float(float complex a, float complex b);
double complex complex_double(double complex a, double complex b);
long double complex complex_long_double(long double complex a, long double complex b);

Bytes1 bytes1(Bytes1 s, int k);
Bytes3 bytes3(Bytes3 s, int k);
Bytes8 bytes8(Bytes8 s, int k);
Bytes9 bytes9(Bytes9 s, int k);
TwoIntegers two_integers(TwoIntegers s, int k);
TwoDoubles two_doubles(TwoDoubles s, int k);
ThreeFloats three_floats(ThreeFloats s, int k);
IntegerThenDouble integer_then_double(IntegerThenDouble s, int k);
DoubleThenInteger double_then_integer(DoubleThenInteger s, int k);
PackedMix packed_mix(PackedMix s, int k);
Memory24 memory24(Memory24 s, int k);
Memory108 memory108(Memory108 s, int k);
LongDoubleInStruct long_double_in_struct(LongDoubleInStruct s, int k);
Union8 union8(Union8 s, int k);
/* Struct in memory after the registers are used up, return through a hidden pointer. */
Memory24 crowded(long a, long b, long c, long d, long e, long f, Memory24 g, TwoIntegers h, double i, Memory108 j);

double variadic(const char *kinds, ...);
double variadic_list(const char *kinds, va_list list);

/* Assembly: what a callee sees at its entry and a caller after the return. */
long rax_at_entry_low_byte(double a, ...);
long stack_alignment_at_entry(void);
long r10_at_entry(void);
long call_with_r10(long value);
long registers_kept_across(void (*callee)(void));
void clobber_everything(void);
int set_rounding(int mode);
int get_rounding(void);
#endif
