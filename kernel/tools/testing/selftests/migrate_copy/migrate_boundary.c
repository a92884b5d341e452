// SPDX-License-Identifier: GPL-2.0-only
/*
 * Machines and moments at the edge: a node that is full, a process that dies
 * while its memory moves, memory that another thread maps then, folios that
 * belong to the pieces of two CPUs, a machine of one node. Both kernels give the
 * same results; every byte stays right, and no memory is lost.
 *
 * Usage: migrate_boundary [MODE]...
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "lib/migrate_test.h"

#define TIMEOUT		600
/* Seconds in which a page that is being compacted is in one place again. */
#define COMPACTED	30
/* What is left free on a full node, and what is to go there. */
#define LEFT		(48 * MB)
#define TOO_MUCH	(96 * MB)
#define DEATHS		40
/* How often something is mapped while a range is bound to a node. */
#define MAPPINGS	20
/* Moves of folios that belong to two pieces, every other one with a page that stays. */
#define LEFTOVER_ROUNDS	6
/* Pages that the kernel may keep to itself after so many deaths. */
#define KEPT		(8 * MB / PAGE)

/* Takes most of what is free on a node; it cannot be swapped out. */
static char *fill_node(int node, size_t *size)
{
	size_t step = 4 * MB, at = 0;
	char *fill;

	/* In small steps: who takes too much of one node is killed. */
	fill = node_map_free(node, size);
	while (node_free(node) > LEFT + step && at + step <= *size) {
		memset(fill + at, 1, step);
		at += step;
	}
	require(node_free(node) <= LEFT + 2 * step, "node %d is not full", node);
	return fill;
}

/*
 * Does the kernel log tell of a helper that has found no memory on a node? Such
 * warnings are limited in number, so it may not where it would.
 */
static bool helper_warned(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	char record[1024];
	bool warned = false;
	ssize_t len;

	require(log >= 0, "cannot read the kernel log");
	/* EPIPE: records have been overwritten before they were read. */
	while ((len = read(log, record, sizeof(record) - 1)) > 0 ||
	       (len < 0 && errno == EPIPE)) {
		if (len < 0)
			continue;
		record[len] = '\0';
		warned |= strstr(record, "kworker/") &&
			  strstr(record, "page allocation failure") &&
			  strstr(record, "__GFP_THISNODE");
	}
	close(log);
	return warned;
}

static size_t on_node(struct region *r, int node)
{
	return r->size / PAGE - pages_elsewhere(r->map, r->size, PAGE, node);
}

/*
 * How many pages are on one node, all others being on another; else SIZE_MAX.
 * While a page is being compacted, as on a full node it may be, it is nowhere.
 */
static size_t split_between(struct region *r, int node, int other)
{
	double end = now() + COMPACTED;
	size_t there;

	do {
		there = on_node(r, node);
		if (there + on_node(r, other) == r->size / PAGE)
			return there;
		usleep(100000);
	} while (now() < end);
	return SIZE_MAX;
}

/*
 * Some of it finds a place, the rest stays where it is, and the call says so: by
 * -ENOMEM, or for huge pages, some of which are split, by how many did not move.
 * Base pages have no status then, not even those that moved.
 * Once there is memory, all of it moves.
 */
static void test_full(const void *arg)
{
	static const struct kind kinds[] = {
		{ "base", BACK_ANON, OF_PAGES(1), TOO_MUCH },
		{ "thp", BACK_ANON, 2 * MB, TOO_MUCH },
	};
	enum copy_mode mode = *(const enum copy_mode *)arg;
	struct region r;
	size_t i, size, stored;
	int from, to;
	char *fill;
	long ret;

	mode_enter(mode);
	nodes_find(&from, &to);
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t nr = TOO_MUCH / PAGE, there;

		region_make(&r, &kinds[i], from, false);
		fill = fill_node(to, &size);
		ret = move_range_stored(r.map, TOO_MUCH, to, MPOL_MF_MOVE,
					&stored);
		there = split_between(&r, to, from);
		require(there != SIZE_MAX, "pages are elsewhere");
		ksft_print_msg("%s: %ld, %zu of %zu pages moved\n", kinds[i].name,
			       ret, there, nr);
		require(ret == -ENOMEM || ret > 0, "the call gave %ld", ret);
		/* The second address of a huge page finds it busy. */
		require(i || (ret == -ENOMEM && !stored),
			"%ld, %zu statuses", ret, stored);
		require(there < nr, "all of it has moved");
		require(region_intact(&r), "content");
		munmap(fill, size);
		require(!region_move_pages(&r, from, to), "not all moved");
		require(region_intact(&r), "content, later");
		region_free(&r);
	}
	require(!helper_warned(), "a helper warns of what the caller decides");
}

/* Has memory, says so, and is to be killed. */
static pid_t start_victim(int node)
{
	static const struct kind kind = {
		"base", BACK_ANON, OF_PAGES(1), 8 * MB
	};
	struct region r;
	int ready[2];
	char byte;
	pid_t pid;

	require(!pipe(ready), "no pipe");
	pid = fork();
	if (!pid) {
		region_make(&r, &kind, node, false);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	require(read(ready[0], &byte, 1) == 1, "no victim");
	close(ready[0]);
	return pid;
}

/*
 * The killer waits a little longer each time, so that death comes before, in the
 * middle of, and after the move.
 */
static void test_dying(const void *arg)
{
	enum copy_mode mode = *(const enum copy_mode *)arg;
	unsigned int before_it = 0, during_it = 0, i;
	uint64_t before = 0, after;
	int from, to;

	mode_enter(mode);
	nodes_find(&from, &to);
	for (i = 0; i < DEATHS; i++) {
		pid_t victim = start_victim(from), killer;
		long ret;

		/* The first times memory is used that stays in use. */
		if (i == DEATHS / 10) {
			kill(victim, SIGKILL);
			waitpid(victim, NULL, 0);
			before = free_pages();
			continue;
		}
		killer = fork();
		if (!killer) {
			usleep(i * 750);
			kill(victim, SIGKILL);
			_exit(0);
		}
		ret = sys_migrate_pages(victim, from, to);
		ret = ret < 0 ? -errno : ret;
		require(ret >= 0 || ret == -ESRCH || ret == -EINVAL,
			"migrate_pages() gave %ld", ret);
		before_it += ret < 0;
		if (waitpid(victim, NULL, WNOHANG) == victim)
			during_it += ret >= 0;
		else
			waitpid(victim, NULL, 0);
		waitpid(killer, NULL, 0);
	}
	after = free_pages();
	ksft_print_msg("%u died before, %u during it, the rest later\n",
		       before_it, during_it);
	require(during_it, "nobody died in the middle");
	require(after + KEPT >= before, "%llu pages are lost",
		(unsigned long long)(before - after));
}

struct binder {
	void *map;
	size_t size;
	int node;
	int error;
	bool done;
};

static void *bind_all(void *arg)
{
	struct binder *b = arg;

	b->error = sys_mbind(b->map, b->size, MPOL_BIND, b->node, MPOL_MF_MOVE) ? errno : 0;
	__atomic_store_n(&b->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * While a thread binds all of a range to a node, another maps something else at the
 * end of it, where it has no such policy: that stays where it is.
 */
static void test_other_mapping(const void *arg)
{
	enum copy_mode mode = *(const enum copy_mode *)arg;
	const size_t size = 32 * MB, rest = 8 * MB;
	int from, to, round;
	char *map, *end;

	mode_enter(mode);
	nodes_find(&from, &to);
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(map != MAP_FAILED && !madvise(map, size, MADV_NOHUGEPAGE), "no memory");
	end = map + size - rest;
	require(!node_bind(from), "cannot be on node %d", from);
	for (round = 0; round < MAPPINGS; round++) {
		struct binder b = { .map = map, .size = size, .node = to };
		pthread_t thread;

		require(!sys_mbind(map, size, MPOL_BIND, from, MPOL_MF_MOVE | MPOL_MF_STRICT),
			"cannot begin: %s", strerror(errno));
		pattern_fill(map, size, round, 0, 0);
		require(!pthread_create(&thread, NULL, bind_all, &b), "no thread");
		while (page_node(map) != to &&
		       !__atomic_load_n(&b.done, __ATOMIC_ACQUIRE))
			;
		require(mmap(end, rest, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == end &&
			!madvise(end, rest, MADV_NOHUGEPAGE), "cannot map the end");
		pattern_fill(end, rest, round + 1, 0, 0);
		pthread_join(thread, NULL);
		require(!b.error, "cannot bind all: %s", strerror(b.error));
		require(!pages_elsewhere(map, size - rest, PAGE, to), "did not move");
		require(!pages_elsewhere(end, rest, PAGE, from),
			"what is mapped since has moved");
		require(!pattern_bad(map, size - rest, round, 0, 0) &&
			!pattern_bad(end, rest, round + 1, 0, 0), "content");
	}
	node_unbind();
	munmap(map, size);
}

/*
 * Memory with huge pages that begin in one page table and end in the next one, on a
 * node. CPUs that share a range take a page table each: one of two has the folio.
 */
static char *straddling(size_t size, size_t huges, int node)
{
	const size_t huge = 2 * MB, at = size - (huges + 1) * huge + huge / 2;
	char *map = mmap(NULL, size + huge, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *thps = mmap(NULL, (huges + 1) * huge, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	require(map != MAP_FAILED && thps != MAP_FAILED, "no memory");
	map = (char *)(((uintptr_t)map + huge - 1) & ~(huge - 1));
	thps = (char *)(((uintptr_t)thps + huge - 1) & ~(huge - 1));
	thp_only(huge);
	require(!madvise(thps, huges * huge, MADV_HUGEPAGE) &&
		!madvise(map, size, MADV_NOHUGEPAGE) && !node_bind(node),
		"cannot allocate on node %d", node);
	pattern_fill(thps, huges * huge, 1, 0, 0);
	for (i = 0; i < huges; i++) {
		if (folio_size_at(thps + i * huge) != huge)
			skip("no huge page to be had");
	}
	require(mremap(thps, huges * huge, huges * huge, MREMAP_MAYMOVE | MREMAP_FIXED,
		       map + at) == map + at, "cannot remap: %s", strerror(errno));
	pattern_fill(map, at, 0, 0, 0);
	pattern_fill(map + at, huges * huge, 1, 0, 0);
	pattern_fill(map + at + huges * huge, size - at - huges * huge, 2, 0, 0);
	node_unbind();
	return map;
}

/*
 * What several CPUs could not isolate or move is left to the call, which moves it, and
 * says so if a page stays.
 */
static void test_leftovers(const void *arg)
{
	const size_t huge = 2 * MB, size = 32 * MB, huges = 6, pinned = 5 * MB;
	const size_t at = size - (huges + 1) * huge + huge / 2;
	enum copy_mode mode = *(const enum copy_mode *)arg;
	int from, to, round, pipes[2];
	char *map, byte[64 * KB];

	if (PAGE != 4 * KB)
		skip("huge pages have another size");
	mode_enter(mode);
	nodes_find(&from, &to);
	require(!pipe(pipes), "no pipe");
	for (round = 0; round < LEFTOVER_ROUNDS; round++) {
		struct iovec part;

		map = straddling(size, huges, from);
		part = (struct iovec){ .iov_base = map + pinned, .iov_len = PAGE };
		if (round % 2) {
			require(vmsplice(pipes[1], &part, 1, 0) == (ssize_t)PAGE,
				"cannot pin: %s", strerror(errno));
			require(sys_mbind(map, size, MPOL_BIND, to,
					  MPOL_MF_MOVE | MPOL_MF_STRICT) < 0 &&
				errno == EIO, "no word of a page that stays");
			require(page_node(map + pinned) == from &&
				pages_elsewhere(map, size, PAGE, to) == 1,
				"other pages stay, too");
			require(read(pipes[0], byte, PAGE) == (ssize_t)PAGE,
				"cannot unpin");
		}
		require(!sys_mbind(map, size, MPOL_BIND, to,
				   MPOL_MF_MOVE | MPOL_MF_STRICT),
			"round %d: %s", round, strerror(errno));
		require(!pages_elsewhere(map, size, PAGE, to), "pages stay");
		require(!pattern_bad(map, at, 0, 0, 0) &&
			!pattern_bad(map + at, huges * huge, 1, 0, 0) &&
			!pattern_bad(map + at + huges * huge, size - at - huges * huge,
				     2, 0, 0), "content");
		munmap(map, size);
	}
}

static void test_one_node(const void *arg)
{
	static const struct kind kind = {
		"base", BACK_ANON, OF_PAGES(1), 4 * MB
	};
	enum copy_mode mode = *(const enum copy_mode *)arg;
	int node = 0, status = -1;
	struct region r;
	void *page;

	mode_enter(mode);
	region_make(&r, &kind, 0, false);
	page = r.map;
	require(!sys_move_pages(0, 1, &page, &node, &status, MPOL_MF_MOVE) &&
		!status, "to where it is: status %d", status);
	node = 1;
	require(sys_move_pages(0, 1, &page, &node, &status, MPOL_MF_MOVE) < 0 &&
		errno == ENODEV, "to a node that there is not: %s",
		strerror(errno));
	require(!sys_mbind(r.map, r.size, MPOL_BIND, 0, MPOL_MF_MOVE),
		"mbind to where it is: %s", strerror(errno));
	require(sys_mbind(r.map, r.size, MPOL_BIND, 1, MPOL_MF_MOVE) < 0 &&
		errno == EINVAL, "mbind to a node that there is not: %s",
		strerror(errno));
	/* The one way to move something here. */
	require(!file_write("/proc/sys/vm/compact_memory", "1"),
		"cannot compact");
	require(region_intact(&r), "content");
	region_free(&r);
}

static const struct {
	const char *name;
	test_fn fn;
	bool one_node;
} tests[] = {
	{ "a full node", test_full, false },
	{ "a process that dies", test_dying, false },
	{ "a mapping of another thread", test_other_mapping, false },
	{ "folios across pieces, and a page that stays", test_leftovers, false },
	{ "one node", test_one_node, true },
};

int main(int argc, char **argv)
{
	unsigned int modes = modes_wanted(argc - 1, argv + 1), planned = 0;
	bool one_node = !file_exists("/sys/devices/system/node/node1");
	enum copy_mode mode;
	char name[128];
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		planned += tests[i].one_node == one_node;
	tests_start(planned * __builtin_popcount(modes));
	for (mode = 0; mode < NR_MODES; mode++) {
		for (i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
			if (!(modes & 1U << mode) ||
			    tests[i].one_node != one_node)
				continue;
			snprintf(name, sizeof(name), "%s, %s", mode_names[mode],
				 tests[i].name);
			test_run(name, TIMEOUT, tests[i].fn, &mode);
		}
	}
	tests_end();
}
