/* Which of the compiled kernels this CPU runs. */
#include "kernels.h"
#include "ondol.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* gcc 12's __builtin_cpu_supports does not know AVX-VNNI: CPUID leaf 7, subleaf 1, EAX bit 4 (Intel SDM vol. 2A). */
static int has_avx_vnni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

/* These also ask whether the operating system keeps the registers. */
static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static int has_avx512_vnni(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

const kernels *choose_kernels(const char *name) {
    const kernels *found[4];
    int count = 0;
#if defined(__x86_64__)
    if (has_avx512_vnni()) found[count++] = &kernels_avx512_vnni;
    if (has_avx2() && has_avx_vnni()) found[count++] = &kernels_avx_vnni;
    if (has_avx2()) found[count++] = &kernels_avx2;
#endif
    found[count++] = &kernels_plain;
    for (int i = 0; i < count; i++)
        if (!name || !*name || !strcmp(name, found[i]->name)) return found[i];
    return NULL;
}

const char *ondol_kernels_name(const char *wanted) {
    const kernels *found = choose_kernels(wanted);
    return found ? found->name : NULL;
}
