// SPDX-License-Identifier: GPL-2.0-only
/* A thread that uses the memory while it moves. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "movebench.h"

static struct {
	pthread_t thread;
	atomic_bool over;
	uint64_t period_ns;
	uint64_t state;		/* of the order in which pages are read */
	uint64_t longest_ns;
	struct waits *waits;
} toucher;

/* Reads a word of one page after the other, in no order, and times each read. */
static void *touch_pages(void *unused)
{
	unsigned long pages = region.bytes >> 12;
	uint64_t due = now_ns();

	(void)unused;
	toucher.longest_ns = 0;
	while (!atomic_load(&toucher.over)) {
		struct timespec until;
		const char *page;
		uint64_t start, end;

		toucher.state = mix(toucher.state + 1);
		page = (const char *)region.start + ((toucher.state % pages) << 12);
		start = now_ns();
		*(volatile const char *)page;
		end = now_ns();
		if (end - start > toucher.longest_ns)
			toucher.longest_ns = end - start;
		/* The reads that were due since then are counted by this, and not made. */
		add_wait(toucher.waits, end - start, toucher.period_ns);
		due += ((end - due) / toucher.period_ns + 1) * toucher.period_ns;
		until = (struct timespec) {
			.tv_sec = due / 1000000000,
			.tv_nsec = due % 1000000000,
		};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return NULL;
}

/*
 * Begins, unless @period_us, the microseconds from one read to the next, is 0.
 * All waits are added to @waits.
 */
void start_touching(unsigned long period_us, struct waits *waits)
{
	toucher.period_ns = period_us * 1000;
	toucher.waits = waits;
	atomic_store(&toucher.over, false);
	if (toucher.period_ns && pthread_create(&toucher.thread, NULL, touch_pages, NULL)) {
		fprintf(stderr, "movebench: cannot start a thread\n");
		exit(EXIT_FAILURE);
	}
}

/* Returns the nanoseconds of the longest read. */
uint64_t stop_touching(void)
{
	atomic_store(&toucher.over, true);
	if (toucher.period_ns)
		pthread_join(toucher.thread, NULL);
	return toucher.longest_ns;
}
