/* Threads that compute one step together: busy inside it, asleep outside. */
#ifndef ONDOL_POOL_H
#define ONDOL_POOL_H

typedef struct pool pool;

/* Everything that a step does runs in every thread: the same phases in the same order. */
typedef void (*pool_job)(void *argument, int thread);

pool *pool_create(int threads);
void pool_free(pool *p);
int pool_threads(const pool *p);

/* Run a job in all threads, the caller's among them; back when all have ended. */
void pool_run(pool *p, pool_job job, void *argument);

/* The first of the next `size` tasks of this phase. Tasks are numbered from 0; the caller knows where to stop. */
int pool_take(pool *p, int size);

/* Wait until every thread is here; the next phase begins with task 0. */
void pool_barrier(pool *p);

#endif
