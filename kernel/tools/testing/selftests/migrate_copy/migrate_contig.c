// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that is in the way of a large allocation: hugetlb takes a page of 1 GB
 * from the contiguous memory allocator (CMA), which lends its memory to whoever
 * can be moved away. All of it is moved, nothing is in the new page, and every
 * byte stays right, while others take and free pages of the same blocks.
 *
 * Usage: migrate_contig [MODE]...
 *
 * Needs a machine of two nodes, booted with hugetlb_cma=1:1G, if 1 is the second
 * of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "lib/migrate_test.h"

#define TIMEOUT		300
#define SIZE		(64 * MB)
/* Some page is in use for a moment whenever the kernel looks. */
#define TRIES		200
#define PAUSE_US	20000
/* For how long to try again until helpers have had a part in it. */
#define PATIENCE_S	120
/* How many pages are taken and freed at a time by whoever does only that. */
#define CHURN		(8 * MB)

/* Not ext4: what it keeps of its journal stays where it is for good. */
static const struct kind kinds[] = {
	{ "base", BACK_ANON, OF_PAGES(1), SIZE },
	{ "mthp_64k", BACK_ANON, 64 * KB, SIZE },
	{ "thp", BACK_ANON, 2 * MB, SIZE },
	{ "tmpfs", BACK_TMPFS, OF_PAGES(1), SIZE },
	{ "tmpfs_huge", BACK_TMPFS_HUGE, 2 * MB, SIZE },
	{ "tmpfs_unmapped", BACK_TMPFS, OF_PAGES(1), SIZE, KIND_UNMAPPED },
	{ "mlocked", BACK_ANON, OF_PAGES(1), SIZE, KIND_MLOCK },
};

struct args {
	enum copy_mode mode;
	const struct kind *kind;
};

static uint64_t mem_bytes(const char *name)
{
	/* What the CPUs have counted for themselves. */
	file_write("/proc/sys/vm/stat_refresh", "1");
	return file_count("/proc/meminfo", name) * KB;
}

static char *map_anon(size_t size, int flags)
{
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags,
			 -1, 0);

	require(map != MAP_FAILED, "cannot map: %s", strerror(errno));
	return map;
}

/*
 * Takes memory of a node until the kernel goes on with that of the CMA, which it
 * does when that is more than half of what is free.
 */
static char *take_ballast(int node, size_t *size)
{
	uint64_t before = mem_bytes("CmaFree:");
	size_t step = 4 * MB, at = 0;
	char *map;

	map = node_map_free(node, size);
	while (mem_bytes("CmaFree:") + step / 2 > before) {
		require(at + step <= *size, "the CMA lends nothing");
		memset(map + at, 1, step);
		at += step;
	}
	return map;
}

/* Fills and empties the lists of the CPUs, with pages of all blocks. */
static pid_t start_churn(int node)
{
	pid_t pid = fork();
	size_t at;
	char *map;

	require(pid >= 0, "cannot fork");
	if (pid)
		return pid;
	node_bind(node);
	for (;;) {
		map = map_anon(CHURN, 0);
		madvise(map, CHURN, MADV_HUGEPAGE);
		for (at = 0; at < CHURN; at += PAGE)
			map[at] = 1;
		munmap(map, CHURN);
	}
}

/*
 * How often the kernel had to be asked for a page of 1 GB from the CMA. Where it
 * cannot have that at once, it may find another.
 */
static unsigned int take_gigantic(const char *pool)
{
	unsigned int tries;
	uint64_t nr;

	for (tries = 1; tries <= TRIES; tries++) {
		require(!file_write_number(pool, 1) &&
			!file_read_number(pool, &nr), "cannot use %s", pool);
		if (nr && mem_bytes("CmaFree:") + GB <= mem_bytes("CmaTotal:"))
			return tries;
		file_write_number(pool, 0);
		usleep(PAUSE_US);
	}
	die("no page of 1 GB from the CMA, asked %u times", TRIES);
}

/* A mapping of the page of 1 GB, all of which is written to. */
static char *use_gigantic(int node)
{
	char *map = map_anon(GB, MAP_HUGETLB |
			     __builtin_ctzl(GB) << MAP_HUGE_SHIFT);
	size_t at;

	require(!sys_mbind(map, GB, MPOL_BIND, node, 0), "cannot bind");
	for (at = 0; at < GB; at += PAGE)
		*(uint64_t *)(map + at) = ~0ULL;
	return map;
}

/* Returns whether helpers had a part in it, where they should have. */
static bool clear_the_way(const struct args *args, int node, const char *pool)
{
	size_t moved = 0, nr, size, i;
	uint64_t *before, *after;
	struct evidence ev;
	unsigned int tries;
	struct region r;
	uint64_t first;
	pid_t churn;
	char *map;
	bool helped;

	map = take_ballast(node, &size);
	region_make(&r, args->kind, node, false);
	munmap(map, size);
	/* The one who churns is to have no part in it. */
	if (r.map)
		madvise(r.map, r.size, MADV_DONTFORK);
	nr = region_folios(&r);
	before = calloc(nr, sizeof(*before));
	after = calloc(nr, sizeof(*after));
	require(before && after && region_pfns(&r, before) == nr,
		"cannot tell where it is");

	evidence_start(&ev, args->mode);
	churn = start_churn(node);
	tries = take_gigantic(pool);
	kill(churn, SIGKILL);
	waitpid(churn, NULL, 0);
	map = use_gigantic(node);
	first = page_pfn(map);

	require(first && region_pfns(&r, after) == nr, "cannot tell where it went");
	for (i = 0; i < nr; i++) {
		moved += before[i] != after[i];
		require(before[i] && after[i], "folio %zu of %zu is gone", i, nr);
		require(after[i] < first || after[i] >= first + GB / PAGE,
			"folio %zu of %zu is in the page of 1 GB", i, nr);
	}
	ksft_print_msg("%zu of %zu folios moved, asked %u times\n", moved, nr,
		       tries);
	require(moved, "nothing was in the way");
	require(region_intact(&r), "content");
	helped = evidence_helpers(&ev);
	require(!helped || evidence_check(&ev, moved, r.folio, true), "the mode");
	region_free(&r);
	munmap(map, GB);
	file_write_number(pool, 0);
	free(before);
	free(after);
	return helped;
}

static void test_contig(const void *arg)
{
	const struct args *args = arg;
	unsigned int attempts = 0;
	char pool[128];
	int other, node;
	double start;

	if (mem_bytes("CmaTotal:") < GB)
		skip("no memory for a page of 1 GB: boot with hugetlb_cma=");
	mode_enter(args->mode);
	nodes_find(&node, &other);
	hugetlb_path(pool, sizeof(pool), GB, node, "nr_hugepages");
	if (!file_exists(pool))
		skip("no pages of 1 GB here");
	/* Few folios are soon copied, and CPUs are not always idle. */
	for (start = now(); now() < start + PATIENCE_S; attempts++) {
		if (clear_the_way(args, node, pool))
			return;
	}
	die("no helper copied anything, %u times", attempts);
}

/* The nodes have so many pages of 1 GB. */
static uint64_t gigantic_pages(void)
{
	uint64_t sum = 0, nr;
	char pool[128];
	int node;

	for (node = 0; node < 64; node++) {
		hugetlb_path(pool, sizeof(pool), GB, node, "nr_hugepages");
		if (!file_read_number(pool, &nr))
			sum += nr;
	}
	return sum;
}

/* What a test has taken is given back, however it ended. */
static void release_gigantic(void)
{
	char pool[128];
	int node;

	for (node = 0; node < 64; node++) {
		hugetlb_path(pool, sizeof(pool), GB, node, "nr_hugepages");
		file_write(pool, "0");
	}
}

int main(int argc, char **argv)
{
	unsigned int modes = modes_wanted(argc - 1, argv + 1);
	struct args args;
	char name[128];
	size_t i;

	/* They could not be had again. */
	if (gigantic_pages())
		ksft_exit_skip("this machine has pages of 1 GB of its own\n");
	tests_start(__builtin_popcount(modes) * ARRAY_SIZE(kinds));
	for (args.mode = 0; args.mode < NR_MODES; args.mode++) {
		if (!(modes & 1U << args.mode))
			continue;
		for (i = 0; i < ARRAY_SIZE(kinds); i++) {
			args.kind = &kinds[i];
			snprintf(name, sizeof(name), "%s, %s",
				 mode_names[args.mode], kinds[i].name);
			test_run(name, TIMEOUT, test_contig, &args);
			release_gigantic();
		}
	}
	tests_end();
}
