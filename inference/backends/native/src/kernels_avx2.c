/* The kernels with AVX2, FMA and F16C. Compiled for every x86, called only where the CPU has them. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#include <math.h>

#include "kernels.h"
#include "lanes_avx2.h"

static inline ivec add_ints(ivec a, ivec b) { return _mm256_add_epi32(a, b); }

#include "rows.inc.h"

#include "attention.inc.h"
#include "matmul_avx2.inc.h"

#define KERNELS kernels_avx2
#define KERNELS_NAME "AVX2"
#include "table.inc.h"
#endif
