// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that fault memory in, each a part of its own, and free it again.
 *
 * For "pft" every base page is written to once, and what counts is how many of
 * them a second that makes, the freeing included: what is not done when a page is
 * freed must not be done when it is allocated. For "compaction" the first byte of
 * each 2 MB is written to, and the latency of each such fault counts.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "faultbench.h"

/* By the clocks of a thread itself: another one may run only when it is through. */
struct phase {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t cpu_ns;
};

struct faulter {
	pthread_t thread;
	const struct load *load;
	char *map;		/* as it was mapped */
	size_t map_bytes;
	char *start;		/* aligned */
	size_t bytes;
	size_t step;
	uint64_t value;
	struct phase touched;
	struct phase freed;
	uint64_t latency_ns;	/* sum */
	uint64_t faults;
	uint64_t mismatches;
};

static struct faulter faulters[MAX_THREADS];
static pthread_barrier_t barrier;

static bool is_compaction(const struct load *load)
{
	return !strcmp(load->kind, "compaction");
}

static bool map_part(struct faulter *faulter)
{
	uintptr_t aligned;

	faulter->map_bytes = faulter->bytes + HUGE_BYTES;
	faulter->map = mmap(NULL, faulter->map_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (faulter->map == MAP_FAILED) {
		faulter->map = NULL;
		fail("cannot map %zu bytes", faulter->map_bytes);
		return false;
	}
	aligned = ((uintptr_t)faulter->map + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	faulter->start = (char *)aligned;
	if (!is_compaction(faulter->load))
		return true;
	if (madvise(faulter->start, faulter->bytes, MADV_HUGEPAGE) < 0) {
		fail("cannot ask for huge pages");
		return false;
	}
	return bind_memory(faulter->start, faulter->bytes, faulter->load->node);
}

static void touch_part(struct faulter *faulter)
{
	for (size_t offset = 0; offset < faulter->bytes; offset += faulter->step) {
		volatile uint64_t *word = (uint64_t *)(faulter->start + offset);
		uint64_t before = 0;

		if (is_compaction(faulter->load))
			before = clock_ns(CLOCK_MONOTONIC);
		*word = faulter->value + offset;
		if (is_compaction(faulter->load))
			faulter->latency_ns += clock_ns(CLOCK_MONOTONIC) - before;
		faulter->faults++;
	}
}

/* Written words are there, and all others are zero: at the ends of each page. */
static void verify_part(struct faulter *faulter)
{
	for (size_t offset = 0; offset < faulter->bytes; offset += faulter->step) {
		const uint64_t *word = (uint64_t *)(faulter->start + offset);

		faulter->mismatches += word[0] != faulter->value + offset;
		faulter->mismatches += word[1] != 0;
		faulter->mismatches += word[PAGE_BYTES / sizeof(*word) - 1] != 0;
	}
}

static void begin(struct phase *phase)
{
	phase->start_ns = clock_ns(CLOCK_MONOTONIC);
	phase->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void end(struct phase *phase)
{
	phase->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - phase->cpu_ns;
	phase->end_ns = clock_ns(CLOCK_MONOTONIC);
}

static void *run_faulter(void *argument)
{
	struct faulter *faulter = argument;

	pthread_barrier_wait(&barrier);
	begin(&faulter->touched);
	touch_part(faulter);
	end(&faulter->touched);
	pthread_barrier_wait(&barrier);
	verify_part(faulter);
	pthread_barrier_wait(&barrier);
	begin(&faulter->freed);
	munmap(faulter->map, faulter->map_bytes);
	end(&faulter->freed);
	faulter->map = NULL;
	/* The end of a thread must not fall into the work of others. */
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* A phase of all threads: from the first to the last of them, and the CPU time of all. */
static void add_phase(struct sample *sample, unsigned long threads, size_t offset)
{
	uint64_t start = UINT64_MAX, end = 0;

	for (unsigned long i = 0; i < threads; i++) {
		const struct phase *phase = (void *)((char *)&faulters[i] + offset);

		if (phase->start_ns < start)
			start = phase->start_ns;
		if (phase->end_ns > end)
			end = phase->end_ns;
		sample->cpu_ns += phase->cpu_ns;
	}
	sample->ns += end - start;
}

static bool prepare(const struct load *load)
{
	size_t units = load->mb / 2;

	for (unsigned long i = 0; i < load->threads; i++) {
		/* Whole huge pages, as evenly as that can be. */
		size_t mine = units * (i + 1) / load->threads - units * i / load->threads;

		faulters[i] = (struct faulter) {
			.load = load,
			.bytes = mine * HUGE_BYTES,
			.step = is_compaction(load) ? HUGE_BYTES : PAGE_BYTES,
			.value = 0x9e3779b97f4a7c15ULL * (i + 1),
		};
		if (!map_part(&faulters[i]))
			return false;
	}
	return true;
}

bool fault_in(const struct load *load, struct sample *sample)
{
	unsigned long started = 0;
	uint64_t latency_ns = 0, faults = 0;

	if (is_compaction(load) && set_sysfs("/proc/sys/vm/compaction_proactiveness", "0") < 0)
		fail("cannot have nobody else compact memory: %s", strerror(errno));
	if (is_compaction(load) && !fragment_node(load->node, load->mb << 10, load->mlocked))
		return false;
	if (!prepare(load)) {
		drop_fragments();
		return false;
	}
	pthread_barrier_init(&barrier, NULL, load->threads);
	for (; started < load->threads; started++) {
		struct faulter *faulter = &faulters[started];

		if (pthread_create(&faulter->thread, NULL, run_faulter, faulter)) {
			/* Those that run already wait for it for ever. */
			perror("faultbench: cannot start a thread");
			_Exit(2);
		}
	}
	for (unsigned long i = 0; i < load->threads; i++) {
		pthread_join(faulters[i].thread, NULL);
		latency_ns += faulters[i].latency_ns;
		faults += faulters[i].faults;
		sample->bytes += faulters[i].bytes;
		sample->mismatches += faulters[i].mismatches;
	}
	add_phase(sample, load->threads, offsetof(struct faulter, touched));
	if (!is_compaction(load))
		add_phase(sample, load->threads, offsetof(struct faulter, freed));
	sample->verified = faults * 3 * sizeof(uint64_t);
	if (is_compaction(load) && faults)
		sample->latency_ns = latency_ns / faults;
	pthread_barrier_destroy(&barrier);
	drop_fragments();
	return true;
}
