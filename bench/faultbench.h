/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of faultbench share. */
#ifndef FAULTBENCH_H
#define FAULTBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program.h"

#define PAGE_BYTES	4096UL
#define HUGE_BYTES	(2UL << 20)
#define MAX_THREADS	256

/* One cell: what is done, how often, by how many. */
struct load {
	const char *label;
	const char *kind;	/* "compaction", "pft" or "compile" */
	unsigned long reps;
	unsigned long warmups;
	unsigned long threads;
	unsigned long mb;	/* faulted in by all threads */
	unsigned long node;	/* of compaction: what is fragmented */
	bool mlocked;		/* so is what is in the way there */
	const char *drain;	/* for which folios the LRU is drained; NULL: as it is */
	const char *thp;	/* sizes of folios in KiB, "2048,32"; NULL: as it is */
	const char *commands;	/* of compile: a file with one a line */
};

/* What was seen of one repetition. */
struct sample {
	uint64_t ns;		/* from the first thread's start to the last one's end */
	uint64_t cpu_ns;	/* CPU time of all threads by then, or of the commands */
	uint64_t user_ns;	/* of compile: the part of it outside of the kernel */
	uint64_t bytes;		/* faulted in; of compile, a page for each command */
	uint64_t latency_ns;	/* of compaction: mean of all faults */
	uint64_t verified;	/* bytes looked at */
	uint64_t mismatches;	/* words that were not right */
};

/* faults.c */
bool fault_in(const struct load *load, struct sample *sample);

/* compile.c */
bool compile(const struct load *load, struct sample *sample);

#endif
