/* SPDX-License-Identifier: GPL-2.0-only */
/* What the threads of a program do, each step after step: see threads.c. */
#ifndef JOB_H
#define JOB_H

#include <pthread.h>

#include "workbench.h"

struct worker {
	pthread_t thread;
	unsigned int number;
	uint64_t seed;
	uint64_t due_ns;
	uint64_t steps[2];		/* before the shift, and after it */
	struct load load;		/* What it has done */
};

/* The program: its memory, and its threads. */
struct crew {
	void *memory;
	size_t bytes;
	struct worker workers[MAX_THREADS];
	unsigned int nr_workers;
	uint64_t period_ns;		/* of a thread */
	unsigned long cold;		/* of 100 items */
	volatile bool shifted;		/* The second half is the hot one */
	volatile bool enough;
};

extern struct crew crew;

/*
 * A thread has items of its own, so that what it finds can only be what it left there.
 * All but @step are called by one thread, while the others do not work.
 */
struct job {
	bool (*prepare)(void);
	void (*fill)(void);
	void (*begin)(struct worker *worker);	/* before its first step; or NULL */
	void (*step)(struct worker *worker, bool shifted);
	/* Whether everything is as it should be, also what was not looked at. */
	void (*check)(struct load *sum);
};

/* job_pages.c, job_gups.c, job_bfs.c */
extern const struct job touch_pages, update_words, search_graph;

/* One of @nr items of @worker, of all threads together; most are in the hot half. */
static inline size_t pick(struct worker *worker, size_t nr, bool shifted)
{
	size_t half = nr / 2 / crew.nr_workers;
	size_t at = next_random(&worker->seed) % half;

	if (((worker->seed >> 40) % 100 < crew.cold) != shifted)
		at += half;
	return at * crew.nr_workers + worker->number;
}

#endif
