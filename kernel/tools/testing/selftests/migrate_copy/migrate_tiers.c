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
#include <sched.h>
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
#define WATERMARKS	"/proc/sys/vm/watermark_scale_factor"
#define RATE_LIMIT	"/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
#define RATE_S		4
#define VMSTAT		"/proc/vmstat"
#define SEED		77

static int fast, slow;
static const char group[] = "test";

static void balance(const char *mode)
{
	require(!file_write(BALANCING, mode), "cannot set " BALANCING);
}

/* Memory on the slow node, by base pages unless thp_only() says otherwise. */
static char *slow_memory(size_t size)
{
	/* A few pages more push the last ones from the CPU's batch to the LRU. */
	char *p = node_memory(slow, size + 64 * PAGE, SEED);

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

/* All of it must still be on the slow node once the worker has run. */
static void require_stays(const void *p, size_t size, const char *what)
{
	hold(false);
	require(!pages_elsewhere(p, size, PAGE, slow), "%zu pages moved though %s",
		pages_elsewhere(p, size, PAGE, slow), what);
}

/* --- what is promoted --- */

/* Candidates that the worker has dropped for this reason according to the trace. */
static size_t drops(const char *why)
{
	char line[512], seen[32];
	size_t n = 0;
	FILE *trace;

	trace = fopen(TRACING "/trace", "r");
	require(trace, "cannot read the trace");
	while (fgets(line, sizeof(line), trace)) {
		const char *at = strstr(line, "migrate_copy_drop: ");

		if (!at)
			continue;
		require(sscanf(at, "migrate_copy_drop: pfn=%*x nid=%*d why=%31s", seen) == 1,
			"cannot understand %s", line);
		n += !strcmp(seen, why);
	}
	fclose(trace);
	return n;
}

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
	before = count();
	balance("2");
	use_until_fast(p, size);
	balance("0");
	usleep(200000);
	after = count();
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

/* Memory of which the pages are candidates. */
struct memory {
	char *p;
	size_t size;
};

static void munmapped(struct memory *m)
{
	munmap(m->p, m->size);
	require(mmap(m->p, m->size, PROT_READ | PROT_WRITE,
		     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == m->p,
		"cannot map again");
	madvise(m->p, m->size, MADV_NOHUGEPAGE);
	require(!node_bind(slow), "cannot bind");
	pattern_fill(m->p, m->size, SEED, 0, 0);
	require(!node_unbind(), "cannot unbind");
}

static void moved_to(struct memory *m, char *old, char *new)
{
	require(mremap(old, m->size, m->size, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new,
		"cannot move the mapping");
	m->p = new;
}

/* Map other pages, which have not been used, at the same addresses. */
static void replaced(struct memory *m)
{
	moved_to(m, slow_memory(m->size), m->p);
}

static void moved_away(struct memory *m)
{
	char *new = mmap(NULL, m->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(new != MAP_FAILED, "cannot map");
	moved_to(m, m->p, new);
}

static void bound(struct memory *m)
{
	require(!sys_mbind(m->p, m->size, MPOL_BIND, slow, 0), "cannot bind");
}

static void confined(struct memory *m)
{
	char node[16];

	snprintf(node, sizeof(node), "%d", slow);
	group_set("cgroup.procs", "0");
	group_set("cpuset.mems", node);
}

static void switched_off(struct memory *m)
{
	balance("0");
}

/*
 * Another process, of another cgroup, uses the frames now: it looks for them on the
 * CPU that has freed them, and later where they are.
 */
static void taken(struct memory *m)
{
	const size_t step = 4 * MB, nr = m->size / PAGE;
	size_t at, i, found = 0;
	uint64_t pfns[FEW_PAGES];
	char *mine[FEW_PAGES];

	for (i = 0; i < nr; i++)
		pfns[i] = page_pfn(m->p + i * PAGE);
	cpu_pin(0, sched_getcpu());
	require(!madvise(m->p, m->size, MADV_DONTNEED), "cannot give the pages up");
	m->size = 0;
	if (fork())
		return;
	group_set("cgroup.procs", "0");
	for (at = 0; found < nr / 2; at += PAGE) {
		static char *p;
		uint64_t pfn;

		require(at < 32 * step, "%zu of the frames were found", found);
		if (at % step == 0)
			p = slow_memory(step);
		pfn = page_pfn(p + at % step);
		for (i = 0; i < nr && found < nr / 2; i++) {
			if (pfns[i] == pfn)
				mine[found++] = p + at % step;
		}
	}
	usleep(2 * LATER_US);
	for (i = 0; i < found; i++)
		require(page_node(mine[i]) == slow, "a page of another process moved");
	_exit(0);
}

static void swapped_out(struct memory *m)
{
	swap_on();
	require(swap_out(m->p, m->size, slow), "cannot swap out");
}

/* A long-term pin takes pages out of movable memory: take them there first. */
static void pinned_before(struct memory *m)
{
	close(pages_pin(m->p, m->size, PAGE));
}

static void pinned(struct memory *m)
{
	pages_pin(m->p, m->size, PAGE);
}

static void spliced(struct memory *m)
{
	int fds[2];

	require(!pages_splice(m->p, m->size, PAGE, fds), "vmsplice: %s", strerror(errno));
}

/* KSM keeps the pages of the higher addresses, and drops those of the lower ones. */
static void merged(struct memory *m)
{
	char *twin = slow_memory(m->size);
	double start = now();
	size_t at;

	require(!madvise(twin, m->size, MADV_MERGEABLE) &&
		!madvise(m->p, m->size, MADV_MERGEABLE) && ksm_run(true), "no KSM");
	for (at = 0; at < m->size; ) {
		require(now() - start < PATIENCE_S, "KSM merges nothing");
		if (page_pfn(twin + at) == page_pfn(m->p + at))
			at += PAGE;
		else
			usleep(10000);
	}
	ksm_run(false);
}

static void collapsed(struct memory *m)
{
	int err;

	/* Most of the huge page is not there. */
	err = madvise(m->p, 2 * MB, MADV_COLLAPSE);
	require(!err, "cannot collapse: %s", strerror(errno));
	require(folio_size_at(m->p) == 2 * MB, "no huge page");
}

/* Changes that do not keep a page from moving. */

static void mlocked(struct memory *m)
{
	require(!mlock(m->p, m->size), "cannot mlock");
}

static void forked(struct memory *m)
{
	if (fork())
		return;
	usleep(2 * LATER_US);
	require_intact(m->p, m->size);
	_exit(0);
}

static void in_group(struct memory *m)
{
	group_set("cgroup.procs", "0");
}

/* A page that is copied is not charged twice. */
static void limited_memory(struct memory *m)
{
	uint64_t current;

	require(!file_read_number(cgroup_file(group, "memory.current"), &current) &&
		!file_write_number(cgroup_file(group, "memory.max"), current + 16 * PAGE),
		"cannot limit the memory");
}

static void shrunk(struct memory *m)
{
	require(mremap(m->p, m->size, m->size / 2, 0) == m->p, "cannot shrink");
	m->size /= 2;
}

/**
 * struct change - What happens between fault and move
 * @name: for messages
 * @make: makes the change, and tells where the memory is then
 * @why: why candidates must be dropped according to the trace, or NULL
 * @before: is called before there are candidates, or NULL
 */
static const struct change {
	const char *name;
	void (*make)(struct memory *m);
	const char *why;
	void (*before)(struct memory *m);
} changes[] = {
	{ "munmapped, and mapped again", munmapped, "page" },
	{ "other pages moved there", replaced, "page" },
	{ "moved to another address", moved_away, "vma" },
	{ "bound to the slow node", bound, "policy" },
	{ "the cpuset allows only the slow node", confined, "policy" },
	{ "balancing switched off", switched_off, "page" },
	{ "another process has the frames", taken, "page" },
	{ "swapped out", swapped_out, "page" },
	{ "merged by KSM", merged, "isolated" },
	{ "collapsed into a huge page", collapsed, "page" },
	{ "pinned for long", pinned, NULL, pinned_before },
	{ "in a pipe", spliced, NULL },
}, harmless[] = {
	{ "mlocked", mlocked, NULL },
	{ "forked", forked, NULL },
	{ "the cgroup is at its limit", limited_memory, NULL, in_group },
	{ "shrunk to its first half", shrunk, "vma" },
};

/* Memory whose pages are candidates, which wait. */
static struct memory found(size_t size, size_t folio, void (*before)(struct memory *m))
{
	struct memory m = { slow_memory(size), size };

	if (before)
		before(&m);
	hold(true);
	balance("2");
	trace_clear();
	use_until_found(m.p, size, size / folio);
	require(pages_elsewhere(m.p, size, PAGE, fast) > size / PAGE / 2, "it has not waited");
	return m;
}

static void changed(const struct change *change, struct memory *m)
{
	*m = found(FEW_PAGES * PAGE, PAGE, change->before);
	change->make(m);
	hold(false);
}

/* That most of the candidates were dropped is enough, and that for one reason. */
static void require_dropped(const char *why, size_t nr)
{
	require(drops(why) >= nr, "%zu, not %zu candidates were dropped for the reason \"%s\"",
		drops(why), nr, why);
}

static void children_end(void)
{
	int status;

	while (wait(&status) > 0)
		require(!status, "a child has failed");
}

static void stays(const void *arg)
{
	const struct change *change = arg;
	struct memory m;
	size_t left;

	changed(change, &m);
	left = pages_elsewhere(m.p, m.size, PAGE, fast);
	require(left == m.size / PAGE, "%zu of %zu pages are not on the fast node", left,
		m.size / PAGE);
	if (change->why)
		require_dropped(change->why, FEW_PAGES / 2);
	require_intact(m.p, m.size);
	children_end();
}

static void comes(const void *arg)
{
	const struct change *change = arg;
	struct memory m;
	size_t left;

	changed(change, &m);
	left = pages_elsewhere(m.p, m.size, PAGE, fast);
	require(left < m.size / PAGE / 4, "%zu pages did not come", left);
	if (change->why)
		require_dropped(change->why, FEW_PAGES / 4);
	require_intact(m.p, m.size);
	children_end();
}

/* Of a huge page that is split, the page comes which has been noted. */
static void comes_in_part(const void *arg)
{
	const size_t size = 8 * MB, folio = 2 * MB;
	struct memory m;
	char text[80];
	size_t came;

	thp_only(folio);
	/* Several rounds: other faults count, too. */
	m = found(size, folio / 4, NULL);
	require(folio_size_at(m.p) == folio, "no huge pages");
	snprintf(text, sizeof(text), "%d,0x%lx,0x%lx", getpid(), (unsigned long)m.p,
		 (unsigned long)m.p + size);
	require(!file_write("/sys/kernel/debug/split_huge_pages", text), "cannot split");
	require(folio_size_at(m.p) == PAGE, "nothing is split");
	hold(false);
	came = pages_elsewhere(m.p, size, PAGE, slow);
	require(came && came <= size / folio, "%zu pages came", came);
	require_intact(m.p, size);
}

/* Has a zone of the fast node so many free pages beyond a share of its high watermark? */
static bool fast_has(unsigned long long pages, unsigned int percent)
{
	unsigned long long free = 0, high = 0;
	bool has = false;
	char line[256];
	FILE *zones;
	int node = -1;

	zones = fopen("/proc/zoneinfo", "r");
	require(zones, "cannot read /proc/zoneinfo");
	while (fgets(line, sizeof(line), zones)) {
		if (sscanf(line, "Node %d,", &node) == 1 ||
		    sscanf(line, " pages free %llu", &free) == 1 ||
		    sscanf(line, " high %llu", &high) == 1)
			continue;
		/* The last one is what movable memory must leave. */
		if (node == fast && strstr(line, "protection: (") && strrchr(line, ' '))
			has |= free > high * percent / 100 + pages +
			       strtoull(strrchr(line, ' ') + 1, NULL, 10);
	}
	fclose(zones);
	return has;
}

static uint64_t stalls(void)
{
	return file_count(VMSTAT, "allocstall_normal") +
	       file_count(VMSTAT, "allocstall_movable");
}

/*
 * Fill the fast node until no zone has so many. That is the memory of another process:
 * balancing scans less often what takes long to scan.
 */
static void fill_fast(unsigned long long pages, unsigned int percent)
{
	size_t size, at;
	int ready[2];
	char *fill;

	require(!pipe(ready), "cannot make a pipe");
	if (fork()) {
		close(ready[1]);
		require(read(ready[0], &at, 1) == 1, "cannot fill node %d", fast);
		return;
	}
	fill = node_map_free(fast, &size);
	for (at = 0; fast_has(pages, percent); at += MB) {
		require(at + MB <= size, "there is not so much to fill");
		memset(fill + at, 1, MB);
	}
	require(write(ready[1], "", 1) == 1, "cannot write");
	pause();
}

/* With high watermarks a node is full long before memory is really short. */
static void watermarks(const char *scale)
{
	require(!file_write(WATERMARKS, scale), "cannot set " WATERMARKS);
}

/* The fast node has no room any more: nothing comes, and no allocation waits. */
static void no_space(const void *arg)
{
	uint64_t stalled;
	struct memory m;

	watermarks("3000");
	/* kswapd makes some room, by dropping what is cached. */
	fill_fast(0, 90);
	watermarks("10");
	m = found(FEW_PAGES * PAGE, PAGE, NULL);
	stalled = stalls();
	watermarks("3000");
	require_stays(m.p, m.size, "the fast node is full");
	require_dropped("full", FEW_PAGES / 2);
	/* kswapd has much to do now, and little time is left for others. */
	use_until_found(m.p, m.size, FEW_PAGES);
	require_stays(m.p, m.size, "the fast node is full");
	require(stalls() == stalled, "an allocation has waited");
	require_intact(m.p, m.size);
}

/* Page faults, not the worker, see to it that no more is promoted. */
static void rate_limited(const void *arg)
{
	const uint64_t per_second = MB / PAGE;
	const size_t size = 24 * MB;
	uint64_t moved;
	double start, end;
	char *p;

	/* While a zone has more than 1 GB, nothing is limited. */
	fill_fast(GB / PAGE, 100);
	require(!file_write(RATE_LIMIT, "1"), "cannot set " RATE_LIMIT);
	p = slow_memory(size);
	moved = count().promoted;
	balance("2");
	for (start = now(); now() < start + RATE_S; )
		use(p, size);
	balance("0");
	usleep(LATER_US);
	moved = count().promoted - moved;
	end = now();
	ksft_print_msg("%llu pages in %.1f s, %llu are allowed in one\n",
		       (unsigned long long)moved, end - start, (unsigned long long)per_second);
	require(moved >= per_second / 2 && moved <= 2 * (end - start + 1) * per_second,
		"too few or too many");
	require_intact(p, size);
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
	trace_clear();
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
	require_dropped("exited", FEW_PAGES / 2);
}

static void offlined(const void *arg)
{
	/* A page that cannot move for a moment keeps a block online: try others, too. */
	const int tries = 16;
	struct memory m;
	char path[80];
	uint64_t block;
	double start;
	int i, err = -ENODEV;

	if (!block_pages())
		skip("memory cannot go offline");
	for (i = 0; err && i < tries; i++) {
		/* Keep the memory of the failed attempt, to get another block. */
		if (i)
			slow_memory(32 * MB);
		m = found(FEW_PAGES * PAGE, PAGE, NULL);
		balance("0");
		block = page_pfn(m.p) / block_pages();
		snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%llu/state",
			 (unsigned long long)block);
		start = now();
		if (block_is_movable(block))
			err = file_write(path, "offline");
		require(now() - start < PATIENCE_S, "offlining took %.1f s", now() - start);
	}
	require(!err, "no block could go offline: %s", strerror(-err));
	hold(false);
	require_intact(m.p, m.size);
	require(!file_write(path, "online_movable"), "cannot take it online again");
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
	require(!file_write(EVENTS "/migrate_copy_promote/enable", "1") &&
		!file_write(EVENTS "/migrate_copy_drop/enable", "1"), "cannot trace");
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
	swap_off();
	file_write(WATERMARKS, "10");
	file_write(RATE_LIMIT, "65536");
	cgroup_write(group, "memory.max", "max");
	cgroup_write(group, "cpu.max", "max");
	cgroup_write(group, "cpuset.mems", "\n");
}

int main(void)
{
	static const size_t folios[] = { 4 * KB, 64 * KB, 2 * MB };
	char name[80];
	size_t i;

	if (!tiers_find(&fast, &slow) || !file_exists(KNOB_DIR)) {
		ksft_print_header();
		ksft_exit_skip("needs two tiers of memory, and migration by several CPUs\n");
	}
	tests_start(ARRAY_SIZE(folios) + ARRAY_SIZE(changes) + ARRAY_SIZE(harmless) + 9);
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
	run("a huge page that is split comes in part", comes_in_part, NULL);
	run("the fast node is full: nothing comes", no_space, NULL);
	run("the rate limit holds", rate_limited, NULL);
	run("no room for candidates: the fault migrates", no_room, NULL);
	run("a CPU bandwidth limit: the fault migrates", limited, NULL);
	run("exit does not wait", ends, NULL);
	run("exec does not wait", ends, (const void *)1);
	run("memory offlining does not wait", offlined, NULL);
	run("the worker's time is charged to the cgroup of the memory", charged, NULL);
	tests_end();
}
