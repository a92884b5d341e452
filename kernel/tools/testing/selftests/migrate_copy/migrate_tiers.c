// SPDX-License-Identifier: GPL-2.0-only
/*
 * Promotion after the fault: pages of slow memory that a hint fault finds hot soon
 * arrive in fast memory, intact and correctly counted. Pages that may no longer
 * move, because something has changed since the fault, stay where they are.
 *
 * For the latter, the worker is held (promote_hold) while the test makes the
 * change. Needs a node without CPUs that is a slower tier.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define TIMEOUT		120
/* By when the worker has certainly run, and how long a test waits at most. */
#define LATER_US	1000000
#define PATIENCE_S	30

#define BALANCING	"/proc/sys/kernel/numa_balancing"
#define SCAN_DIR	"/sys/kernel/debug/sched/numa_balancing"
#define VMSTAT		"/proc/vmstat"
#define SEED		77

static int fast, slow;
static const char group[] = "test";

/* The first node with CPUs, and one with memory only. */
static bool find_tiers(void)
{
	char path[80], cpus[80];
	int node;

	fast = -1;
	slow = -1;
	for (node = 0; node < 64; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
		if (file_read(path, cpus, sizeof(cpus)))
			continue;
		if (cpus[0] > ' ' && fast < 0)
			fast = node;
		else if (cpus[0] <= ' ')
			slow = node;
	}
	return fast >= 0 && slow >= 0;
}

static void balance(const char *mode)
{
	require(!file_write(BALANCING, mode), "cannot set " BALANCING);
}

/* Memory on the slow node, by base pages unless thp_only() says otherwise. */
static char *slow_memory(size_t size)
{
	/* Whole huge pages, wherever the mapping begins, and what pushes the last on the LRU. */
	const size_t more = 64 * PAGE;
	char *p = mmap(NULL, size + more + 2 * MB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(p != MAP_FAILED, "cannot map %zu bytes", size);
	p = (char *)(((uintptr_t)p + 2 * MB - 1) & ~(2 * MB - 1));
	madvise(p, size, MADV_HUGEPAGE);
	require(!node_bind(slow), "cannot bind to node %d", slow);
	pattern_fill(p, size, SEED, 0, 0);
	memset(p + size, 1, more);
	require(!node_unbind(), "cannot unbind");
	require(!pages_elsewhere(p, size, PAGE, slow), "not on the slow node");
	return p;
}

/* Hold the worker, or release it and give it time to run. */
static void hold(bool on)
{
	constant("promote_hold", on);
	if (!on)
		usleep(LATER_US);
}

static void use(const char *p, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		touch(p + at);
}

/* Use memory until the kernel has taken so many hint faults. */
static void use_until_found(const char *p, size_t size, uint64_t faults)
{
	uint64_t before = file_count(VMSTAT, "numa_hint_faults");
	double start = now();

	while (file_count(VMSTAT, "numa_hint_faults") - before < faults) {
		require(now() - start < PATIENCE_S, "only %llu hint faults",
			(unsigned long long)(file_count(VMSTAT, "numa_hint_faults") - before));
		use(p, size);
	}
}

/* Use memory until all of it is on the fast node. */
static void use_until_fast(const char *p, size_t size)
{
	double start = now();
	size_t left;

	while ((left = pages_elsewhere(p, size, PAGE, fast))) {
		require(now() - start < PATIENCE_S, "%zu pages are not on the fast node", left);
		use(p, size);
	}
}

static void require_intact(const char *p, size_t size)
{
	require(!pattern_bad(p, size, SEED, 0, 0), "the content has changed");
}

/* Nothing of it may be on the fast node once the worker has run. */
static void require_stays(const void *p, size_t size, const char *what)
{
	hold(false);
	require(!pages_elsewhere(p, size, PAGE, slow), "%zu pages moved though %s",
		pages_elsewhere(p, size, PAGE, slow), what);
}

/* --- what is promoted --- */

/* Pages promoted by the worker according to the trace, and the latest arrival. */
static uint64_t traced_moves(uint64_t *latest_ns)
{
	uint64_t sum = 0;
	char line[512];
	FILE *trace;

	trace = fopen(TRACING "/trace", "r");
	require(trace, "cannot read the trace");
	*latest_ns = 0;
	while (fgets(line, sizeof(line), trace)) {
		const char *at = strstr(line, "migrate_copy_promote: ");
		unsigned long long moved, ns;

		if (!at)
			continue;
		require(sscanf(at, "migrate_copy_promote: nid=%*d pages=%*u moved=%llu ns=%llu",
			       &moved, &ns) == 2, "cannot understand %s", line);
		sum += moved;
		if (ns > *latest_ns)
			*latest_ns = ns;
	}
	fclose(trace);
	return sum;
}

static uint64_t group_count(const char *file, const char *name)
{
	return file_count(cgroup_file(group, file), name);
}

static void group_set(const char *file, const char *value)
{
	require(!cgroup_write(group, file, value), "cannot set %s to %s", file, value);
}

struct counts {
	uint64_t promoted, migrated, of_group, in_group;
};

static struct counts count(void)
{
	struct counts c;

	/* What a CPU has counted is in /proc/vmstat up to a second later. */
	file_write("/proc/sys/vm/stat_refresh", "1");
	c.promoted = file_count(VMSTAT, "pgpromote_success");
	c.migrated = file_count(VMSTAT, "numa_pages_migrated");
	c.of_group = group_count("memory.stat", "pgpromote_success");
	c.in_group = group_count("memory.stat", "numa_pages_migrated");
	return c;
}

static void promotes(const void *arg)
{
	const size_t folio = *(const size_t *)arg, size = 8 * MB;
	struct counts before, after;
	uint64_t latest, pages;
	char *p;

	thp_only(folio == PAGE ? 0 : folio);
	group_set("cgroup.procs", "0");
	p = slow_memory(size);
	require(folio_size_at(p) == folio, "folios of %zu bytes", folio_size_at(p));
	trace_clear();
	require(!file_write(EVENTS "/migrate_copy_promote/enable", "1"), "cannot trace");
	before = count();
	balance("2");
	use_until_fast(p, size);
	balance("0");
	usleep(200000);
	after = count();
	file_write(EVENTS "/migrate_copy_promote/enable", "0");
	require_intact(p, size);

	pages = after.promoted - before.promoted;
	require(pages >= size / PAGE && pages < size / PAGE * 5 / 4, "%llu pages promoted",
		(unsigned long long)pages);
	require(after.migrated - before.migrated == pages, "numa_pages_migrated is not the same");
	/* Other programs may have been promoted, but not of this cgroup. */
	require(after.of_group - before.of_group == size / PAGE &&
		after.in_group - before.in_group == size / PAGE,
		"the cgroup has %llu and %llu of %zu pages",
		(unsigned long long)(after.of_group - before.of_group),
		(unsigned long long)(after.in_group - before.in_group), size / PAGE);
	/* Faults migrate the first folios since boot, until there are chunks. */
	pages = traced_moves(&latest);
	require(pages >= size / PAGE / 4, "%llu pages promoted by the worker",
		(unsigned long long)pages);
	ksft_print_msg("%llu pages by the worker, at the latest after %llu us\n",
		       (unsigned long long)pages, (unsigned long long)latest / 1000);
}

/*
 * Without room for more candidates, faults migrate folios themselves. While the
 * worker is held, every scan notes the same pages again, until there is no room.
 */
static void no_room(const void *arg)
{
	const size_t size = 64 * MB;
	char *p;

	p = slow_memory(size);
	hold(true);
	balance("2");
	use_until_fast(p, size);
	require_intact(p, size);
}

/* A task under a CPU bandwidth limit migrates in its own faults. */
static void limited(const void *arg)
{
	const size_t size = 128 * PAGE;
	char *p;

	group_set("cgroup.procs", "0");
	group_set("cpu.max", "500000 1000000");
	p = slow_memory(size);
	hold(true);
	balance("2");
	use_until_fast(p, size);
	require_intact(p, size);
}

/* --- what has changed since the fault --- */

#define FEW_PAGES	256

static void munmapped(char *p, size_t size)
{
	munmap(p, size);
	require(mmap(p, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0) == p, "cannot map again");
	madvise(p, size, MADV_NOHUGEPAGE);
	require(!node_bind(slow), "cannot bind");
	pattern_fill(p, size, SEED, 0, 0);
	require(!node_unbind(), "cannot unbind");
}

/* Map other pages, which have not been used, at the same addresses. */
static void moved_elsewhere(char *p, size_t size)
{
	char *other = slow_memory(size);

	require(mremap(other, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p,
		"cannot move the other mapping");
}

static void bound(char *p, size_t size)
{
	require(!sys_mbind(p, size, MPOL_BIND, slow, 0), "cannot bind");
}

static void confined(char *p, size_t size)
{
	char node[16];

	snprintf(node, sizeof(node), "%d", slow);
	group_set("cgroup.procs", "0");
	group_set("cpuset.mems", node);
}

static void switched_off(char *p, size_t size)
{
	balance("0");
}

static const struct change {
	const char *name;
	void (*make)(char *p, size_t size);
} changes[] = {
	{ "munmapped, and mapped again", munmapped },
	{ "other pages moved there", moved_elsewhere },
	{ "bound to the slow node", bound },
	{ "the cpuset allows only the slow node", confined },
	{ "balancing switched off", switched_off },
};

static void stays(const void *arg)
{
	const struct change *change = arg;
	const size_t size = FEW_PAGES * PAGE;
	char *p;

	p = slow_memory(size);
	hold(true);
	balance("2");
	use_until_found(p, size, FEW_PAGES);
	change->make(p, size);
	require_stays(p, size, change->name);
	require_intact(p, size);
}

/* Changes that do not keep a page from moving. */

static void mlocked(char *p, size_t size)
{
	require(!mlock(p, size), "cannot mlock");
}

static void forked(char *p, size_t size)
{
	pid_t pid = fork();

	if (!pid) {
		usleep(2 * LATER_US);
		require_intact(p, size);
		_exit(0);
	}
}

static const struct change harmless[] = {
	{ "mlocked", mlocked },
	{ "forked", forked },
};

static void comes(const void *arg)
{
	const struct change *change = arg;
	const size_t size = FEW_PAGES * PAGE;
	size_t left;
	int status;
	char *p;

	p = slow_memory(size);
	hold(true);
	balance("2");
	use_until_found(p, size, FEW_PAGES);
	require(pages_elsewhere(p, size, PAGE, fast) > FEW_PAGES / 2, "it has not waited");
	change->make(p, size);
	hold(false);
	left = pages_elsewhere(p, size, PAGE, fast);
	require(left < FEW_PAGES / 4, "%zu pages did not come", left);
	require_intact(p, size);
	while (wait(&status) > 0)
		require(!status, "the child found other content");
}

/* Candidates delay neither exit nor exec nor memory offlining. */

static void ends(const void *arg)
{
	const bool execs = arg;
	const size_t size = FEW_PAGES * PAGE;
	int status, ready[2];
	double start;
	pid_t pid;
	char c;

	require(!pipe(ready), "cannot make a pipe");
	hold(true);
	balance("2");
	pid = fork();
	if (!pid) {
		char *p = slow_memory(size);

		use_until_found(p, size, FEW_PAGES);
		require(write(ready[1], "", 1) == 1, "cannot write");
		if (execs)
			execl("/bin/true", "true", NULL);
		_exit(0);
	}
	require(read(ready[0], &c, 1) == 1, "cannot read");
	start = now();
	require(waitpid(pid, &status, 0) == pid && !status, "the process failed");
	require(now() - start < PATIENCE_S / 2, "the end took %.1f s", now() - start);
	/* Now the worker comes across candidates whose process is gone. */
	hold(false);
}

static void offlined(const void *arg)
{
	const size_t size = FEW_PAGES * PAGE;
	char path[80];
	double start;
	char *p;
	int err;

	p = slow_memory(size);
	hold(true);
	balance("2");
	use_until_found(p, size, FEW_PAGES);
	balance("0");
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%llu/state",
		 (unsigned long long)(page_pfn(p) / block_pages()));
	start = now();
	err = file_write(path, "offline");
	if (err)
		skip("this block cannot go offline");
	require(now() - start < PATIENCE_S, "offlining took %.1f s", now() - start);
	file_write(path, "online");
	require_intact(p, size);
}

/* The time of the worker is charged to the cgroup that has the memory. */
static void charged(const void *arg)
{
	const size_t size = 32 * MB;
	uint64_t before, after;
	char *p;

	group_set("cgroup.procs", "0");
	p = slow_memory(size);
	hold(true);
	balance("2");
	use_until_found(p, size, 1024);
	/* From here on the only task of the cgroup sleeps. */
	before = group_count("cpu.stat", "usage_usec");
	hold(false);
	after = group_count("cpu.stat", "usage_usec");
	require(pages_elsewhere(p, size, PAGE, slow) > 512, "nothing was promoted");
	require(after - before >= 500, "%llu us for more than 512 pages",
		(unsigned long long)(after - before));
}

static void prepare(void)
{
	require(!cgroup_make(group, "+memory +cpu +cpuset"), "cannot make a cgroup");
	/* By default it takes seconds before the kernel looks at a process. */
	file_write(SCAN_DIR "/scan_delay_ms", "10");
	file_write(SCAN_DIR "/scan_period_min_ms", "100");
	file_write(SCAN_DIR "/scan_period_max_ms", "200");
	/* Emulated CPUs may be away for long. */
	file_write(SCAN_DIR "/hot_threshold_ms", "30000");
}

static void run(const char *name, test_fn fn, const void *arg)
{
	if (fn != promotes)
		thp_only(0);
	test_run(name, TIMEOUT, fn, arg);
	file_write(BALANCING, "0");
	hold(false);
	cgroup_write(group, "cpu.max", "max");
	cgroup_write(group, "cpuset.mems", "\n");
}

int main(void)
{
	static const size_t folios[] = { 4 * KB, 64 * KB, 2 * MB };
	char name[80];
	size_t i;

	if (!find_tiers() || !file_exists(KNOB_DIR)) {
		ksft_print_header();
		ksft_exit_skip("needs two tiers of memory, and migration by several CPUs\n");
	}
	tests_start(ARRAY_SIZE(folios) + ARRAY_SIZE(changes) + ARRAY_SIZE(harmless) + 6);
	prepare();
	for (i = 0; i < ARRAY_SIZE(folios); i++) {
		snprintf(name, sizeof(name), "folios of %zu KB are promoted after the fault",
			 folios[i] / KB);
		run(name, promotes, &folios[i]);
	}
	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		snprintf(name, sizeof(name), "stays: %s", changes[i].name);
		run(name, stays, &changes[i]);
	}
	for (i = 0; i < ARRAY_SIZE(harmless); i++) {
		snprintf(name, sizeof(name), "comes all the same: %s", harmless[i].name);
		run(name, comes, &harmless[i]);
	}
	run("no room for candidates: the fault migrates", no_room, NULL);
	run("a CPU bandwidth limit: the fault migrates", limited, NULL);
	run("exit does not wait", ends, NULL);
	run("exec does not wait", ends, (const void *)1);
	run("memory offlining does not wait", offlined, NULL);
	run("the worker's time is charged to the cgroup of the memory", charged, NULL);
	tests_end();
}
