/* Zeroed memory in whole pages: what is never touched costs nothing. */
#ifndef ONDOL_MEMORY_H
#define ONDOL_MEMORY_H

#include <stdlib.h>
#include <sys/mman.h>

static inline void *map_zeros(size_t bytes) {
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(at, bytes, MADV_HUGEPAGE);
#endif
    return at;
}

static inline void unmap(void *at, size_t bytes) {
    if (at) munmap(at, bytes ? bytes : 1);
}

#endif
