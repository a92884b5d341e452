/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the migration tests share: modes of the kernel under test, NUMA nodes,
 * physical addresses, patterns, and memory of every kind to migrate.
 */
#ifndef _MIGRATE_TEST_H
#define _MIGRATE_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "../../kselftest.h"

/* Where the headers are those of another kernel. */
#ifndef MPOL_MF_MOVE_MT
#define MPOL_MF_MOVE_MT	0x8000
#endif

/* Of Linux 6.1, not in every libc. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define KB	1024UL
#define MB	(1024 * KB)
#define GB	(1024 * MB)
/* A base page: 4 KB, or on some architectures up to 64 KB. */
#define PAGE	((size_t)getpagesize())

/*
 * Each test runs in a process of its own, which ends it as failed or skipped,
 * or as passed by returning.
 */
typedef void (*test_fn)(const void *arg);

/* Around all tests; the latter ends the program. */
void tests_start(unsigned int planned);
void __noreturn tests_end(void);
/* For what is no process of its own. */
void test_result(bool ok, const char *name);
void test_skipped(const char *name, const char *why);
void test_run(const char *name, unsigned int seconds, test_fn fn,
	      const void *arg);

/**
 * enum leaks - What kmemleak has found
 * @LEAKS_NONE: nothing
 * @LEAKS_FOUND: something, or it is off
 * @LEAKS_UNKNOWN: this kernel has no kmemleak
 */
enum leaks { LEAKS_NONE, LEAKS_FOUND, LEAKS_UNKNOWN };

/* Has it look, which takes seconds; the latter is a test. */
enum leaks leaks_find(void);
void test_leaks(enum leaks found);
void __noreturn __printf(1, 2) die(const char *fmt, ...);
void __noreturn __printf(1, 2) skip(const char *fmt, ...);
void __printf(2, 3) require(bool ok, const char *fmt, ...);

/**
 * enum copy_mode - How the kernel under test copies folios
 * @MODE_PLAIN: a kernel without /sys/kernel/mm/migrate_copy
 * @MODE_OFF: enabled=0
 * @MODE_BATCH: the caller copies a whole batch, alone
 * @MODE_THREADS: helpers for every copy, smallest chunks, larger batches
 * @MODE_PARALLEL: helpers for whole batches
 */
enum copy_mode { MODE_PLAIN, MODE_OFF, MODE_BATCH, MODE_THREADS, MODE_PARALLEL,
		 NR_MODES };

/* Those modes, as bits; without any name, all that this kernel has. */
unsigned int modes_wanted(int nr, char **names);
extern const char * const mode_names[NR_MODES];

/* Base pages of a batch, but of MODE_THREADS. */
#define BATCH_PAGES	512

/* Puts the kernel in that mode, or skips the test. */
void mode_enter(enum copy_mode mode);
/* Change a constant, in kernels that can do without it; others keep theirs. */
void constant(const char *name, uint64_t value);

/**
 * struct evidence - What the statistics must show that the mode was in use
 * @mode: the mode
 * @folios_before: migrate_copy_folios_copied at the start
 * @caller_before: migrate_copy_bytes_caller at the start
 * @helpers_before: migrate_copy_bytes_helpers at the start
 * @fallback_before: migrate_copy_fallback at the start
 * @sum_before: the sum of all the statistics at the start
 */
struct evidence {
	enum copy_mode mode;
	uint64_t folios_before;
	uint64_t caller_before;
	uint64_t helpers_before;
	uint64_t fallback_before;
	uint64_t sum_before;
};

void evidence_start(struct evidence *ev, enum copy_mode mode);
bool evidence_helpers(const struct evidence *ev);
bool evidence_folios(const struct evidence *ev, size_t folios);
bool evidence_fallback(const struct evidence *ev);
bool evidence_untouched(const struct evidence *ev);
uint64_t stat_read(const char *name);
bool evidence_check(const struct evidence *ev, size_t folios, size_t folio,
		    bool batched);

/* Files: whole small text files, as in procfs and sysfs. */
int file_write(const char *path, const char *text);
int file_write_number(const char *path, uint64_t value);
int file_read(const char *path, char *buf, size_t size);
int file_read_number(const char *path, uint64_t *value);
/* The number after a name that begins a line, or fail the test. */
uint64_t file_count(const char *path, const char *name);
/* Pages that are free when the page cache and the CPUs hold nothing back. */
uint64_t free_pages(void);
/* Bytes of a node that are free. */
uint64_t node_free(int node);
/* As many bytes, to be taken of that node by base pages when they are used. */
char *node_map_free(int node, size_t *size);
bool file_exists(const char *path);
/* 0, or a negative errno. */
int cpu_set_online(int cpu, bool online);
/* A task, or with 0 the calling thread, runs on this CPU only. */
void cpu_pin(pid_t pid, int cpu);
/*
 * A suspend to idle that goes no further than freezing all tasks but the caller,
 * and thaws them at once. -ENOENT if the kernel has no test for that, -EBUSY if a
 * task was not frozen in time.
 */
int suspend_tasks(unsigned int timeout_ms);

/* Copies that bypass the caches: elsewhere the knob accepts only "never". */
#ifdef __x86_64__
#define HAS_NON_TEMPORAL	1
#else
#define HAS_NON_TEMPORAL	0
#endif

#define KNOB_DIR	"/sys/kernel/mm/migrate_copy"
#define ENGINES_DIR	KNOB_DIR "/engines"
/* What dcbm is told, and what softdma is made to fail in. */
#define DCBM_PARAM_DIR	"/sys/module/dcbm/parameters"
#define SOFTDMA_DIR	"/sys/kernel/debug/softdma"
/* What kernels for tests have: constants that can be changed, and windows. */
#define TEST_DIR	"/sys/kernel/debug/migrate_copy"
#define MT_PAGE_COPY	"/proc/sys/vm/mt_page_copy"
/* debugfs and tracefs are mounted for the tests. */
#define TRACING		"/sys/kernel/tracing"
#define EVENTS		TRACING "/events/migrate_copy"

/* Empty the trace. */
void trace_clear(void);

/* Kernel modules, by the path of one and by its name; 0, or -1 and errno. */
int module_load(const char *path, const char *params);
int module_unload(const char *name);
/* Set a knob of a copy engine, or fail the test. */
void engine_knob(const char *engine, const char *knob, uint64_t value);

/* Have engines copy alone, or beside the CPUs. */
void engine_alone(bool alone);

/* Chunks that were lost, and may still be written to. */
uint64_t engine_quarantined(void);

/* How many channels of dcbm can be used. */
unsigned int dcbm_channels(void);

/* The paths of our modules, NULL for none, by -d, -m and -f. */
extern const char *dcbm_path, *mtcopy_path, *softdma_path;
/* Takes one of them; false for another option. */
bool module_option(int option, const char *path);

/* A user without privileges. */
#define NOBODY		65534

/* Seconds, from no point in particular. */
double now(void);

/* Random numbers of a process: the same on every machine, by seed and id. */
void random_start(uint64_t seed, uint64_t id);
uint64_t rnd(uint64_t below);

/* Blocks of memory, as sysfs counts them. */
uint64_t block_pages(void);
bool block_is_movable(uint64_t block);

/* The two nodes between which memory is moved; skips the test without them. */
void nodes_find(int *from, int *to);
/* The first node with CPUs, and one with memory only; false if one is missing. */
bool tiers_find(int *fast, int *slow);
int node_bind(int node);
int node_unbind(void);
/* The node of a page, or a negative error. */
int page_node(void *addr);
/* Number of pages in [addr, addr + size) that are not on the node. */
size_t pages_elsewhere(const void *addr, size_t size, size_t step, int node);

/* What a status holds before the call, and no call stores. */
#define NO_STATUS	12345

int sys_move_pages(int pid, unsigned long nr, void **pages, const int *nodes,
		   int *status, int flags);
/* Asks for every page of a range; returns what the call does, or -errno. */
long move_range(void *addr, size_t size, int node, int flags);
/* The same; also tells how many pages got a status. */
long move_range_stored(void *addr, size_t size, int node, int flags,
		       size_t *stored);
int sys_mbind(const void *addr, unsigned long size, int mode, int node,
	      unsigned int flags);
int sys_migrate_pages(int pid, int from, int to);

/*
 * DAMON moves what is in a range of physical memory to a node (migrate_cold),
 * until it is stopped; the latter returns how often it has moved something.
 */
#define DAMON_DIR	"/sys/kernel/mm/damon/admin/kdamonds"
int damon_start(uint64_t start, uint64_t end, int node);
uint64_t damon_stop(void);

/* Physical addresses. */
/* Bits of /proc/kpageflags. */
#define KPF_LOCKED		0x00001ULL
#define KPF_SWAPCACHE		0x02000ULL
#define KPF_COMPOUND_HEAD	0x08000ULL
#define KPF_COMPOUND_TAIL	0x10000ULL
#define KPF_HWPOISON		0x80000ULL
#define KPF_RESERVED		0x100000000ULL
uint64_t page_pfn(const void *addr);
uint64_t pfn_flags(uint64_t pfn);
void pfn_flags_of(uint64_t pfn, uint64_t *flags, size_t n);
/* Size of the folio at this address in bytes, 0 if there is none. */
size_t folio_size_at(const void *addr);

/* Fault a page in by reading it. */
static inline void touch(const char *p)
{
	asm volatile("" : : "r" (*p) : "memory");
}

/* Patterns: each 8-byte word depends on seed and index, modulo period. */
void pattern_fill(void *addr, size_t size, uint64_t seed, size_t offset,
		  size_t period);
/*
 * Anonymous memory on a node, filled with a pattern: aligned to huge pages, and made
 * of them if thp_only() allows it.
 */
char *node_memory(int node, size_t size, uint64_t seed);
size_t pattern_bad(const void *addr, size_t size, uint64_t seed, size_t offset,
		   size_t period);

enum backing {
	BACK_ANON,
	BACK_SHMEM,
	BACK_TMPFS,
	BACK_TMPFS_HUGE,
	BACK_EXT4,
	BACK_XFS,
	BACK_HUGETLB,
	BACK_HUGETLB_SHARED,
	BACK_MEMFD,
	BACK_RAMFS,
};

/* Properties of a kind of memory. */
#define KIND_SHARED	0x01	/* mapped twice: needs MPOL_MF_MOVE_ALL */
#define KIND_UNMAPPED	0x02	/* page cache without a mapping */
#define KIND_READ_ONLY	0x04	/* private read-only file mapping */
#define KIND_MLOCK	0x08
#define KIND_FORK	0x10
#define KIND_KSM	0x20
#define KIND_SWAPCACHE	0x40
#define KIND_UNBATCHED	0x80	/* copied under locks of its own */

/* The size of a folio, in base pages. */
#define OF_PAGES(n)	(n)

/**
 * struct kind - A kind of memory to migrate
 * @name: for messages
 * @backing: where the pages come from
 * @folio: size of the folios in bytes, or OF_PAGES()
 * @size: bytes in all
 * @flags: KIND_*
 */
struct kind {
	const char *name;
	enum backing backing;
	size_t folio;
	size_t size;
	unsigned int flags;
};

static inline bool kind_is_hugetlb(const struct kind *kind)
{
	return kind->backing == BACK_HUGETLB ||
	       kind->backing == BACK_HUGETLB_SHARED;
}

/**
 * struct region - Memory of a kind, filled with a pattern
 * @kind: its kind
 * @folio: size of its folios in bytes
 * @map: the mapping; NULL while the file is not mapped
 * @size: bytes, holes included
 * @fd: the file, or -1
 * @sparse: twice the size of the kind, but about half of the folios are freed
 * @seed: of the pattern
 * @period: of the pattern in bytes; 0 for none
 * @child: process that shares the memory, or 0
 * @talk: the socket to that process
 */
struct region {
	const struct kind *kind;
	size_t folio;
	char *map;
	size_t size;
	int fd;
	bool sparse;
	uint64_t seed;
	size_t period;
	pid_t child;
	int talk;
};

/* Make a region whose pages are on the node, or skip the test. */
void region_make(struct region *r, const struct kind *kind, int node,
		 bool sparse);
void region_free(struct region *r);
/* Is every byte what it should be, wherever it is mapped? */
bool region_intact(struct region *r);
/* Are all pages of it on the node? Says where they are otherwise. */
bool region_on_node(struct region *r, int node);
bool region_swap_out(struct region *r, int node);
/* Out of all page tables, into the swap cache. */
bool swap_out(char *addr, size_t size, int node);
bool region_swap_in(struct region *r);
/* Fill pfns[] with one entry for each folio that is there; returns how many. */
size_t region_pfns(struct region *r, uint64_t *pfns);
size_t region_folios(const struct region *r);

/* Move a region; returns 0, or -1 having said what was wrong. */
int region_move_pages(struct region *r, int from, int to);
int region_mbind(struct region *r, int from, int to);
int region_migrate_pages(struct region *r, int from, int to);
int region_cpuset(struct region *r, int from, int to);
/* Enter a cpuset with the memory of one node. 0, or a negative errno. */
int cpuset_enter(int node);

/*
 * Cgroups of the tests, in version 2; they are removed at exit. The root is "".
 * Make one that may exist already, with controllers such as "+cpu +memory"; write to
 * a file of it. Both return 0 or a negative errno. The path of a file of it is valid
 * until another one is asked for.
 */
int cgroup_make(const char *group, const char *controllers);
int cgroup_write(const char *group, const char *name, const char *value);
const char *cgroup_file(const char *group, const char *name);
void cgroups_remove(void);

int file_in(enum backing backing, int flags);
/* Let KSM merge what it finds, or stop it. */
bool ksm_run(bool on);
/*
 * Pin the first page of each step: for long, with the file descriptor that is
 * returned, or by references from a pipe, which returns 0 or a negative errno.
 */
int pages_pin(char *addr, size_t size, size_t step);
int pages_splice(char *addr, size_t size, size_t step, int *fds);
/* A swap device of the tests; swap_off() returns 0 or a negative errno. */
void swap_on(void);
int swap_off(void);
void frozen_device(int *dev, int *thaw);
/* Thaw what a test may have left frozen. */
void thaw_all(void);
int direct_file(size_t size, uint64_t seed);

/* A file of the pool of a node with hugetlb pages of a size. */
void hugetlb_path(char *path, size_t size, size_t folio, int node,
		  const char *name);

/* Allow anonymous folios of one size only, or of none (0); or skip the test. */
void thp_only(size_t folio);

/* Of the kernel's own compaction, 0 to 100. */
#define PROACTIVENESS	"/proc/sys/vm/compaction_proactiveness"

/*
 * Make a place for what is mounted, and see to it that only the tests move memory;
 * remember what is restored at exit.
 */
void test_environment(void);

#endif /* _MIGRATE_TEST_H */
