/* The high halves of vector registers survive the boundary in both directions. */
#include "../libraries/vectors.h"
#include <stdio.h>

#ifdef __AVX512F__
#define V(x) _mm512_set_pd(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7)
int main(void) {
    for (int round = 0; round < 2000; round++) {
        __m512d r = add512(V(1.), V(2.), V(3.), V(4.), V(5.), V(6.), V(7.), V(8.), V(9. + round));
        __m512i m = mask512((__mmask16)(0xA5C3 + round), _mm512_set1_epi32(round + 1));
        int w[16];
        _mm512_storeu_si512(w, m);
        if (round % 400 == 0) {
            for (int i = 0; i < 8; i++) printf("%g ", r[i]);
            for (int i = 0; i < 16; i++) printf("%d ", w[i]);
            puts("");
        }
    }
}
#else
#define V(x) _mm256_set_pd(x, x + 1, x + 2, x + 3)
int main(void) {
    for (int round = 0; round < 2000; round++) {
        __m256d r = add256(V(1.), V(2.), V(3.), V(4.), V(5.), V(6.), V(7.), V(8.), V(9. + round));
        __m256i m = shuffle256(_mm256_set_epi32(1, 2, 3, 4, 5, 6, 7, 8), round);
        int w[8];
        _mm256_storeu_si256((__m256i *)w, m);
        double v = variadic256(3, V(1.), V(2.), V(3.));
        if (round % 400 == 0) {
            for (int i = 0; i < 4; i++) printf("%g ", r[i]);
            for (int i = 0; i < 8; i++) printf("%d ", w[i]);
            printf("%g\n", v);
        }
    }
}
#endif
