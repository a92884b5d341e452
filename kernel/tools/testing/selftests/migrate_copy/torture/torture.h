/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of migrate_torture share.
 */
#ifndef _MIGRATE_TORTURE_H
#define _MIGRATE_TORTURE_H

#include <stdatomic.h>

#include "../lib/migrate_test.h"

#define MAX_WORKERS	16
#define MAX_PAGES	1024
/* From here on every kind of trouble has to come. */
#define LONG_S		600
#define MAX_NODES	8
/* Errors of a page that are told, and those of a call. */
#define NR_ERRORS	134
/* Kinds of trouble, each with a process of its own. */
#define NR_TROUBLES	20
/* So many pages are pinned at once, and so often a turn: a pipe holds as many. */
#define PINNED		16

/* What goes wrong; what the kernel injects is counted by the kernel. */
enum fault {
	FAULT_SLAB,
	FAULT_PAGE_ALLOC,
	FAULT_COPY,
	FAULT_STRETCH,
	FAULT_DMA_TRANSFER,
	FAULT_DMA_DELAY,
	FAULT_DMA_DUPLICATE,
	FAULT_DMA_PREP,
	FAULT_DMA_SUBMIT,
	FAULT_DMA_DEVICE,
	FAULT_CPU_OFFLINE,
	FAULT_MEMORY_OFFLINE,
	FAULT_ENGINE_UNLOAD,
	FAULT_KNOB,
	FAULT_KILL_MOVER,
	FAULT_KILL_VICTIM,
	FAULT_OOM,
	FAULT_FREEZE,
	FAULT_SUSPEND,
	FAULT_RECLAIM,
	FAULT_LIMIT,
	FAULT_COMPACT,
	FAULT_DROP_CACHES,
	FAULT_SOFT_OFFLINE,
	FAULT_KSM,
	FAULT_BALANCING,
	FAULT_PIN,
	FAULT_DAMON,
	NR_FAULTS,
};

enum operation {
	OP_MOVE_PAGES,
	OP_MBIND,
	OP_MIGRATE_PAGES,
	OP_PAGEOUT,
	OP_COLD,
	OP_COLLAPSE,
	OP_MLOCK,
	OP_FORK,
	OP_DISCARD,
	OP_REWRITE,
	OP_PROCESS_VM,
	OP_KSM,
	OP_REMAP,
	OP_VERIFY,
	NR_WORKER_OPERATIONS,
	OP_CPUSET = NR_WORKER_OPERATIONS,
	NR_OPERATIONS,
};

enum slot_kind {
	SLOT_BASE,
	SLOT_MTHP,
	SLOT_THP,
	SLOT_KSM,
	SLOT_SHMEM,
	SLOT_TMPFS,
	SLOT_TMPFS_HUGE,
	SLOT_EXT4,
	SLOT_XFS,
	SLOT_HUGETLB,
	NR_SLOT_KINDS,
};

/* What all processes share. */
struct shared {
	atomic_bool stop;
	atomic_bool faults;
	atomic_ulong injected[NR_FAULTS];
	atomic_ulong done[NR_OPERATIONS];
	atomic_ulong statuses[NR_ERRORS];
	atomic_ulong call_errors[NR_ERRORS];
	atomic_ulong unexpected;
	atomic_ulong died;
	atomic_ulong elsewhere;
	atomic_ulong merged_moved;
	atomic_ulong verified;
	atomic_ulong wrong;
	atomic_ulong at[MAX_WORKERS];
	atomic_int worker_pids[MAX_WORKERS];
	atomic_ulong pages_of_kind[NR_SLOT_KINDS];	/* Verified */
};

/**
 * struct slot - A piece of memory of one process
 * @kind: what it is
 * @map: where it is
 * @pages: its size in base pages
 * @fd: its file, or -1
 * @seed: of its pattern
 * @version: of each page: how often it has been written
 */
struct slot {
	enum slot_kind kind;
	char *map;
	size_t pages;
	int fd;
	uint64_t seed;
	uint32_t version[MAX_PAGES];
};

#define DIRECT_SEED	(0x5eedULL << 40)

/* migrate_torture.c */
extern const char * const fault_names[NR_FAULTS];
extern struct shared *shared;
extern unsigned int seconds;
extern unsigned int nr_workers;
extern uint64_t seed;
extern int nodes[MAX_NODES];
extern int nr_nodes;
extern int files[MAX_WORKERS][NR_SLOT_KINDS];
extern int direct;

/* torture/memory.c */
void fault(enum fault what);
void count_error(atomic_ulong *counts, int err);
void __printf(1, 2) unexpected(const char *fmt, ...);
void turn_start(unsigned int process, uint64_t turn);
bool is_private(const struct slot *s);
void page_fill(const struct slot *s, size_t page, char *at);
void write_pages(struct slot *s, size_t first, size_t nr);
unsigned long bad_words(const struct slot *s, const char *at, size_t page);
void verify(struct slot *s, size_t first, size_t nr);
bool slot_map(struct slot *s, unsigned int worker);

/* torture/workers.c */
int migrate_other(pid_t pid, int from, int to);
void __noreturn worker_main(unsigned int id);

/* torture/trouble.c */
void injections_all(bool on);
void engines_load(void);
void engines_loaded(void);
void engines_unload(bool all);
void __noreturn trouble_main(unsigned int id);
void find_available(void);
bool disturbed(void);

#endif /* _MIGRATE_TORTURE_H */
