/* As with AVX2, and the 8-bit dot product that most CPUs since 2021 have without AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,avxvnni")
#include <math.h>

#include "kernels.h"
#include "lanes_avx2.h"

#define DOT_INT8 _mm256_dpbusd_avx_epi32

static inline ivec add_ints(ivec a, ivec b) { return _mm256_add_epi32(a, b); }

#include "rows.inc.h"

#include "attention.inc.h"
#include "matmul_avx2.inc.h"

#define KERNELS kernels_avx_vnni
#define KERNELS_NAME "AVX-VNNI"
#include "table.inc.h"
#endif
