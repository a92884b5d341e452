/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of movebench share. */
#ifndef MOVEBENCH_H
#define MOVEBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "knobs.h"
#include "meter.h"
#include "program.h"
#include "waits.h"

#define BASE_KB			4UL
#define BASE_SIZE		(BASE_KB << 10)
#define MAX_CALLERS		256
#define MAX_STATUSES		16

struct cell {
	const char *label;
	unsigned long folio_kb;
	unsigned long folios;
	unsigned long reps;		/* timed repetitions, each of one or more moves */
	unsigned long ways;		/* moves of a repetition at least, and what it has multiples of */
	unsigned long at_least_us;	/* a repetition goes on until it has taken so long */
	unsigned long warmups;		/* moves that are not timed */
	unsigned long callers;
	unsigned long from;
	unsigned long to;
	unsigned long seed;
	unsigned long touch_us;
	unsigned long hogs;
	unsigned long meters[MAX_METERS];	/* 0: not measured */
	bool remaps;
	const struct reason *reason;	/* NULL: move_pages(2) is called */
	bool one_way;			/* memory is faulted in again for every move */
	bool helpers_chosen;		/* only CPUs of this node help: */
	unsigned long helpers;
	bool hugetlb;
	const char *knobs[MAX_KNOBS];
	int nr_knobs;
};

/* The memory being moved. It outlives a cell when the next one has the same shape. */
struct region {
	unsigned long folio_kb;
	unsigned long folios;
	unsigned long home;	/* the node it was faulted in on */
	unsigned long node;	/* the node it is on now */
	bool hugetlb;
	void *map;
	size_t map_bytes;
	uint64_t *start;
	size_t bytes;
	uint64_t base;		/* pattern of the first word */
	void **addresses;	/* first byte of each folio */
	int *targets;
	int *status;
};

struct status_count {
	int status;
	uint64_t count;
};

/*
 * Of one move, from its start: when the first folio was accessible again, and
 * the last one; and the longest time for which a folio was not.
 */
struct remaps {
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t away_ns;
};

/* movebench.c */
extern long workers;		/* threads that verify */

/* region.c */
extern struct region region;
void free_region(void);
bool make_region(const struct cell *cell);
bool prepare_region(const struct cell *cell);
bool moves_only_once(const struct cell *cell);
bool check_backing(void);
bool ask_nodes(void);
bool check_nodes(void);
bool read_frames(const void *start, size_t pages, uint64_t *frames);
uint64_t verify_region(uint64_t next_base);

/* move.c */
uint64_t move_region(unsigned long node, unsigned long nr_callers, uint64_t *start_ns,
		     uint64_t *cpu_ns);
uint64_t count_failures(unsigned long node, struct status_count *statuses, int *nr);

/* reason.c */
struct reason;
const struct reason *find_reason(const char *name);
bool prepare_reason(const struct cell *cell);
void clean_up_reason(void);
uint64_t move_by_reason(const struct cell *cell, uint64_t *pages);

/* helpers.c */
bool choose_helpers(unsigned long node);
void leave_helpers(void);

/* touch.c */
void start_touching(unsigned long period_us, struct waits *waits);
uint64_t stop_touching(void);

/* hog.c */
bool have_hogs(unsigned long nr);
bool start_hogs(unsigned long nr);
void resume_hogs(void);
uint64_t pause_hogs(uint64_t busy_ns);
void end_hogs(void);

/* remap.c */
bool start_remaps(void);
bool read_remaps(uint64_t start_ns, struct remaps *remaps);
void end_remaps(void);

/* options.c */
void parse_cell(int argc, char **argv, struct cell *cell, struct run *run);

#endif
