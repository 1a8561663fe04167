/* Vector arguments and returns in 256- and 512-bit registers. */
#include <immintrin.h>
#ifdef __AVX512F__
__m512d add512(__m512d a, __m512d b, __m512d c, __m512d d, __m512d e, __m512d f, __m512d g, __m512d h, __m512d i);
__m512i mask512(__mmask16 mask, __m512i a);
#else
__m256d add256(__m256d a, __m256d b, __m256d c, __m256d d, __m256d e, __m256d f, __m256d g, __m256d h, __m256d i);
__m256i shuffle256(__m256i a, int k);
double variadic256(int n, ...);
#endif
