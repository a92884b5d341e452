// SPDX-License-Identifier: GPL-2.0-only
/*
 * Migration of mlocked folios: how often it drains the LRU batches of its CPU,
 * and what it makes of the accounting.
 *
 * Only where a folio is on the LRU when it is mapped again, is its mlock counted.
 * While a system call migrates, the LRU batches are disabled, and every folio is
 * added at once; so it is compaction that shows whether the counts are
 * right without a drain for each folio.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define INSTANCE	TRACING "/instances/migrate_mlock"
#define DRAIN		"lru_add_drain"
#define DISABLE		"lru_cache_disable"
#define DRAIN_SWITCH	"/sys/kernel/debug/migrate_copy/lru_drain"

/* Bits of /proc/kpageflags. */
#define KPF_LRU		0x000000020ULL
#define KPF_UNEVICTABLE	0x000040000ULL
#define KPF_MLOCKED	0x200000000ULL

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT	1
#endif

#define MOVE_PAGES	512UL
/* With so many move_pages() drains all CPUs before it looks at the first. */
#define MANY_PAGES	128
#define COMPACT_SIZE	(128 * MB)
/* Less would say nothing. */
#define LEAST_MOVED	1024UL
#define ROUNDS		4
#define FEW_PAGES	8UL
/* In a mixed region, so many pages in a row are mlocked, or not. */
#define STRIPE		64UL
#define TIMEOUT		240
#define SEED		815

/*
 * Of the counts of many pages that moved, what may be off: a CPU can be taken from
 * the unmodified kernel between the drain and the mapping, and kcompactd can isolate
 * a page again.  Up to 14 in 1,000 pages were seen, with the feature off as well;
 * all would be off if the folios were not on the LRU when they are mapped.
 */
static bool nearly(size_t seen, size_t expected)
{
	size_t off = seen > expected ? seen - expected : expected - seen;

	return off <= expected / 32;
}

/**
 * struct kind_of_lock - What of the memory is mapped, and what mlocked
 * @name: for messages
 * @mapped: it is mapped while it migrates
 * @mlocked: it is mlocked
 * @mixed: every other stripe only
 * @twice: by two processes
 */
static const struct kind_of_lock {
	const char *name;
	bool mapped, mlocked, mixed, twice;
} kinds[] = {
	{ .name = "unmapped" },
	{ .name = "mapped", .mapped = true },
	{ .name = "mlocked", .mapped = true, .mlocked = true },
#define MIXED	3
	[MIXED] = { .name = "mixed", .mapped = true, .mlocked = true,
		    .mixed = true },
	{ .name = "mlocked by two processes", .mapped = true, .mlocked = true,
	  .twice = true },
};

/**
 * struct memory - Base pages in a file, some of which are there
 * @kind: what of it is mlocked
 * @nr: size in base pages
 * @fd: the file
 * @map: the mapping; NULL while it is not mapped
 * @pfn: where each page is, 0 for none
 * @child: maps and mlocks it as well, or 0
 * @talk: the socket to that process
 */
struct memory {
	const struct kind_of_lock *kind;
	size_t nr;
	int fd;
	char *map;
	uint64_t *pfn;
	pid_t child;
	int talk;
};

/**
 * struct variant - A test
 * @mode: the mode
 * @kind: index of the kind
 * @drain: of the switch in debugfs, or NULL
 */
struct variant {
	enum copy_mode mode;
	size_t kind;
	const char *drain;
};

static int from, to;

static bool is_mlocked(const struct memory *m, size_t i)
{
	return m->kind->mlocked && (!m->kind->mixed || i / STRIPE % 2);
}

static void memory_map(struct memory *m)
{
	m->map = mmap(NULL, m->nr * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
		      m->fd, 0);
	require(m->map != MAP_FAILED, "cannot map: %s", strerror(errno));
}

static void memory_unmap(struct memory *m)
{
	munmap(m->map, m->nr * PAGE);
	m->map = NULL;
}

/* What is mapped already; nothing is faulted in for it. */
static void memory_mlock(struct memory *m, bool lock)
{
	size_t i, step = m->kind->mixed ? STRIPE : m->nr;
	int err = 0;

	for (i = 0; i < m->nr && !err; i += step) {
		char *start = m->map + i * PAGE;

		if (!is_mlocked(m, i))
			continue;
		err = lock ? syscall(SYS_mlock2, start, step * PAGE,
				     MLOCK_ONFAULT) :
			     munlock(start, step * PAGE);
	}
	require(!err, "cannot %s: %s", lock ? "mlock" : "munlock",
		strerror(errno));
}

static void memory_touch(struct memory *m)
{
	size_t i;

	for (i = 0; i < m->nr; i++) {
		if (m->pfn[i])
			touch(m->map + i * PAGE);
	}
}

static size_t memory_locate(struct memory *m, uint64_t *pfn)
{
	size_t i, present = 0;

	for (i = 0; i < m->nr; i++) {
		pfn[i] = page_pfn(m->map + i * PAGE);
		present += !!pfn[i];
	}
	return present;
}

static void say(int fd, char what)
{
	require(write(fd, &what, 1) == 1, "cannot tell the other process");
}

static void hear(int fd, char what)
{
	char heard;

	require(read(fd, &heard, 1) == 1 && heard == what,
		"the other process has failed");
}

static void child_run(struct memory *m)
{
	memory_map(m);
	memory_touch(m);
	memory_mlock(m, true);
	say(m->talk, 'l');
	hear(m->talk, 'u');
	memory_mlock(m, false);
	say(m->talk, 'u');
	/* Until it is killed. */
	hear(m->talk, 'x');
}

static void memory_share(struct memory *m)
{
	int pair[2];

	require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "no sockets");
	m->child = fork();
	require(m->child >= 0, "cannot fork");
	m->talk = pair[!m->child];
	close(pair[!!m->child]);
	if (!m->child) {
		child_run(m);
		_exit(0);
	}
	hear(m->talk, 'l');
}

/* Base pages on the node "from"; if sparse, only some, at its bottom. */
static void memory_make(struct memory *m, const struct kind_of_lock *kind,
			size_t size, bool sparse)
{
	uint64_t low = UINT64_MAX, high = 0;
	size_t i;

	m->kind = kind;
	m->nr = size / PAGE;
	m->child = 0;
	m->pfn = calloc(m->nr, sizeof(*m->pfn));
	m->fd = memfd_create("migrate_mlock", 0);
	require(m->pfn && m->fd >= 0 && !ftruncate(m->fd, size), "no file");
	memory_map(m);
	require(!node_bind(from), "cannot allocate on a node");
	pattern_fill(m->map, size, SEED, 0, 0);
	require(!node_unbind(), "cannot allocate anywhere");
	require(memory_locate(m, m->pfn) == m->nr, "not all pages are there");

	for (i = 0; sparse && i < m->nr; i++) {
		low = m->pfn[i] < low ? m->pfn[i] : low;
		high = m->pfn[i] > high ? m->pfn[i] : high;
	}
	/* Free the upper half, and every other page below. */
	for (i = 0; sparse && i < m->nr; i++) {
		if (m->pfn[i] < low + (high - low) / 2 && m->pfn[i] % 2)
			continue;
		require(!madvise(m->map + i * PAGE, PAGE, MADV_REMOVE),
			"cannot free a page: %s", strerror(errno));
		m->pfn[i] = 0;
	}
	memory_mlock(m, true);
	if (kind->twice)
		memory_share(m);
	if (!kind->mapped)
		memory_unmap(m);
}

/* All batches of all CPUs are drained by a call that migrates. */
static void drain_all_cpus(void)
{
	int node[MANY_PAGES], status[MANY_PAGES];
	void *addr[MANY_PAGES] = {};
	size_t i;

	/* None of them is mapped; the call drains before it looks. */
	for (i = 0; i < MANY_PAGES; i++)
		node[i] = to;
	require(!sys_move_pages(0, MANY_PAGES, addr, node, status,
				MPOL_MF_MOVE) && status[0] == -EFAULT,
		"cannot drain: %s", strerror(errno));
}

/* Base pages that the kernel says are mlocked. */
static size_t nr_mlocked(void)
{
	file_write("/proc/sys/vm/stat_refresh", "1");
	return file_count("/proc/vmstat", "nr_mlock");
}

/*
 * Are so many pages mlocked and unevictable that should be, and no others?
 *
 * A page that was isolated and then stayed where it was counts as mlocked once, in
 * any kernel: it is off the LRU while it is mapped again.  So after the first of
 * two munlocks only those are judged that are not where they were, if that is told.
 * Returns how many of the others are not mlocked.
 */
static size_t check_pages(struct memory *m, const uint64_t *pfn,
			  const uint64_t *was, bool locked, const char *when)
{
	size_t i, present = 0, expected = 0, right = 0, on_lru = 0, wrong = 0;
	size_t stayed = 0, lost = 0;

	for (i = 0; i < m->nr; i++) {
		uint64_t want = locked && is_mlocked(m, i) ?
				KPF_UNEVICTABLE | KPF_MLOCKED : 0;
		uint64_t flags;

		if (!pfn[i])
			continue;
		flags = pfn_flags(pfn[i]);
		if (was && pfn[i] == was[i]) {
			stayed++;
			lost += want && !(flags & KPF_MLOCKED);
			continue;
		}
		present++;
		on_lru += !!(flags & KPF_LRU);
		expected += !!want;
		if ((flags & (KPF_UNEVICTABLE | KPF_MLOCKED)) != want)
			wrong++;
		else if (want)
			right++;
	}
	ksft_print_msg("%s: %zu of %zu pages mlocked and unevictable, %zu of %zu on the LRU\n",
		       when, right, expected, on_lru, present);
	if (was)
		ksft_print_msg("%zu more have stayed, %zu of them not mlocked\n",
			       stayed, lost);
	require(nearly(right, expected), "%s: mlocked pages are not", when);
	require(nearly(present - wrong, present),
		"%s: %zu pages are what they should not be", when, wrong);
	require(nearly(on_lru, present), "%s: pages are not on the LRU", when);
	return lost;
}

/* Each page may have stayed where it was, if that is told; else all have moved. */
static void check_accounting(struct memory *m, const uint64_t *pfn,
			     const uint64_t *was, size_t before)
{
	size_t mlocked = 0, lost, i;

	for (i = 0; i < m->nr; i++)
		mlocked += pfn[i] && is_mlocked(m, i);

	drain_all_cpus();
	check_pages(m, pfn, NULL, true, "migrated");
	require(nearly(nr_mlocked() - before, mlocked),
		"nr_mlock is %zu, was %zu, %zu are mlocked", nr_mlocked(),
		before, mlocked);
	if (m->child) {
		say(m->talk, 'u');
		hear(m->talk, 'u');
		drain_all_cpus();
		lost = check_pages(m, pfn, was, true, "munlocked by one process");
		require(nearly(nr_mlocked() - before, mlocked - lost),
			"one of two munlocks: nr_mlock is %zu, was %zu, %zu are mlocked",
			nr_mlocked(), before, mlocked - lost);
	}
	memory_mlock(m, false);
	drain_all_cpus();
	check_pages(m, pfn, NULL, false, "munlocked");
	require(nr_mlocked() <= before + mlocked / 100,
		"munlocked: nr_mlock is %zu, was %zu", nr_mlocked(), before);
}

static void trace_start(const char *function)
{
	const char * const settings[][2] = {
		{ "set_ftrace_filter", function },
		{ "buffer_size_kb", "4096" },
		{ "current_tracer", "function" },
		{ "trace", "" },
	};
	char path[128];
	size_t i;

	require(!mkdir(INSTANCE, 0700) || errno == EEXIST,
		"cannot make " INSTANCE ": %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		snprintf(path, sizeof(path), INSTANCE "/%s", settings[i][0]);
		if (!*settings[i][1])
			fclose(fopen(path, "w"));
		else
			require(!file_write(path, settings[i][1]),
				"cannot write %s to %s", settings[i][1], path);
	}
}

/* How often has it been called since then, by whom a line tells? */
static size_t trace_calls(const char *call)
{
	char *line = NULL;
	size_t size = 0, calls = 0;
	FILE *trace;

	file_write(INSTANCE "/tracing_on", "0");
	trace = fopen(INSTANCE "/trace", "r");
	require(trace, "cannot read " INSTANCE "/trace");
	while (getline(&line, &size, trace) > 0) {
		require(!strstr(line, "LOST"), "the trace is not complete");
		calls += !!strstr(line, call);
	}
	free(line);
	fclose(trace);
	file_write(INSTANCE "/current_tracer", "nop");
	require(!rmdir(INSTANCE), "cannot remove " INSTANCE ": %s",
		strerror(errno));
	return calls;
}

static void check_drains(const struct variant *v, size_t drains, size_t mapped,
			 size_t mlocked)
{
	size_t expected = mlocked;

	ksft_print_msg("%zu mapped and %zu mlocked pages moved, %zu drains\n",
		       mapped, mlocked, drains);
	if (v->drain && !strcmp(v->drain, "mapped"))
		expected = mapped;
	else if (!v->drain && v->mode != MODE_PLAIN)
		expected = 0;
	/* What is left of other programs migrates as well. */
	require(expected ? drains >= expected - expected / 100 : !drains,
		"%zu drains, expected %zu", drains, expected);
}

/* The LRU batches are in use, so only right drains make right counts. */
static void test_compaction(const void *arg)
{
	const struct variant *v = arg;
	size_t before, i, moved = 0, mlocked = 0, drains, present;
	struct memory m;
	uint64_t *pfn;
	char path[96];

	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(0);
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/compact",
		 from);
	if (!file_exists(path))
		skip("needs CONFIG_COMPACTION");
	drain_all_cpus();
	before = nr_mlocked();
	memory_make(&m, &kinds[v->kind], COMPACT_SIZE, true);
	pfn = calloc(m.nr, sizeof(*pfn));
	require(pfn, "no memory");

	trace_start(DRAIN);
	require(!file_write(path, "1"), "cannot compact");
	drains = trace_calls(DRAIN " <-migrate_");

	if (!m.map)
		memory_map(&m);
	memory_touch(&m);
	present = memory_locate(&m, pfn);
	for (i = 0; i < m.nr; i++) {
		require(!pfn[i] == !m.pfn[i], "page %zu came or went", i);
		if (!pfn[i] || pfn[i] == m.pfn[i])
			continue;
		moved++;
		mlocked += is_mlocked(&m, i);
	}
	ksft_print_msg("%zu of %zu pages moved\n", moved, present);
	require(moved >= LEAST_MOVED, "%zu pages moved only", moved);
	for (i = 0; i < m.nr; i++)
		require(!pfn[i] || !pattern_bad(m.map + i * PAGE, PAGE, SEED,
						i * PAGE, 0), "wrong content");
	check_drains(v, drains, m.kind->mapped ? moved : 0, mlocked);
	if (m.kind->mapped)
		check_accounting(&m, pfn, m.pfn, before);
	if (m.child)
		kill(m.child, SIGKILL);
}

/* A batch as large as it gets, and for helpers several, to and fro. */
static void test_move_pages(const void *arg)
{
	const struct variant *v = arg;
	size_t nr = (v->mode == MODE_PARALLEL ? 4 : 1) * MOVE_PAGES;
	size_t before, i, drains, mlocked = 0;
	int round, *nodes, *status;
	struct memory m;
	void **addr;

	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(0);
	drain_all_cpus();
	before = nr_mlocked();
	memory_make(&m, &kinds[v->kind], nr * PAGE, false);
	addr = calloc(nr, sizeof(*addr));
	nodes = calloc(nr, sizeof(*nodes));
	status = calloc(nr, sizeof(*status));
	require(addr && nodes && status, "no memory");

	trace_start(DRAIN);
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < nr; i++) {
			addr[i] = m.map + i * PAGE;
			nodes[i] = round % 2 ? from : to;
			mlocked += is_mlocked(&m, i);
		}
		require(!sys_move_pages(0, nr, addr, nodes, status,
					MPOL_MF_MOVE_ALL), "cannot move: %s",
			strerror(errno));
		require(!pages_elsewhere(m.map, nr * PAGE, PAGE, nodes[0]),
			"not all pages moved");
	}
	drains = trace_calls(DRAIN " <-migrate_");
	check_drains(v, drains, ROUNDS * nr, mlocked);
	require(!pattern_bad(m.map, nr * PAGE, SEED, 0, 0), "wrong content");
	memory_locate(&m, m.pfn);
	check_accounting(&m, m.pfn, NULL, before);
	if (m.child)
		kill(m.child, SIGKILL);
}

/*
 * A few pages are moved without a drain of all CPUs, unless one of them is in the batch
 * of another CPU.
 */
static void test_few(const void *arg)
{
	const struct variant *v = arg;
	void *addr[FEW_PAGES];
	int node[FEW_PAGES], status[FEW_PAGES], round;
	size_t i, drains;
	char *p;

	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(0);
	p = mmap(NULL, FEW_PAGES * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(p != MAP_FAILED && !node_bind(from), "no memory");
	cpu_pin(0, 1);
	pattern_fill(p, FEW_PAGES * PAGE, SEED, 0, 0);
	require(!node_unbind(), "cannot allocate anywhere");
	cpu_pin(0, 0);

	trace_start(DISABLE);
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < FEW_PAGES; i++) {
			addr[i] = p + i * PAGE;
			node[i] = round % 2 ? from : to;
		}
		require(!sys_move_pages(0, FEW_PAGES, addr, node, status,
					MPOL_MF_MOVE) &&
			!pages_elsewhere(p, FEW_PAGES * PAGE, PAGE, node[0]),
			"not all pages moved");
	}
	/*
	 * Only in the first round they are in the batch of the other CPU, unless something
	 * else has drained that.
	 */
	drains = trace_calls(DISABLE " <-");
	require(v->mode == MODE_PLAIN ? drains == ROUNDS : drains <= 1,
		"%zu drains of all CPUs in %d calls", drains, ROUNDS);
	require(!pattern_bad(p, FEW_PAGES * PAGE, SEED, 0, 0), "wrong content");
}

/* What the benchmark measures beside: drains for more folios. */
static void test_switch(const void *arg)
{
	const struct variant *v = arg;

	if (!file_exists(DRAIN_SWITCH))
		skip("needs CONFIG_MIGRATE_COPY_DRAIN_TEST");
	require(file_write(DRAIN_SWITCH, "always") == -EINVAL,
		"the switch takes anything");
	require(!file_write(DRAIN_SWITCH, v->drain), "cannot switch to %s",
		v->drain);
	test_move_pages(arg);
}

static const char * const drain_names[] = { "mlocked", "mapped" };

int main(int argc, char **argv)
{
	unsigned int modes = modes_wanted(argc - 1, argv + 1);
	bool ours = modes & ~(1U << MODE_PLAIN);
	struct variant v = {};
	char name[128];

	tests_start(__builtin_popcount(modes) * 2 * ARRAY_SIZE(kinds) +
		    (ours ? ARRAY_SIZE(drain_names) : 0));
	for (v.mode = 0; v.mode < NR_MODES; v.mode++) {
		if (!(modes & 1U << v.mode))
			continue;
		for (v.kind = 0; v.kind < ARRAY_SIZE(kinds); v.kind++) {
			const struct kind_of_lock *kind = &kinds[v.kind];

			snprintf(name, sizeof(name), "%s, compaction, %s",
				 mode_names[v.mode], kind->name);
			test_run(name, TIMEOUT, test_compaction, &v);
			if (!kind->mapped)
				continue;
			snprintf(name, sizeof(name), "%s, move_pages, %s",
				 mode_names[v.mode], kind->name);
			test_run(name, TIMEOUT, test_move_pages, &v);
		}
		snprintf(name, sizeof(name), "%s, a few pages",
			 mode_names[v.mode]);
		test_run(name, TIMEOUT, test_few, &v);
	}
	if (ours) {
		size_t i;

		v.mode = MODE_BATCH;
		v.kind = MIXED;
		for (i = 0; i < ARRAY_SIZE(drain_names); i++) {
			v.drain = drain_names[i];
			snprintf(name, sizeof(name), "drains for %s folios, %s",
				 v.drain, kinds[v.kind].name);
			test_run(name, TIMEOUT, test_switch, &v);
		}
		file_write(DRAIN_SWITCH, "never");
	}
	tests_end();
}
