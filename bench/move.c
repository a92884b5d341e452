// SPDX-License-Identifier: GPL-2.0-only
/* Moving the memory with move_pages(2). */
#include <errno.h>
#include <linux/mempolicy.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "movebench.h"

#define STATUS_UNSET		INT_MIN

static cpu_set_t allowed_cpus;	/* those of this process when a move began */

struct caller {
	const struct region *region;
	unsigned long first;
	unsigned long folios;
	unsigned long index;
	pthread_barrier_t *barrier;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t cpu_ns;
	long rc;
	int error;
};

/*
 * Callers have a CPU each, as far as there are some: they are measured in the kernel,
 * wherever the scheduler would happen to put them. A small move may take twice as
 * long on another CPU: the kernel drains its lists on the CPU where it begins.
 */
static void take_cpu(unsigned long index)
{
	cpu_set_t wanted;
	unsigned long left = index % CPU_COUNT(&allowed_cpus);

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed_cpus) || left--)
			continue;
		CPU_ZERO(&wanted);
		CPU_SET(cpu, &wanted);
		if (sched_setaffinity(0, sizeof(wanted), &wanted) < 0)
			perror("movebench: sched_setaffinity");
		return;
	}
}

static void *call_move_pages(void *argument)
{
	struct caller *caller = argument;
	const struct region *r = caller->region;

	take_cpu(caller->index);
	if (caller->barrier)
		pthread_barrier_wait(caller->barrier);
	caller->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	caller->start_ns = now_ns();
	caller->rc = syscall(SYS_move_pages, 0, caller->folios, r->addresses + caller->first,
			     r->targets + caller->first, r->status + caller->first,
			     MPOL_MF_MOVE);
	caller->error = errno;
	caller->end_ns = now_ns();
	caller->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - caller->cpu_ns;
	return NULL;
}

/*
 * Moves the whole region to @node once. Returns the nanoseconds between the
 * first caller's start, which *@start_ns tells, and the last one's end; 0 when
 * a call failed. *@cpu_ns is the CPU time of all calls: each thread asks for its own,
 * that of the process lacks what others have used since their last tick.
 */
uint64_t move_region(unsigned long node, unsigned long nr_callers, uint64_t *start_ns,
		     uint64_t *cpu_ns)
{
	struct caller callers[MAX_CALLERS];
	pthread_t threads[MAX_CALLERS];
	pthread_barrier_t barrier;
	unsigned long first = 0;
	uint64_t start = UINT64_MAX, end = 0;

	if (nr_callers > region.folios)
		nr_callers = region.folios;
	for (unsigned long i = 0; i < region.folios; i++) {
		region.targets[i] = node;
		region.status[i] = STATUS_UNSET;
	}
	if (sched_getaffinity(0, sizeof(allowed_cpus), &allowed_cpus) < 0) {
		fail("sched_getaffinity: %s", strerror(errno));
		return 0;
	}
	pthread_barrier_init(&barrier, NULL, nr_callers);
	for (unsigned long i = 0; i < nr_callers; i++) {
		unsigned long last = region.folios * (i + 1) / nr_callers;

		callers[i] = (struct caller) {
			.region = &region,
			.first = first,
			.folios = last - first,
			.index = i,
			.barrier = nr_callers > 1 ? &barrier : NULL,
		};
		first = last;
	}
	for (unsigned long i = 1; i < nr_callers; i++) {
		if (pthread_create(&threads[i], NULL, call_move_pages, &callers[i])) {
			fprintf(stderr, "movebench: cannot start a thread\n");
			exit(EXIT_FAILURE);
		}
	}
	call_move_pages(&callers[0]);
	for (unsigned long i = 1; i < nr_callers; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	if (sched_setaffinity(0, sizeof(allowed_cpus), &allowed_cpus) < 0)
		perror("movebench: sched_setaffinity");

	*cpu_ns = 0;
	for (unsigned long i = 0; i < nr_callers; i++) {
		*cpu_ns += callers[i].cpu_ns;
		if (callers[i].rc < 0) {
			fail("move_pages: %s", strerror(callers[i].error));
			return 0;
		}
		if (callers[i].start_ns < start)
			start = callers[i].start_ns;
		if (callers[i].end_ns > end)
			end = callers[i].end_ns;
	}
	*start_ns = start;
	return end > start ? end - start : 1;
}

/* Counts the folios that did not arrive, by the status the kernel gave. */
uint64_t count_failures(unsigned long node, struct status_count *statuses, int *nr)
{
	uint64_t failures = 0;

	for (unsigned long i = 0; i < region.folios; i++) {
		int j;

		if (region.status[i] == (int)node)
			continue;
		failures++;
		for (j = 0; j < *nr; j++)
			if (statuses[j].status == region.status[i])
				break;
		if (j == *nr) {
			if (*nr == MAX_STATUSES)
				continue;
			statuses[(*nr)++] = (struct status_count) { .status = region.status[i] };
		}
		statuses[j].count++;
	}
	return failures;
}
