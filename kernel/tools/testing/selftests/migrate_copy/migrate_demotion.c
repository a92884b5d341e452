// SPDX-License-Identifier: GPL-2.0-only
/*
 * Demotion while reclaim goes on: what memory.reclaim and kswapd take from fast
 * memory arrives in slow memory, intact and correctly counted, and what cannot be
 * demoted stays, with each way of finding what has not been used.
 *
 * Needs a node without CPUs that is a slower tier.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define TIMEOUT		120
#define PATIENCE_S	30
#define LRU_GEN		"/sys/kernel/mm/lru_gen/enabled"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define HUGETLB_POOL	"/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages"
#define SEED		78
/* What reclaim may do too much, or too little, by its own rounding. */
#define NEARLY(n)	((n) / 8)
/* Pages of a process besides the memory of the test. */
#define OTHERS		32

static int fast, slow;

/* What a cgroup, or the machine, has counted. */
struct counts {
	uint64_t demoted, stolen, helped, isolated;
};

static uint64_t count_all(const char *path, const char * const *names)
{
	uint64_t sum = 0;

	for (; *names; names++)
		sum += file_count(path, *names);
	return sum;
}

static struct counts count(const char *group)
{
	static const char * const demoted[] = {
		"pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged",
		"pgdemote_proactive", NULL
	};
	struct counts c;

	/* What a CPU has counted is in /proc/vmstat up to a second later. */
	file_write("/proc/sys/vm/stat_refresh", "1");
	c.demoted = count_all(cgroup_file(group, "memory.stat"), demoted);
	c.stolen = file_count(cgroup_file(group, "memory.stat"), "pgsteal");
	c.helped = file_count("/proc/vmstat", "migrate_copy_pages_helpers");
	c.isolated = file_count("/proc/vmstat", "nr_isolated_anon") +
		     file_count("/proc/vmstat", "nr_isolated_file");
	return c;
}

static void enter(const char *group)
{
	require(!cgroup_make(group, "+memory"), "no cgroup %s", group);
	require(!cgroup_write(group, "cgroup.procs", "0"), "cannot enter %s", group);
}

/* Memory of the fast node that nobody uses after it has been written. */
static char *written_memory(size_t size, uint64_t seed)
{
	char *p = node_memory(fast, size, seed);

	madvise(p, size, MADV_COLD);
	return p;
}

static char *cold_memory(size_t size, uint64_t seed)
{
	char *p = written_memory(size, seed);

	require(!pages_elsewhere(p, size, PAGE, fast), "not on the fast node");
	return p;
}

static size_t pages_slow(const char *p, size_t size)
{
	return size / PAGE - pages_elsewhere(p, size, PAGE, slow);
}

/* Reclaim from a cgroup; returns what memory.reclaim says. */
static int reclaim_from(const char *group, size_t size)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", size);
	return cgroup_write(group, "memory.reclaim", text);
}

static void require_intact(const char *p, size_t size, uint64_t seed)
{
	require(!pattern_bad(p, size, seed, 0, 0), "the content has changed");
}

/* The counters must match the pages that were demoted, and no page stay isolated. */
static void require_counted(const char *group, const struct counts *before, size_t pages)
{
	struct counts after = count(group);
	uint64_t demoted = after.demoted - before->demoted;
	uint64_t stolen = after.stolen - before->stolen;

	require(demoted >= pages && demoted <= pages + OTHERS, "%llu pages counted, %zu demoted",
		(unsigned long long)demoted, pages);
	/* Some of the others are freed instead. */
	require(stolen >= demoted && stolen <= demoted + OTHERS, "%llu pages stolen, %llu demoted",
		(unsigned long long)stolen, (unsigned long long)demoted);
	require(after.isolated <= before->isolated, "%llu pages are isolated, %llu before",
		(unsigned long long)after.isolated, (unsigned long long)before->isolated);
}

/* --- what is demoted --- */

static void demotes(const void *arg)
{
	const size_t folio = *(const size_t *)arg, size = 64 * MB, wanted = 48 * MB;
	struct counts before;
	size_t pages;
	char *p;

	thp_only(folio == PAGE ? 0 : folio);
	enter("demotion");
	p = cold_memory(size, SEED);
	before = count("demotion");
	require(!reclaim_from("demotion", wanted), "memory.reclaim has failed");
	pages = pages_slow(p, size);
	require(pages >= (wanted - NEARLY(wanted)) / PAGE, "only %zu pages were demoted", pages);
	require(pages <= (wanted + NEARLY(wanted)) / PAGE, "%zu pages were demoted", pages);
	require_counted("demotion", &before, pages);
	require_intact(p, size, SEED);
	require(count("demotion").helped - before.helped > pages / 16,
		"helpers have demoted only %llu of %zu pages",
		(unsigned long long)(count("demotion").helped - before.helped), pages);
}

/* Two cgroups below the one that is reclaimed: each counts its own pages. */
static void of_two_cgroups(const void *arg)
{
	static const char * const group[] = { "both/a", "both/b" };
	const size_t size = 32 * MB;
	struct counts before[2];
	size_t pages[2];
	char *p[2];
	int i;

	thp_only(0);
	require(!cgroup_make("both", "+memory"), "no cgroup");
	require(!cgroup_write("both", "cgroup.subtree_control", "+memory"), "no controllers");
	for (i = 0; i < 2; i++) {
		enter(group[i]);
		p[i] = cold_memory(size, SEED + i);
		before[i] = count(group[i]);
	}
	require(!reclaim_from("both", size), "memory.reclaim has failed");
	for (i = 0; i < 2; i++) {
		pages[i] = pages_slow(p[i], size);
		require_counted(group[i], &before[i], pages[i]);
		require_intact(p[i], size, SEED + i);
	}
	require((pages[0] + pages[1]) * PAGE >= size - NEARLY(size),
		"only %zu and %zu pages were demoted", pages[0], pages[1]);
}

/* --- what is not --- */

/* Whether a test uses a page: some pages have used neighbours, others have not. */
static bool in_use(size_t page)
{
	return page % 5 == 0 || page % 7 == 3;
}

/* Pages that have been used since stay, and those between them are demoted. */
static void between_used(const void *arg)
{
	const size_t size = 32 * MB, wanted = 12 * MB;
	size_t page, nr_used = 0, nr_demoted;
	char *p;

	thp_only(0);
	enter("demotion");
	p = cold_memory(size, SEED);
	for (page = 0; page < size / PAGE; page++)
		if (in_use(page))
			touch(p + page * PAGE);
	require(!reclaim_from("demotion", wanted), "memory.reclaim has failed");
	nr_demoted = pages_slow(p, size);
	for (page = 0; page < size / PAGE; page++)
		if (in_use(page))
			nr_used += page_node(p + page * PAGE) != fast;
	require(nr_demoted >= (wanted - NEARLY(wanted)) / PAGE, "only %zu pages were demoted",
		nr_demoted);
	require(!nr_used, "%zu of %zu pages were demoted although they are in use", nr_used,
		nr_demoted);
	require_intact(p, size, SEED);
}

/* Every second page is pinned: the others are demoted, and reclaim comes to an end. */
static void half_pinned(const void *arg)
{
	const size_t size = 32 * MB;
	struct counts before;
	double start = now();
	size_t pages;
	char *p;
	int ring;

	thp_only(0);
	enter("demotion");
	p = cold_memory(size, SEED);
	ring = pages_pin(p, size, 2 * PAGE);
	before = count("demotion");
	require(reclaim_from("demotion", size) == -EAGAIN, "memory.reclaim has not failed");
	pages = pages_slow(p, size);
	require(pages <= size / PAGE / 2, "pinned pages were demoted");
	require(pages >= size / PAGE / 2 - NEARLY(size / PAGE),
		"only %zu pages that are not pinned were demoted", pages);
	require_counted("demotion", &before, pages);
	require_intact(p, size, SEED);
	close(ring);
	/* Pages that were put back can be demoted once they are unpinned. */
	while (pages_slow(p, size) < (size - NEARLY(size)) / PAGE) {
		require(now() - start < PATIENCE_S, "only %zu pages were demoted later",
			pages_slow(p, size));
		madvise(p, size, MADV_COLD);
		reclaim_from("demotion", size);
		usleep(1000);
	}
}

/* No room on the slow node: hugetlb pages have nearly all of it. */
static void full(const void *arg)
{
	const size_t size = 32 * MB;
	char path[128], *p;
	struct counts before;
	uint64_t room;
	size_t pages;

	thp_only(0);
	enter("demotion");
	p = cold_memory(size, SEED);
	snprintf(path, sizeof(path), HUGETLB_POOL, slow);
	require(!file_write_number(path, node_free(slow) / (2 * MB)), "cannot fill the node");
	room = node_free(slow);
	before = count("demotion");
	require(room > size || reclaim_from("demotion", size), "memory.reclaim has not failed");
	pages = pages_slow(p, size);
	file_write(path, "0");
	require(pages * PAGE <= room, "%zu pages in %llu bytes", pages, (unsigned long long)room);
	require_counted("demotion", &before, pages);
	require_intact(p, size, SEED);
	if (room > size)
		skip("the slow node still has %llu MB", (unsigned long long)(room / MB));
}

/* Programs map, fork, lock and exit while their memory is demoted. */
static void restless(const void *arg)
{
	const size_t size = 8 * MB;
	double start = now();
	int status, i;
	pid_t pid[4];

	thp_only(0);
	enter("demotion");
	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		random_start(SEED, i);
		while (now() - start < 4) {
			char *p = written_memory(size, SEED + i);

			usleep(rnd(20000));
			if (rnd(2) && !fork()) {
				require_intact(p, size, SEED + i);
				_exit(0);
			}
			if (rnd(2))
				mlock(p, size / 2);
			if (rnd(2))
				mprotect(p, size / 2, PROT_READ);
			require_intact(p, size, SEED + i);
			munmap(p, size);
			while (waitpid(-1, &status, WNOHANG) > 0)
				require(!status, "a child found other content");
		}
		while (wait(&status) > 0)
			require(!status, "a child found other content");
		_exit(0);
	}
	while (now() - start < 4)
		reclaim_from("demotion", 16 * MB);
	for (i = 0; i < 4; i++)
		require(waitpid(pid[i], &status, 0) == pid[i] && !status, "a process failed");
}

/* kswapd demotes for those who allocate. */
static void by_kswapd(const void *arg)
{
	const size_t cold = 64 * MB;
	uint64_t spare, before;
	char path[128], *p, *q;
	size_t size;

	thp_only(0);
	enter("demotion");
	p = cold_memory(cold, SEED);
	/* Not all of the node has to be written. */
	snprintf(path, sizeof(path), HUGETLB_POOL, fast);
	spare = node_free(fast);
	require(!file_write_number(path, spare > 192 * MB ? (spare - 192 * MB) / (2 * MB) : 0),
		"cannot fill the node");
	before = file_count(cgroup_file("demotion", "memory.stat"), "pgdemote_kswapd");
	size = (node_free(fast) + cold / 2) & ~(2 * MB - 1);
	q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(q != MAP_FAILED, "cannot map %zu bytes", size);
	require(!node_bind(fast), "cannot bind to node %d", fast);
	pattern_fill(q, size, SEED + 1, 0, 0);
	require(!node_unbind(), "cannot unbind");
	file_write(path, "0");
	require(file_count(cgroup_file("demotion", "memory.stat"), "pgdemote_kswapd") > before,
		"kswapd has demoted nothing");
	require(pages_slow(p, cold), "nothing is on the slow node");
	require_intact(p, cold, SEED);
	require_intact(q, size, SEED + 1);
}

static void run(const char *how, const char *name, test_fn fn, const void *arg)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: %s", how, name);
	test_run(text, TIMEOUT, fn, arg);
}

int main(void)
{
	static const size_t folios[] = { 4 * KB, 64 * KB, 2 * MB };
	static const char * const hows[] = { "active and inactive lists", "generations" };
	char name[80];
	unsigned int i, how, nr_hows = file_exists(LRU_GEN) ? 2 : 1;

	if (!tiers_find(&fast, &slow) || !file_exists(KNOB_DIR)) {
		ksft_print_header();
		ksft_exit_skip("needs two tiers of memory, and migration by several CPUs\n");
	}
	test_environment();
	require(!file_write(DEMOTION, "1"), "cannot switch demotion on");
	tests_start((ARRAY_SIZE(folios) + 5) * nr_hows + 1);
	for (how = 0; how < nr_hows; how++) {
		require(nr_hows == 1 || !file_write_number(LRU_GEN, how),
			"cannot switch generations");
		/* In any kernel, generations forget references to neighbours they look at. */
		if (!how)
			run(hows[how], "pages between those in use", between_used, NULL);
		for (i = 0; i < ARRAY_SIZE(folios); i++) {
			snprintf(name, sizeof(name), "folios of %zu KB are demoted",
				 folios[i] / KB);
			run(hows[how], name, demotes, &folios[i]);
		}
		run(hows[how], "memory of two cgroups", of_two_cgroups, NULL);
		rmdir(cgroup_file("both/a", ""));
		rmdir(cgroup_file("both/b", ""));
		run(hows[how], "every second page is pinned", half_pinned, NULL);
		run(hows[how], "the slow node is full", full, NULL);
		run(hows[how], "while programs fork, lock and exit", restless, NULL);
		run(hows[how], "kswapd demotes", by_kswapd, NULL);
	}
	if (nr_hows > 1)
		file_write_number(LRU_GEN, 0);
	file_write(DEMOTION, "0");
	tests_end();
}
