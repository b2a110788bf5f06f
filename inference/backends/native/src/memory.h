/* Zeroed memory in whole pages: what is never touched costs nothing. */
#ifndef ONDOL_MEMORY_H
#define ONDOL_MEMORY_H

#include <stdint.h>
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

/* Room for many matrices in one piece. The kernel gives large pages to large pieces only, and with them a step reads
 * its weights a quarter faster. */
typedef struct {
    uint8_t *base;
    size_t size, used;
} arena;

static inline void *take_from(arena *a, size_t bytes) {
    size_t whole = (bytes + 63) / 64 * 64;
    if (!a || a->size - a->used < whole) return NULL;
    a->used += whole;
    return a->base + a->used - whole;
}

static inline void unmap(void *at, size_t bytes) {
    if (at) munmap(at, bytes ? bytes : 1);
}

#endif
