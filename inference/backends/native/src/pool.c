/* The thread pool. A step has hundreds of short phases, so its threads wait for each other actively; but they give
 * up the core after a moment, since on a household's machine something else may need it to let the others come. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 2000, LINE = 64 };

typedef struct {
    pool *owner;
    int number;
    pthread_t id;
} member;

struct pool {
    int threads, started;
    _Alignas(LINE) atomic_int next;
    _Alignas(LINE) atomic_int arrived;
    _Alignas(LINE) atomic_uint phase;
    _Alignas(LINE) pthread_mutex_t lock;
    pthread_cond_t begins;
    unsigned long step; /* guarded by lock, as are the three below */
    int ending;
    pool_job job;
    void *argument;
    member members[];
};

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void pool_barrier(pool *p) {
    unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == p->threads) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&p->next, 0, memory_order_relaxed);
        atomic_store_explicit(&p->phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&p->phase, memory_order_acquire) == phase; spins++) {
        if (spins < SPINS)
            pause_briefly();
        else
            sched_yield();
    }
}

int pool_take(pool *p, int size) { return atomic_fetch_add_explicit(&p->next, size, memory_order_relaxed); }

int pool_threads(const pool *p) { return p->threads; }

static void *work(void *argument) {
    member *self = argument;
    pool *p = self->owner;
    unsigned long done = 0;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        while (p->step == done && !p->ending) pthread_cond_wait(&p->begins, &p->lock);
        int ending = p->ending;
        done = p->step;
        pool_job job = p->job;
        void *with = p->argument;
        pthread_mutex_unlock(&p->lock);
        if (ending) return NULL;
        job(with, self->number);
        pool_barrier(p);
    }
}

void pool_run(pool *p, pool_job job, void *argument) {
    if (p->threads > 1) {
        pthread_mutex_lock(&p->lock);
        p->job = job;
        p->argument = argument;
        p->step++;
        pthread_cond_broadcast(&p->begins);
        pthread_mutex_unlock(&p->lock);
    }
    job(argument, 0);
    pool_barrier(p);
}

pool *pool_create(int threads) {
    size_t size = sizeof(pool) + (size_t)threads * sizeof(member);
    pool *p = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    if (!p) return NULL;
    *p = (pool){.threads = threads, .started = 0};
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
