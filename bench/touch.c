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
	unsigned long pause_us;
	uint64_t state;		/* of the order in which pages are read */
	uint64_t longest_ns;
} toucher;

/* Reads a word of one page after the other, in no order, and times each read. */
static void *touch_pages(void *unused)
{
	const struct timespec pause = { .tv_nsec = toucher.pause_us * 1000 };
	unsigned long pages = region.bytes >> 12;

	(void)unused;
	toucher.longest_ns = 0;
	while (!atomic_load(&toucher.over)) {
		const char *page;
		uint64_t start, ns;

		toucher.state = mix(toucher.state + 1);
		page = (const char *)region.start + ((toucher.state % pages) << 12);
		start = now_ns();
		*(volatile const char *)page;
		ns = now_ns() - start;
		if (ns > toucher.longest_ns)
			toucher.longest_ns = ns;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Begins, unless @pause_us, the microseconds between two reads, is 0. */
void start_touching(unsigned long pause_us)
{
	toucher.pause_us = pause_us;
	atomic_store(&toucher.over, false);
	if (toucher.pause_us && pthread_create(&toucher.thread, NULL, touch_pages, NULL)) {
		fprintf(stderr, "movebench: cannot start a thread\n");
		exit(EXIT_FAILURE);
	}
}

/* Returns the nanoseconds of the longest read. */
uint64_t stop_touching(void)
{
	atomic_store(&toucher.over, true);
	if (toucher.pause_us)
		pthread_join(toucher.thread, NULL);
	return toucher.longest_ns;
}
