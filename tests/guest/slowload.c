// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long the simulator lets a load take that no cache answers: on node 0, and on
 * node 1, which has no CPUs. Arguments: what it has to be there, in ns. TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../bench/mark.h"

#define BYTES		(4UL << 20)
#define LINE_WORDS	8
#define LOADS		(BYTES / sizeof(uint64_t) / LINE_WORDS)
/* Of linux/mempolicy.h, which not every host has. */
#define BIND		2
/* The two loops may differ by so many instructions. */
#define ABOUT_NS	3

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* How much longer than any other a load takes that no cache has; negative: an error. */
static double load_ns(unsigned long node)
{
	unsigned long mask = 1UL << node, wrong = 0;
	uint64_t *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	double begin, usual, missed;

	if (words == MAP_FAILED || syscall(SYS_mbind, words, BYTES, BIND, &mask, 64UL, 0UL))
		return -1;
	memset(words, 1, BYTES);
	begin = now_ns();
	for (size_t i = 0; i < LOADS; i++)
		wrong += ((volatile uint64_t *)words)[i * LINE_WORDS] != 0x0101010101010101;
	usual = now_ns() - begin;
	begin = now_ns();
	for (size_t i = 0; i < LOADS; i++)
		wrong += !missed_is(&words[i * LINE_WORDS], 0x0101010101010101);
	missed = now_ns() - begin;
	munmap(words, BYTES);
	return wrong ? -1 : (missed - usual) / LOADS;
}

int main(int argc, char **argv)
{
	int failed = 0;

	printf("TAP version 13\n1..%d\n", argc - 1);
	for (int node = 0; node < argc - 1; node++) {
		double expected = atof(argv[node + 1]), found = load_ns(node);
		int good = found > expected - ABOUT_NS && found < expected + ABOUT_NS;

		if (!good)
			printf("# %.1f ns instead of %.0f\n", found, expected);
		printf("%sok %d - a load from node %d takes as long as the model says\n",
		       good ? "" : "not ", node + 1, node);
		failed += !good;
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
