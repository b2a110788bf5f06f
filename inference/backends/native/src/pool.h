/* Threads that compute one step together: busy inside it, asleep outside.
 *
 * A step is a list of phases, and a phase a number of tasks. Every thread runs the same code and takes tasks as it
 * comes. A phase is over when its tasks are done, not when all threads have come by: one that had to give its core
 * to something else holds nobody up unless it was inside a task. When it is back it runs past the phases that are
 * over, and past the rest of a step that is. */
#ifndef ONDOL_POOL_H
#define ONDOL_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct pool pool;

/* Where one thread is: it may be behind. */
typedef struct {
    pool *owner;
    uint64_t phase;
    int thread;
} pool_place;

typedef struct {
    int from, to;
} pool_range;

/* What every thread runs in a step; `argument` is its own copy. A thread that is behind runs it when the step is over
 * and its data is gone: outside of tasks it may look at `argument` and at what never changes, at nothing else. */
typedef void (*pool_job)(const void *argument, pool_place *at);

enum { MOST_ARGUMENT = 256 };

pool *pool_create(int threads);
void pool_free(pool *p);

/* Run a step. Back when its last phase is over. */
void pool_run(pool *p, pool_job job, const void *argument, size_t size);

/* The next tasks of this phase, at most `size` of `total`; 0 when all are taken or the phase is over. */
int pool_take(const pool_place *at, int total, int size, pool_range *range);

/* These tasks are done. */
void pool_done(const pool_place *at, int total, pool_range range);

/* Wait until the phase is over, and go on to the next. */
void pool_next_phase(pool_place *at);

/* Do tasks 0..total of the next phase, `size` at a time. */
#define EACH_TASK(task, at, total, size)                                                \
    for (pool_range task##_range; pool_take((at), (total), (size), &task##_range) ||     \
                                  (pool_next_phase(at), 0);                              \
         pool_done((at), (total), task##_range))                                         \
        for (int task = task##_range.from; task < task##_range.to; task++)

#endif
