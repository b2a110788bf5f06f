/* The thread pool: see pool.h for what it promises. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A step has hundreds of short phases, so threads wait actively; but not for long on a core that another may need. */
enum { SPINS = 2000, LINE = 64, TASK_BITS = 24 };

static const uint64_t TASKS = ((uint64_t)1 << TASK_BITS) - 1;

typedef struct {
    pool *owner;
    int number;
    pthread_t id;
} member;

struct pool {
    int threads, started;
    _Alignas(LINE) _Atomic uint64_t next; /* the phase, and below it the next task of it */
    _Alignas(LINE) atomic_int done;       /* tasks of the phase */
    _Alignas(LINE) pthread_mutex_t lock;
    pthread_cond_t begins;
    /* Guarded by the lock: the step that runs, or ran last. */
    uint64_t step, first_phase;
    int ending;
    pool_job job;
    char argument[MOST_ARGUMENT];
    member members[];
};

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int pool_take(const pool_place *at, int total, int size, pool_range *range) {
    pool *p = at->owner;
    uint64_t next = atomic_load_explicit(&p->next, memory_order_acquire);
    for (;;) {
        int from = (int)(next & TASKS);
        if (next >> TASK_BITS != at->phase || from >= total) return 0;
        int to = total - from > size ? from + size : total;
        /* Fails when the phase has changed meanwhile, too. */
        if (atomic_compare_exchange_weak_explicit(&p->next, &next, next + (uint64_t)(to - from),
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *range = (pool_range){from, to};
            return 1;
        }
    }
}

void pool_done(const pool_place *at, int total, pool_range range) {
    pool *p = at->owner;
    int count = range.to - range.from;
    if (atomic_fetch_add_explicit(&p->done, count, memory_order_acq_rel) + count < total) return;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->next, (at->phase + 1) << TASK_BITS, memory_order_release);
}

void pool_next_phase(pool_place *at) {
    pool *p = at->owner;
    for (int spins = 0; atomic_load_explicit(&p->next, memory_order_acquire) >> TASK_BITS == at->phase; spins++) {
        if (spins < SPINS)
            pause_briefly();
        else
            sched_yield();
    }
    at->phase++;
}

static void *work(void *argument) {
    member *self = argument;
    pool *p = self->owner;
    uint64_t done = 0;
    for (;;) {
        char copy[MOST_ARGUMENT];
        pthread_mutex_lock(&p->lock);
        while (p->step == done && !p->ending) pthread_cond_wait(&p->begins, &p->lock);
        int ending = p->ending;
        done = p->step;
        pool_job job = p->job;
        pool_place at = {p, p->first_phase, self->number};
        memcpy(copy, p->argument, sizeof copy);
        pthread_mutex_unlock(&p->lock);
        if (ending) return NULL;
        job(copy, &at);
    }
}

void pool_run(pool *p, pool_job job, const void *argument, size_t size) {
    pool_place at = {p, atomic_load(&p->next) >> TASK_BITS, 0};
    if (p->threads > 1) {
        pthread_mutex_lock(&p->lock);
        p->job = job;
        p->first_phase = at.phase;
        memcpy(p->argument, argument, size);
        p->step++;
        pthread_cond_broadcast(&p->begins);
        pthread_mutex_unlock(&p->lock);
    }
    job(argument, &at);
}

pool *pool_create(int threads) {
    size_t size = sizeof(pool) + (size_t)threads * sizeof(member);
    pool *p = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    if (!p) return NULL;
    memset(p, 0, size);
    p->threads = threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->begins, NULL);
    for (int i = 1; i < threads; i++) {
        p->members[i] = (member){.owner = p, .number = i};
        if (pthread_create(&p->members[i].id, NULL, work, &p->members[i])) {
            pool_free(p);
            return NULL;
        }
        p->started++;
    }
    return p;
}

void pool_free(pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ending = 1;
    pthread_cond_broadcast(&p->begins);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++) pthread_join(p->members[i].id, NULL);
    pthread_cond_destroy(&p->begins);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
