#include "vectors.h"
#include <stdarg.h>
#ifdef __AVX512F__
__m512d add512(__m512d a, __m512d b, __m512d c, __m512d d, __m512d e, __m512d f, __m512d g, __m512d h, __m512d i) {
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9;
}
__m512i mask512(__mmask16 mask, __m512i a) { return _mm512_mask_add_epi32(a, mask, a, a); }
#else
__m256d add256(__m256d a, __m256d b, __m256d c, __m256d d, __m256d e, __m256d f, __m256d g, __m256d h, __m256d i) {
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9;
}
__m256i shuffle256(__m256i a, int k) { return _mm256_add_epi32(a, _mm256_set1_epi32(k)); }
double variadic256(int n, ...) {
    va_list list;
    va_start(list, n);
    double sum = 0;
    while (n--) {
        __m256d v = va_arg(list, __m256d);
        sum += v[0] + 2 * v[1] + 3 * v[2] + 4 * v[3];
    }
    va_end(list);
    return sum;
}
#endif
