// SPDX-License-Identifier: GPL-2.0-only
/*
 * Do helpers run on the CPUs that they should: by core, node, cache, cpuset and
 * priority? And do pages stay right on machines with many nodes, and while CPUs
 * come and go?
 *
 * The tracepoints tell which CPUs are asked, and where helpers work. A CPU may be
 * busy for a reason of its own at any time, so that another one is asked: where
 * an order is tested, most of the moves must be in that order.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define MAX_CPUS	64
#define MAX_NODES	16
#define MAX_WAKES	4096
#define TIMEOUT		120

/* Most helpers, moves for each number of them, how many must find so many. */
#define ORDER_HELPERS	4
#define ORDER_MOVES	16
#define ORDER_FULL	5
/* Between moves, for the CPUs to become idle. */
#define ORDER_PAUSE_US	20000
/* And for one that helpers had to leave to be asked again. */
#define LEFT_PAUSE_US	60000
/* Moves until a helper has had time to work. */
#define ROUNDS		60
/* Moves beside busy CPUs, and with each answer to who may help. */
#define BUSY_MOVES	6
#define ASKED_MOVES	6
/*
 * Pages of a batch, which are those of a page table; where the moved ones begin
 * in one, and how many are left alone at the end, so that no batch has as many
 * pages as the first one should by chance.
 */
#define TABLE_PAGES	512
#define TABLE_FIRST	100
#define TABLE_LEFT	50
#define TABLE_MOVES	20
#define TABLE_SEEN	3
/* Folios that one of several CPUs unmaps at a time, as PIECE_FOLIOS in pieces.c. */
#define AT_A_TIME	32
/*
 * Huge pages that have lost a half each; batches that helpers must have taken in one
 * move, which is when all their halves would be more than a batch; moves until then.
 */
#define HALVES		48
#define HALVES_TAKEN	6
#define HALVES_MOVES	20
/*
 * Moves beside a real-time task that takes the CPU of a helper in the middle, how many
 * of them must have had a helper when it came, and for how long that is tried (s), as
 * the CPUs of a guest may be away; how much longer than by itself one takes that is
 * held up by it (s), and the most that one may.
 */
#define TAKEN_MOVES	60
#define TAKEN_MOVES_MANY	300
#define TAKEN		10
#define TAKEN_TRY_S	60
#define TAKEN_HELD_S	0.5
#define TAKEN_STARVED_S	0.8
#define TAKEN_MAX_S	3
/* Moves of which the fastest tells the usual time. */
#define TAKEN_ALONE	5
/*
 * Moves beside a task that comes when a helper has begun, how many of them without
 * it tell how long one takes, how long it must have been there in all (s), and the
 * least of that time that it must have had the CPU for.
 */
#define COMER_MOVES	16
#define LEAST_PIECE	64	/* Base pages that a helper takes, at least */
#define COMER_ALONE	4
#define COMER_MIN_S	0.2
#define COMER_SHARE	0.8
/* Moves beside a call that waits, and how long it must have waited before (us). */
#define WAIT_MOVES	20
#define WAIT_US		300000
/* One of so many pages has to be waited for: some of each batch. */
#define HELD_EACH	64
/* Flushes of the TLB for each batch: one, and some for pages that are tried again. */
#define FLUSHES_MOST	2
#define HOTPLUG_S	12
#define HOTPLUG_MIN	4
/* How often a CPU comes back while helpers of a cpuset work, and when. */
#define COMES		6
#define COMES_US	50000
#define COMES_MOVES	4

/* MPOL_WEIGHTED_INTERLEAVE of Linux 6.9, an enum that not all headers have. */
#define WEIGHTED_INTERLEAVE	6

static const struct kind base_pages = {
	.name = "base", .backing = BACK_ANON, .folio = OF_PAGES(1), .size = 8 * MB,
};

/* Batches become smaller towards the end: these are enough for large ones. */
static const struct kind many_pages = {
	.name = "base", .backing = BACK_ANON, .folio = OF_PAGES(1),
	.size = 24 * MB,
};

/* A move of these lasts several times as long as a task may have a CPU for. */
static const struct kind long_pages = {
	.name = "base", .backing = BACK_ANON, .folio = OF_PAGES(1),
	.size = 64 * MB,
};

static const struct kind huge_pages = {
	.name = "thp", .backing = BACK_ANON, .folio = 2 * MB, .size = 16 * MB,
};

/* Each page is a batch. */
static const struct kind hugetlb_pages = {
	.name = "hugetlb", .backing = BACK_HUGETLB, .folio = 2 * MB,
	.size = 8 * MB,
};

static const struct kind hugetlb_shared = {
	.name = "hugetlb_shared", .backing = BACK_HUGETLB_SHARED,
	.folio = 2 * MB, .size = 2 * MB,
};

/* The online CPUs; core and cache are named by their first CPU. */
static struct {
	int node;
	int core;
	int cache;
} cpus[MAX_CPUS];
static int cpu_list[MAX_CPUS], nr_cpus;

/* The nodes with memory. */
static int nodes[MAX_NODES], nr_nodes;

/* A region that no child shares: pages of several processes would not move. */
static void region_make_own(struct region *r, const struct kind *kind)
{
	region_make(r, kind, nodes[0], false);
	require(!madvise(r->map, r->size, MADV_DONTFORK), "cannot keep it");
}

static void knob(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), KNOB_DIR "/%s", name);
	require(!file_write(path, value), "cannot set %s to %s", name, value);
}

static int first_of(int cpu, const char *file)
{
	char path[160];
	uint64_t first;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/%s", cpu,
		 file);
	return file_read_number(path, &first) ? -1 : (int)first;
}

/* The last-level cache, or the core where none is known. */
static int find_cache(int cpu)
{
	int index, cache = -1;
	char file[64];

	for (index = 0; index < 8; index++) {
		int found;

		snprintf(file, sizeof(file), "cache/index%d/shared_cpu_list",
			 index);
		found = first_of(cpu, file);
		if (found >= 0)
			cache = found;
	}
	return cache < 0 ? cpus[cpu].core : cache;
}

static int find_node(int cpu)
{
	char path[128];
	int node;

	for (node = 0; node < MAX_NODES; node++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/node%d", cpu, node);
		if (file_exists(path))
			return node;
	}
	return 0;
}

static void find_topology(void)
{
	int cpu, node;

	for (cpu = 0; cpu < MAX_CPUS; cpu++) {
		int core = first_of(cpu, "topology/thread_siblings_list");

		if (core < 0)
			continue;
		cpus[cpu].core = core;
		cpus[cpu].node = find_node(cpu);
		cpus[cpu].cache = find_cache(cpu);
		cpu_list[nr_cpus++] = cpu;
	}
	for (node = 0; node < MAX_NODES; node++) {
		if (!node_bind(node))
			nodes[nr_nodes++] = node;
	}
	node_unbind();
}

/* What the tracepoints have recorded. */
static struct {
	int nr_wakes;
	struct wake {
		int cpu;
		bool highpri;
	} wakes[MAX_WAKES];
	int nr_helps;
	bool helped[MAX_CPUS];
	int nr_batches;
	unsigned long batches[MAX_WAKES];	/* Their base pages */
} trace;

static void trace_start(void)
{
	if (!file_exists(EVENTS))
		skip("this kernel has no tracepoints");
	require(!file_write(EVENTS "/migrate_copy_wake/enable", "1") &&
		!file_write(EVENTS "/migrate_copy_help/enable", "1") &&
		!file_write(EVENTS "/migrate_copy_batch/enable", "1") &&
		!file_write(TRACING "/tracing_on", "1"), "cannot trace");
	trace_clear();
}

/* Lines are "task-pid [cpu] flags time: event: values". */
static void trace_line(char *line)
{
	char *wake = strstr(line, "migrate_copy_wake: cpu=");
	char *help = strstr(line, "migrate_copy_help: ");
	char *end = strstr(line, "migrate_copy_batch: ");
	char *on = strchr(line, '[');

	if (wake && trace.nr_wakes < MAX_WAKES) {
		struct wake *seen = &trace.wakes[trace.nr_wakes++];

		seen->cpu = atoi(strchr(wake, '=') + 1);
		seen->highpri = strstr(wake, "highpri");
	} else if (help && on) {
		int cpu = atoi(on + 1);

		require(cpu >= 0 && cpu < MAX_CPUS, "a helper on CPU %d", cpu);
		trace.helped[cpu] = true;
		trace.nr_helps++;
	} else if (end && trace.nr_batches < MAX_WAKES) {
		unsigned long *pages = &trace.batches[trace.nr_batches++];

		require(sscanf(end, "%*s %*s %*s pages=%lu", pages) == 1,
			"a strange event: %s", end);
	}
}

static void trace_read(void)
{
	char line[512];
	FILE *file;

	memset(&trace, 0, sizeof(trace));
	file = fopen(TRACING "/trace", "r");
	require(file, "cannot read the trace");
	while (fgets(line, sizeof(line), file)) {
		if (line[0] != '#')
			trace_line(line);
	}
	fclose(file);
	trace_clear();
}

/*
 * Only teams of so many: one search for each call of move_pages(). They are asked
 * for whatever they cost, which a guest on a busy host measures as far more than it
 * is; and copies are not shared, as a batch is one chunk.
 */
static void teams_of(int helpers)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", helpers);
	knob("max_helpers", text);
	constant("parallel_batches", 1);
	require(!file_write_number(MT_PAGE_COPY, 1), "cannot set " MT_PAGE_COPY);
	constant("chunk_kb", 2048);
}

/* CPUs of a core or cache, each of its cores once, but for the caller's. */
static int cores_of_cache(int cache, int caller)
{
	int i, n = 0;

	for (i = 0; i < nr_cpus; i++) {
		int cpu = cpu_list[i];

		n += cpus[cpu].cache == cache && cpus[cpu].core == cpu &&
		     cpus[cpu].core != cpus[caller].core;
	}
	return n;
}

static int cores_of_node(int node, int caller)
{
	int i, n = 0;

	for (i = 0; i < nr_cpus; i++) {
		int cpu = cpu_list[i];

		n += cpus[cpu].node == node && cpus[cpu].core == cpu &&
		     cpus[cpu].core != cpus[caller].core;
	}
	return n;
}

static int nr_cores(void)
{
	int i, n = 0;

	for (i = 0; i < nr_cpus; i++)
		n += cpus[cpu_list[i]].core == cpu_list[i];
	return n;
}

/* Helpers that the last move has asked on the cores of a cache. */
static int wakes_in_cache(int cache)
{
	int i, n = 0;

	for (i = 0; i < trace.nr_wakes; i++)
		n += cpus[trace.wakes[i].cpu].cache == cache;
	return n;
}

static bool cores_differ(int caller)
{
	int i, j;

	for (i = 0; i < trace.nr_wakes; i++) {
		int core = cpus[trace.wakes[i].cpu].core;

		if (core == cpus[caller].core)
			return false;
		for (j = 0; j < i; j++) {
			if (core == cpus[trace.wakes[j].cpu].core)
				return false;
		}
	}
	return true;
}

static bool destination_first(int caller, int to)
{
	int i, here = 0, room = cores_of_node(to, caller);

	for (i = 0; i < trace.nr_wakes; i++)
		here += cpus[trace.wakes[i].cpu].node == to;
	return here == (room < trace.nr_wakes ? room : trace.nr_wakes);
}

/*
 * Spread: where a cache could have one more, no other of the node has two more,
 * the caller counted. Filled: at most one of the node's caches is used in part,
 * and no other before the caller's is full.
 */
static bool caches_right(bool fill, int caller, int node)
{
	int least = MAX_CPUS, most = 0, partly = 0, others = 0, i;
	bool own_has_room = false;

	for (i = 0; i < nr_cpus; i++) {
		int cache = cpu_list[i], used, room;

		if (cpus[cache].cache != cache || cpus[cache].node != node)
			continue;
		used = wakes_in_cache(cache);
		room = cores_of_cache(cache, caller) - used;
		partly += used && room;
		if (cpus[caller].cache == cache) {
			own_has_room = room;
			used++;
		} else {
			others += used;
		}
		if (room && used < least)
			least = used;
		if (wakes_in_cache(cache) && used > most)
			most = used;
	}
	if (fill)
		return partly <= 1 && !(own_has_room && others);
	return most <= least + 1;
}

static bool order_right(bool fill, int caller, int to)
{
	int i;

	if (!cores_differ(caller) || !destination_first(caller, to))
		return false;
	for (i = 0; i < MAX_NODES; i++) {
		if (!caches_right(fill, caller, i))
			return false;
	}
	return true;
}

static void show_wakes(int helpers, int to)
{
	char text[256] = "";
	size_t len = 0;
	int i;

	for (i = 0; i < trace.nr_wakes && len < sizeof(text) - 8; i++)
		len += snprintf(text + len, sizeof(text) - len, " %d",
				trace.wakes[i].cpu);
	ksft_print_msg("%d helpers, to node %d:%s\n", helpers, to, text);
}

/* Some helpers, no more than there are idle cores, and every destination. */
static void test_order(const void *arg)
{
	bool fill = !strcmp(arg, "fill");
	int caller = cpu_list[0], max, helpers, i, move;
	struct region r;

	max = nr_cores() - 1;
	if (max < 1 || nr_nodes < 2)
		skip("needs two cores and two nodes with memory");
	if (max > ORDER_HELPERS)
		max = ORDER_HELPERS;
	mode_enter(MODE_PARALLEL);
	knob("placement", arg);
	cpu_pin(0, caller);
	region_make(&r, &base_pages, nodes[0], false);
	trace_start();

	for (helpers = 1; helpers <= max; helpers++) {
		int asked[ORDER_HELPERS + 1] = { 0 }, full, right = 0;

		teams_of(helpers);
		for (move = 0; move < ORDER_MOVES; move++) {
			int from = nodes[move % nr_nodes];
			int to = nodes[(move + 1) % nr_nodes];

			usleep(ORDER_PAUSE_US);
			require(!region_move_pages(&r, from, to), "not moved");
			trace_read();
			require(trace.nr_wakes <= helpers, "%d CPUs asked, not %d",
				trace.nr_wakes, helpers);
			for (i = 0; i < trace.nr_wakes; i++)
				require(trace.wakes[i].cpu != caller,
					"the caller helps itself");
			asked[trace.nr_wakes]++;
			if (trace.nr_wakes < helpers)
				continue;
			if (order_right(fill, caller, to))
				right++;
			else
				show_wakes(helpers, to);
		}
		full = asked[helpers];
		ksft_print_msg("%d helpers: %d of %d moves in order\n", helpers,
			       right, full);
		for (i = 0; i < helpers; i++) {
			if (asked[i])
				ksft_print_msg("%d moves have asked %d\n",
					       asked[i], i);
		}
		require(full >= ORDER_FULL, "hardly ever %d idle CPUs", helpers);
		require(2 * right > full, "not in order");
	}
	require(region_intact(&r), "failed");
	region_free(&r);
}

/* From node to node, around all of them, by every call. */
static void test_around(const void *arg)
{
	enum copy_mode mode = *(const enum copy_mode *)arg;
	const struct kind *kinds[] = { &base_pages, &huge_pages };
	size_t kind;
	int i;

	if (nr_nodes < 2)
		skip("needs two nodes with memory");
	mode_enter(mode);
	for (kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		struct region r;

		region_make(&r, kinds[kind], nodes[0], false);
		for (i = 0; i < 3 * nr_nodes; i++) {
			int from = nodes[i % nr_nodes];
			int to = nodes[(i + 1) % nr_nodes];
			int err;

			if (i < nr_nodes)
				err = region_move_pages(&r, from, to);
			else if (i < 2 * nr_nodes)
				err = region_mbind(&r, from, to);
			else
				err = region_migrate_pages(&r, from, to);
			require(!err && region_on_node(&r, to) &&
				region_intact(&r), "%s from %d to %d",
				kinds[kind]->name, from, to);
		}
		region_free(&r);
	}
}

/* Runs a function in a cgroup with these CPUs, in a process of its own. */
static void in_group(const char *list, void (*fn)(const void *arg),
		     const void *arg)
{
	int status;
	pid_t pid;

	require(!cgroup_make("test", "+cpuset") && !cgroup_write("test", "cpuset.cpus", list),
		"cannot have a cpuset with the CPUs %s", list);
	pid = fork();
	if (!pid) {
		require(!cgroup_write("test", "cgroup.procs", "0"), "cannot enter the cgroup");
		fn(arg);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cgroups_remove();
	if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
		_exit(KSFT_SKIP);
	require(WIFEXITED(status) && !WEXITSTATUS(status), "failed");
}

/* The same with a CPU for the caller, and one for who helps. */
static void on_two_cpus(void (*fn)(const void *arg), const void *arg)
{
	char list[32];

	if (nr_cpus < 2 || nr_nodes < 2)
		skip("needs two CPUs and two nodes with memory");
	snprintf(list, sizeof(list), "%d,%d", cpu_list[0], cpu_list[1]);
	in_group(list, fn, arg);
}

/* Moves in both ways of sharing, until helpers have worked; none elsewhere. */
static void move_within(const void *arg)
{
	const bool *allowed = arg;
	int wakes = 0, helps = 0, move, i;
	struct region r;

	region_make(&r, &huge_pages, nodes[0], false);
	trace_start();
	for (move = 0; move < ROUNDS && (move < 8 || !helps); move++) {
		int from = nodes[move % nr_nodes];
		int to = nodes[(move + 1) % nr_nodes];

		mode_enter(move / 2 % 2 ? MODE_THREADS : MODE_PARALLEL);
		require(!region_move_pages(&r, from, to) && region_intact(&r),
			"from %d to %d", from, to);
		trace_read();
		for (i = 0; i < trace.nr_wakes; i++)
			require(allowed[trace.wakes[i].cpu],
				"CPU %d is asked", trace.wakes[i].cpu);
		for (i = 0; i < MAX_CPUS; i++)
			require(allowed[i] || !trace.helped[i],
				"CPU %d helps", i);
		wakes += trace.nr_wakes;
		helps += trace.nr_helps;
	}
	ksft_print_msg("%d CPUs asked, %d steps of helpers\n", wakes, helps);
	require(helps, "nobody has helped");
	region_free(&r);
}

static void move_pinned(const void *arg)
{
	const bool *allowed = arg;
	int cpu;

	for (cpu = 0; !allowed[cpu]; cpu++)
		;
	cpu_pin(0, cpu);
	move_within(arg);
}

/* The upper half of the CPUs: on several nodes, not those of the first one. */
static void test_cpuset(const void *arg)
{
	bool pinned = *(const bool *)arg;
	bool allowed[MAX_CPUS] = { 0 };
	char list[256] = "";
	size_t len = 0;
	int i;

	if (nr_cpus < 4 || nr_nodes < 2)
		skip("needs 4 CPUs and two nodes with memory");
	trace_start();
	for (i = nr_cpus / 2; i < nr_cpus; i++) {
		allowed[cpu_list[i]] = true;
		len += snprintf(list + len, sizeof(list) - len, "%s%d",
				len ? "," : "", cpu_list[i]);
	}
	in_group(list, pinned ? move_pinned : move_within, allowed);
}

#define WORKQUEUE_MASK	"/sys/devices/virtual/workqueue/cpumask"

/* The administrator has taken a CPU from unbound workers. */
static void test_workqueue_mask(const void *unused)
{
	int away = cpu_list[nr_cpus - 1], helps = 0, move;
	char mask[64] = "", text[64];
	struct region r;

	(void)unused;
	if (nr_cpus < 3 || file_read(WORKQUEUE_MASK, mask, sizeof(mask)))
		skip("needs 3 CPUs and " WORKQUEUE_MASK);
	mode_enter(MODE_PARALLEL);
	teams_of(nr_cpus - 1);
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, &base_pages);
	snprintf(text, sizeof(text), "%lx", strtoul(mask, NULL, 16) & ~(1UL << away));
	require(!file_write(WORKQUEUE_MASK, text), "cannot write %s", text);
	trace_start();
	for (move = 0; move < ROUNDS; move++) {
		require(!region_move_pages(&r, nodes[move % 2], nodes[(move + 1) % 2]),
			"not moved");
		trace_read();
		helps += trace.nr_helps;
		if (trace.helped[away])
			break;
	}
	file_write(WORKQUEUE_MASK, mask);
	require(move == ROUNDS, "a helper on CPU %d", away);
	require(helps, "nobody has helped");
	region_free(&r);
}

/* TLB interrupts of all CPUs so far. */
static unsigned long tlb_interrupts(void)
{
	char line[2048], *word, *rest;
	unsigned long sum = 0;
	FILE *file;

	file = fopen("/proc/interrupts", "r");
	require(file, "cannot read /proc/interrupts");
	while (fgets(line, sizeof(line), file)) {
		word = strtok_r(line, "\n ", &rest);
		if (!word || strcmp(word, "TLB:"))
			continue;
		while ((word = strtok_r(NULL, "\n ", &rest)) && isdigit(*word))
			sum += strtoul(word, NULL, 10);
	}
	fclose(file);
	return sum;
}

static void *spin(void *cpu)
{
	cpu_pin(0, *(int *)cpu);
	for (;;)
		;
	return NULL;
}

/*
 * All CPUs run threads of the process whose memory is moved, so nobody can help, and
 * each flush of the TLB interrupts all of them: one for each batch of 512 pages.
 */
static void test_flushes(const void *unused)
{
	unsigned long before, most = FLUSHES_MOST * (long_pages.size / PAGE) / 512;
	struct region r;
	pthread_t id;
	int i;

	(void)unused;
	if (nr_cpus < 2 || !tlb_interrupts())
		skip("needs 2 CPUs, and interrupts that flush the TLB");
	mode_enter(MODE_PARALLEL);
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, &long_pages);
	for (i = 1; i < nr_cpus; i++)
		require(!pthread_create(&id, NULL, spin, &cpu_list[i]), "no thread");
	sleep(1);
	before = tlb_interrupts();
	require(!region_move_pages(&r, nodes[0], nodes[1]), "not moved");
	before = (tlb_interrupts() - before) / (nr_cpus - 1);
	ksft_print_msg("%lu TLB interrupts a CPU, at most %lu\n", before, most);
	require(before <= most, "too many flushes");
}

/*
 * When a hog takes its CPU, and whether it is to leave it again. Which turn it has
 * left, and for how long it wanted the CPU and had it, in all turns.
 */
struct turns {
	atomic_uint go;
	atomic_uint stop;
	atomic_uint delay_us;
	atomic_uint left;
	bool drops;		/* Preempts as a real-time task, then becomes ordinary */
	double wanted_s;
	double had_s;
};

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Takes the CPU after a time, each time it is told to, and until it is told. */
static void take_turns(struct turns *turns)
{
	const struct sched_param ordinary = { 0 }, fifo = { .sched_priority = 1 };
	unsigned int turn = 0;

	for (;;) {
		double start, had;

		while (turns->go == turn)
			usleep(100);
		turn = turns->go;
		usleep(turns->delay_us);
		if (turns->drops)
			sched_setscheduler(0, SCHED_OTHER, &ordinary);
		start = now();
		had = cpu_time();
		while (turns->stop < turn)
			;
		if (turns->drops)
			sched_setscheduler(0, SCHED_FIFO, &fifo);
		turns->wanted_s += now() - start;
		turns->had_s += cpu_time() - had;
		turns->left = turn;
	}
}

/* Returns when the CPU is busy, or, with turns, when it can be. */
static pid_t hog_start(int cpu, bool realtime, struct turns *turns)
{
	struct sched_param param = { .sched_priority = 1 };
	int ready[2];
	char byte = 0;
	pid_t pid;

	require(!pipe(ready), "no pipe");
	pid = fork();
	require(pid >= 0, "cannot fork");
	if (pid) {
		close(ready[1]);
		require(read(ready[0], &byte, 1) == 1, "no hog");
		close(ready[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cpu_pin(0, cpu);
	if ((realtime && sched_setscheduler(0, SCHED_FIFO, &param)) ||
	    write(ready[1], &byte, 1) != 1)
		_exit(1);
	if (turns)
		take_turns(turns);
	for (;;)
		;
}

static void hog_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* What a number of moves has seen, beside other CPUs that are busy. */
struct busy {
	int wakes;
	int highpri;
	int helps;
};

static struct busy move_beside(struct region *r, int flags)
{
	struct busy seen = { 0 };
	int move, j;

	for (move = 0; move < BUSY_MOVES; move++) {
		int to = nodes[(move + 1) % 2];

		trace_clear();
		require(!move_range(r->map, r->size, to, flags) &&
			region_on_node(r, to), "not moved");
		trace_read();
		seen.wakes += trace.nr_wakes;
		for (j = 0; j < trace.nr_wakes; j++)
			seen.highpri += trace.wakes[j].highpri;
		seen.helps += trace.nr_helps;
	}
	require(region_intact(r), "failed");
	ksft_print_msg("%d CPUs asked, %d with priority, %d steps of helpers\n",
		       seen.wakes, seen.highpri, seen.helps);
	return seen;
}

/* In a cpuset of two CPUs: one for the caller, and one that has a hog. */
static void beside_hog(const void *arg)
{
	int caller = cpu_list[0], other = cpu_list[1];
	const struct kind *kind = arg;
	struct busy seen;
	struct region r;
	pid_t hog;
	int helps;

	cpu_pin(0, caller);
	region_make_own(&r, kind);
	if (kind_is_hugetlb(kind)) {
		mode_enter(MODE_THREADS);
	} else {
		mode_enter(MODE_PARALLEL);
		teams_of(nr_cpus - 1);
	}
	trace_start();
	hog = hog_start(other, false, NULL);

	knob("priority", "normal");
	require(!move_beside(&r, MPOL_MF_MOVE).wakes, "a busy CPU is asked");
	require(!move_beside(&r, MPOL_MF_MOVE | MPOL_MF_MOVE_MT).wakes,
		"a busy CPU is asked by a flag");

	knob("priority", "high");
	seen = move_beside(&r, MPOL_MF_MOVE);
	require(2 * seen.wakes > BUSY_MOVES && seen.highpri == seen.wakes,
		"a busy CPU is not asked with high priority");
	helps = seen.helps;

	knob("priority", "normal");
	require(!setpriority(PRIO_PROCESS, 0, -5), "cannot have a priority");
	require(!move_beside(&r, MPOL_MF_MOVE).wakes,
		"a busy CPU is asked for a priority alone");
	seen = move_beside(&r, MPOL_MF_MOVE | MPOL_MF_MOVE_MT);
	require(2 * seen.wakes > BUSY_MOVES && seen.highpri == seen.wakes,
		"a busy CPU is not asked by one who has priority");
	require(helps + seen.helps, "it does not help");
	hog_stop(hog);

	/* The scheduler gives a little time to others even then. */
	hog = hog_start(other, true, NULL);
	seen = move_beside(&r, MPOL_MF_MOVE | MPOL_MF_MOVE_MT);
	hog_stop(hog);
	require(2 * seen.wakes < BUSY_MOVES, "a real-time task is disturbed");
	region_free(&r);
}

static void test_priority(const void *arg)
{
	trace_start();
	on_two_cpus(beside_hog, arg);
}

/* What decides whether other CPUs are asked, and whether they are. */
static const struct {
	int mt_page_copy;
	const char *reasons;
	int flags;
	bool mbind;
	bool asked;
} askers[] = {
	{ 0, "all", MPOL_MF_MOVE, false, false },
	{ 0, "all", MPOL_MF_MOVE | MPOL_MF_MOVE_MT, false, true },
	{ 0, "none", MPOL_MF_MOVE | MPOL_MF_MOVE_MT, true, true },
	{ 1, "none", MPOL_MF_MOVE, false, true },
	{ 2, "none", MPOL_MF_MOVE, false, false },
	{ 2, "none", MPOL_MF_MOVE | MPOL_MF_MOVE_MT, false, true },
	{ 2, "syscall_or_cpuset", MPOL_MF_MOVE, false, true },
	{ 2, "syscall_or_cpuset", MPOL_MF_MOVE, true, false },
	{ 2, "mempolicy_mbind", MPOL_MF_MOVE, true, true },
	{ 2, "mempolicy_mbind", MPOL_MF_MOVE, false, false },
};

static void test_asked(const void *arg)
{
	const struct kind *kind = arg;
	struct region r;
	size_t i;
	int move;

	if (nr_cpus < 2 || nr_nodes < 2)
		skip("needs two CPUs and two nodes with memory");
	mode_enter(MODE_THREADS);
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, kind);
	trace_start();
	for (i = 0; i < ARRAY_SIZE(askers); i++) {
		int flags = askers[i].flags, wakes = 0;

		require(!file_write_number(MT_PAGE_COPY,
					   askers[i].mt_page_copy),
			"cannot set " MT_PAGE_COPY);
		knob("reasons", askers[i].reasons);
		trace_clear();
		for (move = 0; move < ASKED_MOVES; move++) {
			int to = nodes[(move + 1) % 2];

			/* For others to be idle. */
			usleep(ORDER_PAUSE_US);
			require(!(askers[i].mbind ?
				  sys_mbind(r.map, r.size, MPOL_BIND, to, flags) :
				  move_range(r.map, r.size, to, flags)) &&
				region_on_node(&r, to), "not moved");
			trace_read();
			wakes += trace.nr_wakes;
		}
		require(!!wakes == askers[i].asked,
			"%d CPUs asked in line %zu", wakes, i);
	}
	require(region_intact(&r), "content");
	region_free(&r);
}

/*
 * What moves begins amid a page table. So does each piece, and two CPUs want the
 * lock of one table, unless the first piece ends with a table. A CPU takes some pages
 * of its piece at a time: the last ones of the first piece are as many as are over in
 * its table, and no others are.
 */
static void test_tables(const void *arg)
{
	const int over = (TABLE_PAGES - TABLE_FIRST) % AT_A_TIME;
	int move, i, seen = 0;
	struct region r;
	char *start;
	size_t size;

	static_assert((TABLE_PAGES - TABLE_FIRST) % AT_A_TIME !=
		      (TABLE_PAGES - TABLE_LEFT) % AT_A_TIME);
	if (nr_cpus < 2 || nr_nodes < 2)
		skip("needs two CPUs and two nodes with memory");
	if (PAGE != 4 * KB)
		skip("a page table has more pages than a batch");
	mode_enter(MODE_PARALLEL);
	constant("batch_pages", 2048);
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, &many_pages);
	start = r.map + TABLE_FIRST * PAGE;
	size = r.size - (TABLE_FIRST + TABLE_LEFT) * PAGE;
	teams_of(1);
	trace_start();
	for (move = 0; move < TABLE_MOVES && seen < TABLE_SEEN; move++) {
		int to = nodes[(move + 1) % 2], firsts = 0, others = 0;

		usleep(ORDER_PAUSE_US);
		trace_clear();
		require(!move_range(start, size, to, MPOL_MF_MOVE),
			"not moved");
		trace_read();
		if (!trace.nr_wakes)
			continue;
		for (i = 0; i < trace.nr_batches; i++) {
			firsts += trace.batches[i] == over;
			others += trace.batches[i] == AT_A_TIME;
		}
		if (firsts == 1 && others > 4 * TABLE_PAGES / AT_A_TIME)
			seen++;
		else
			/* A page that somebody refers to is not copied. */
			ksft_print_msg("%d batches to the end of a table, %d others\n",
				       firsts, others);
	}
	require(seen == TABLE_SEEN, "%d of %d moves in whole tables", seen,
		move);
	require(region_intact(&r), "content");
	region_free(&r);
}

static char *halves_make(size_t huge)
{
	char *map, *start;
	size_t i;

	map = mmap(NULL, (HALVES + 1) * huge, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(map != MAP_FAILED, "no memory");
	start = (char *)(((uintptr_t)map + huge - 1) & ~(huge - 1));
	thp_only(huge);
	require(!madvise(start, HALVES * huge, MADV_HUGEPAGE), "no huge pages");
	require(!node_bind(nodes[0]), "cannot allocate on a node");
	for (i = 0; i < HALVES; i++) {
		char *p = start + i * huge;

		pattern_fill(p, huge / 2, i, 0, 0);
		if (folio_size_at(p) != huge)
			skip("no huge page to be had");
		require(!madvise(p + huge / 2, huge / 2, MADV_DONTNEED),
			"cannot drop a half");
	}
	node_unbind();
	return start;
}

/*
 * Migration splits a huge page half of which is gone, and moves the other half as
 * base pages, later. Those of all huge pages together are no batch.
 */
static void test_halves(const void *arg)
{
	unsigned long most = 0;
	const size_t huge = 2 * MB;
	uint64_t taken = 0;
	int move, i;

	if (nr_cpus < 2 || nr_nodes < 2)
		skip("needs two CPUs and two nodes with memory");
	if (PAGE != 4 * KB)
		skip("a huge page is more than a batch");
	mode_enter(MODE_PARALLEL);
	constant("batch_pages", 512);
	teams_of(nr_cpus - 1);
	trace_start();
	for (move = 0; move < HALVES_MOVES && taken < HALVES_TAKEN; move++) {
		char *start = halves_make(huge);

		usleep(ORDER_PAUSE_US);
		trace_clear();
		taken = stat_read("pages_helpers");
		require(!sys_mbind(start, HALVES * huge, MPOL_BIND, nodes[1],
				   MPOL_MF_MOVE), "not moved: %s",
			strerror(errno));
		taken = (stat_read("pages_helpers") - taken) * PAGE / (huge / 2);
		trace_read();
		most = 0;
		for (i = 0; i < trace.nr_batches; i++) {
			if (trace.batches[i] > most)
				most = trace.batches[i];
		}
		ksft_print_msg("helpers moved %llu halves, the largest batch had %lu pages\n",
			       (unsigned long long)taken, most);
		for (i = 0; i < HALVES; i++) {
			char *p = start + i * huge;

			require(!pages_elsewhere(p, huge / 2, PAGE, nodes[1]),
				"not all have moved");
			require(!pattern_bad(p, huge / 2, i, 0, 0), "content");
		}
		require(most && most <= TABLE_PAGES, "a batch of %lu pages",
			most);
		munmap(start, HALVES * huge);
	}
	require(taken >= HALVES_TAKEN, "helpers moved %llu halves",
		(unsigned long long)taken);
}

/*
 * In a cpuset of two CPUs: one for the caller, and one for its helper, until a task
 * takes that. If it is a real-time task, the scheduler leaves a twentieth of each
 * second to ordinary tasks: a helper that could not leave the CPU would take a
 * second for the rest of its batch. It goes on where its caller is. If it is an
 * ordinary task, and another one is where the caller is, the helper, which is
 * SCHED_IDLE, would get three thousandths of a CPU, with pages unmapped for which
 * others wait. It gets the priority of its caller.
 */
static void beside_turns(const void *arg)
{
	bool realtime = *(const bool *)arg;
	struct turns *turns = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start, took, alone = 1e9, longest = 0, end = now() + TAKEN_TRY_S;
	/* The scheduler usually gives a helper that has been preempted one tick. */
	int most = realtime ? TAKEN_MOVES : TAKEN_MOVES_MANY;
	int move, taken = 0, held = 0;
	pid_t hog, other = 0;
	struct region r;

	require(turns != MAP_FAILED, "no memory");
	mode_enter(MODE_PARALLEL);
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, &base_pages);
	teams_of(1);
	trace_start();
	/* An ordinary task would not take the CPU before the tick. */
	turns->drops = !realtime;
	hog = hog_start(cpu_list[1], true, turns);
	if (!realtime)
		other = hog_start(cpu_list[0], false, NULL);
	for (move = 0; move < most || (taken < TAKEN && now() < end); move++) {
		int to = nodes[(move + 1) % 2];

		trace_clear();
		if (move >= TAKEN_ALONE) {
			/* The call begins with a drain of all CPUs. */
			turns->delay_us = 1e6 * alone / 4 +
					  rnd(1e6 * alone / 2);
			turns->go = move;
		}
		start = now();
		require(!move_range(r.map, r.size, to, MPOL_MF_MOVE),
			"not moved");
		took = now() - start;
		turns->stop = move;
		require(region_on_node(&r, to), "after %d moves", move);
		trace_read();
		if (move < TAKEN_ALONE && took < alone)
			alone = took;
		if (took > longest)
			longest = took;
		taken += move >= TAKEN_ALONE && trace.nr_helps &&
			 took > turns->delay_us / 1e6;
		held += took > (realtime ? TAKEN_HELD_S : TAKEN_STARVED_S) + alone;
		/* It must be seen to wait, and the CPU to be idle. */
		usleep(LEFT_PAUSE_US);
	}
	hog_stop(hog);
	if (other)
		hog_stop(other);
	require(region_intact(&r), "content");
	ksft_print_msg("%d moves, alone %.0f ms, %d with a helper, %d held up, longest %.0f ms\n",
		       move, 1e3 * alone, taken, held, 1e3 * longest);
	require(taken >= TAKEN, "no helper lost its CPU");
	require(held <= (realtime ? taken / 4 : 0),
		"helpers do not leave a CPU that they have lost");
	require(longest < TAKEN_MAX_S + alone, "held up too long");
	region_free(&r);
}

static void test_taken(const void *arg)
{
	random_start(1, 0);
	on_two_cpus(beside_turns, arg);
}

/*
 * In a cpuset of two CPUs: one for the caller, and one for its helper, until an
 * ordinary task wants that. It was idle when it was asked for help; with high
 * priority it need not be. The helper leaves as soon as nothing is unmapped: who
 * it helps does the rest.
 */
static void beside_comer(const void *arg)
{
	struct turns *turns = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start, alone = 1e9;
	uint64_t helped, rests;
	struct region r;
	int move;
	pid_t hog;

	require(turns != MAP_FAILED, "no memory");
	mode_enter(MODE_PARALLEL);
	knob("priority", "normal");
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, &long_pages);
	teams_of(1);
	hog = hog_start(cpu_list[1], false, turns);
	helped = stat_read("pages_helpers");
	rests = stat_read("rests");
	for (move = 0; move < COMER_MOVES; move++) {
		int to = nodes[(move + 1) % 2];

		if (move >= COMER_ALONE) {
			turns->delay_us = 1e6 * alone / 4;
			turns->go = move;
		}
		start = now();
		require(!move_range(r.map, r.size, to, MPOL_MF_MOVE),
			"not moved");
		if (move < COMER_ALONE && now() - start < alone)
			alone = now() - start;
		turns->stop = move;
		require(region_on_node(&r, to), "after %d moves", move);
		while (move >= COMER_ALONE && turns->left < (unsigned int)move)
			usleep(100);
		/* The CPU has to be idle, and to be seen to. */
		usleep(LEFT_PAUSE_US);
	}
	helped = stat_read("pages_helpers") - helped;
	rests = stat_read("rests") - rests;
	hog_stop(hog);
	require(region_intact(&r), "content");
	ksft_print_msg("alone %.0f ms, %llu pages, %llu rests, a task had %.2f of %.2f s\n",
		       1e3 * alone, (unsigned long long)helped,
		       (unsigned long long)rests, turns->had_s, turns->wanted_s);
	require(helped >= COMER_MOVES * LEAST_PIECE, "hardly any help");
	require(turns->wanted_s > COMER_MIN_S, "the task came too late");
	require(turns->had_s > COMER_SHARE * turns->wanted_s,
		"a helper does not make way");
	require(2 * rests >= COMER_MOVES - COMER_ALONE,
		"a helper makes way only behind a batch");
	region_free(&r);
}

static void test_comer(const void *arg)
{
	on_two_cpus(beside_comer, arg);
}

/* Who takes batches counts among those who may help with the copies of a batch. */
static void test_bound(const void *arg)
{
	int max = 2, move, teams = 0;
	struct region r;

	if (nr_cpus < 6 || nr_nodes < 2)
		skip("needs 6 CPUs and two nodes with memory");
	mode_enter(MODE_PARALLEL);
	teams_of(max);
	/* Each page is many chunks, for which helpers cost nothing. */
	constant("chunk_kb", 64);
	region_make_own(&r, &huge_pages);
	trace_start();
	for (move = 0; move < ROUNDS && teams < BUSY_MOVES; move++) {
		usleep(ORDER_PAUSE_US);
		trace_clear();
		require(!region_move_pages(&r, nodes[move % 2],
					   nodes[(move + 1) % 2]),
			"not moved");
		trace_read();
		if (!trace.nr_wakes)
			continue;
		teams++;
		require(trace.nr_wakes <= max, "%d helpers for pieces and copies",
			trace.nr_wakes);
	}
	require(teams, "no team in %d moves", move);
	require(region_intact(&r), "content");
	region_free(&r);
}

/* Some policies prefer the node of the task that asks, even if a helper allocates. */
static const struct {
	const char *name;
	int mode;
	bool two_nodes;
} nearest[] = {
	{ "local", MPOL_LOCAL, false },
	{ "bind", MPOL_BIND, true },
	{ "preferred many", MPOL_PREFERRED_MANY, true },
};

static void test_nearest(const void *arg)
{
	int caller = cpu_list[0], own, far = nodes[nr_nodes - 1], other;
	struct region r;
	size_t i;

	own = cpus[caller].node;
	other = cpus[cpu_list[nr_cpus - 1]].node;
	if (nr_nodes < 3 || own == other)
		skip("needs three nodes with memory, and CPUs on two");
	/* Memory comes from a node with neither the caller nor the other one. */
	for (i = 0; i < (size_t)nr_nodes; i++) {
		if (nodes[i] != own && nodes[i] != other)
			far = nodes[i];
	}
	mode_enter(MODE_PARALLEL);
	cpu_pin(0, caller);
	region_make_own(&r, &many_pages);
	trace_start();
	for (i = 0; i < ARRAY_SIZE(nearest); i++) {
		unsigned long mask = nearest[i].two_nodes ?
				     1UL << own | 1UL << other : 0;
		int move, elsewhere = 0;

		for (move = 0; move < ROUNDS && elsewhere < 3; move++) {
			bool away = false;
			int j;

			teams_of(0);
			require(!sys_mbind(r.map, r.size, MPOL_BIND, far,
					   MPOL_MF_MOVE) &&
				region_on_node(&r, far), "not moved away");
			teams_of(nr_cpus - 1);
			trace_clear();
			require(!syscall(SYS_mbind, r.map, r.size,
					 nearest[i].mode, mask ? &mask : NULL,
					 mask ? 8 * sizeof(mask) : 0,
					 MPOL_MF_MOVE), "%s: not moved",
				nearest[i].name);
			trace_read();
			for (j = 0; j < nr_cpus; j++)
				away |= trace.helped[cpu_list[j]] &&
					cpus[cpu_list[j]].node != own;
			elsewhere += away;
			require(region_on_node(&r, own), "%s", nearest[i].name);
		}
		ksft_print_msg("%s: %d of %d moves with help from elsewhere\n",
			       nearest[i].name, elsewhere, move);
		require(elsewhere, "no help from another node");
	}
	require(region_intact(&r), "content");
	region_free(&r);
}

/* Where each base page of a region is. */
static int *nodes_of(const struct region *r)
{
	size_t n = r->size / PAGE, i;
	void **pages = calloc(n, sizeof(*pages));
	int *status = calloc(n, sizeof(*status));

	require(pages && status, "no memory");
	for (i = 0; i < n; i++)
		pages[i] = r->map + i * PAGE;
	require(!sys_move_pages(0, n, pages, NULL, status, 0),
		"cannot ask for nodes");
	free(pages);
	return status;
}

/* And others take turns, by the place of a page in its mapping. */
static const struct {
	const char *name;
	int mode;
} in_turn[] = {
	{ "interleave", MPOL_INTERLEAVE },
	{ "weighted interleave", WEIGHTED_INTERLEAVE },
};

static void test_in_turn(const void *arg)
{
	int far = nodes[nr_nodes - 1];
	unsigned long mask = 0;
	struct region r;
	size_t i;

	if (nr_nodes < 3)
		skip("needs three nodes with memory");
	for (i = 0; i < (size_t)nr_nodes - 1; i++)
		mask |= 1UL << nodes[i];
	mode_enter(MODE_PARALLEL);
	region_make_own(&r, &many_pages);
	for (i = 0; i < ARRAY_SIZE(in_turn); i++) {
		int move, helped = 0, *alone = NULL;

		for (move = 0; move < ROUNDS && helped < 3; move++) {
			uint64_t pages;
			int *found;

			teams_of(0);
			require(!sys_mbind(r.map, r.size, MPOL_BIND, far,
					   MPOL_MF_MOVE) &&
				region_on_node(&r, far), "not moved away");
			teams_of(move ? nr_cpus - 1 : 0);
			pages = stat_read("pages_helpers");
			require(!syscall(SYS_mbind, r.map, r.size,
					 in_turn[i].mode, &mask,
					 8 * sizeof(mask), MPOL_MF_MOVE),
				"%s: not moved", in_turn[i].name);
			helped += stat_read("pages_helpers") > pages;
			found = nodes_of(&r);
			if (alone) {
				require(!memcmp(found, alone, r.size / PAGE *
						sizeof(*alone)),
					"%s: a helper has put it elsewhere",
					in_turn[i].name);
				free(found);
			} else {
				alone = found;
			}
		}
		ksft_print_msg("%s: %d of %d moves with help\n",
			       in_turn[i].name, helped, move - 1);
		require(helped, "no help");
		free(alone);
	}
	require(region_intact(&r), "content");
	region_free(&r);
}

/* A call that comes upon pages whose writeback does not end, in each batch. */
struct waiting {
	struct region r;
	char *held;
	size_t nr_held;
	long left;		/* What the call returned */
	int err;
	atomic_bool over;
};

static void *waiting_main(void *arg)
{
	struct waiting *w = arg;
	size_t n = w->r.size / PAGE + w->nr_held, each = n / w->nr_held, i;
	void **pages = calloc(n, sizeof(*pages));
	int *to = calloc(n, sizeof(*to));
	int *status = calloc(n, sizeof(*status));
	char *own = w->r.map, *held = w->held;

	require(pages && to && status, "no memory");
	/*
	 * Backwards, so that the call isolates all of them before it begins: it would
	 * leave everything to the helpers otherwise, and not be the one who waits.
	 */
	for (i = n; i--;) {
		char **next = i % each ? &own : &held;

		pages[i] = *next;
		*next += PAGE;
		to[i] = nodes[1];
	}
	w->left = sys_move_pages(0, n, pages, to, status, MPOL_MF_MOVE);
	w->err = w->left < 0 ? errno : 0;
	w->over = true;
	return NULL;
}

static void test_waiting(const void *arg)
{
	static struct waiting w;
	int dev, thaw, move, own, most = 0;
	pthread_t thread;
	struct region r;
	size_t held, moved;
	uint64_t requests;

	if (nr_cpus < 6 || nr_nodes < 2)
		skip("needs 6 CPUs and two nodes with memory");
	mode_enter(MODE_PARALLEL);
	teams_of(nr_cpus - 1);
	region_make_own(&w.r, &many_pages);
	region_make_own(&r, &base_pages);
	frozen_device(&dev, &thaw);
	require(!node_bind(nodes[0]), "cannot stay on the node");
	w.nr_held = w.r.size / PAGE / HELD_EACH;
	held = w.nr_held * PAGE;
	w.held = mmap(NULL, held, PROT_READ | PROT_WRITE, MAP_SHARED, dev, 0);
	require(w.held != MAP_FAILED, "cannot map the device");
	/* Large folios, of which a call meets several pages, would end its list early. */
	require(!madvise(w.held, held, MADV_RANDOM), "no base pages");
	pattern_fill(w.held, held, 1, 0, 0);
	node_unbind();
	require(!sync_file_range(dev, 0, held, SYNC_FILE_RANGE_WRITE),
		"cannot write back: %s", strerror(errno));
	usleep(ORDER_PAUSE_US);
	trace_start();
	requests = stat_read("requests");
	require(!pthread_create(&thread, NULL, waiting_main, &w), "no thread");
	while (stat_read("requests") == requests && !w.over)
		usleep(WAIT_US);
	usleep(WAIT_US);
	trace_read();
	own = trace.nr_wakes;
	require(!w.over, "nothing had to be waited for");
	require(own, "it had no helpers before it had to wait");

	for (move = 0; move < WAIT_MOVES; move++) {
		usleep(ORDER_PAUSE_US);
		trace_clear();
		require(!region_move_pages(&r, nodes[move % 2],
					   nodes[(move + 1) % 2]),
			"not moved");
		trace_read();
		if (trace.nr_wakes > most)
			most = trace.nr_wakes;
	}
	require(!w.over, "it has not waited until the end");
	require(!ioctl(thaw, FITHAW, 0), "cannot thaw");
	require(!pthread_join(thread, NULL), "the call does not end");
	moved = w.nr_held - pages_elsewhere(w.held, held, PAGE, nodes[1]);
	ksft_print_msg("%d helpers beside a call that waits, which had %d\n", most, own);
	ksft_print_msg("it returned %ld, errno %d; %zu of %zu that it waited for have moved\n",
		       w.left, w.err, moved, w.nr_held);
	/* So many that some of them must be those that it had. */
	require(most + own > nr_cpus, "CPUs are kept by who waits");
	require(w.left >= 0, "the call failed");
	/* Few may be busy for a moment, as in every move: another call finds them free. */
	require(moved > w.nr_held / 2, "it has not moved what it waited for");
	require(!region_move_pages(&w.r, nodes[0], nodes[1]) &&
		!sys_mbind(w.held, held, MPOL_BIND, nodes[1],
			   MPOL_MF_MOVE | MPOL_MF_STRICT) &&
		!pattern_bad(w.held, held, 1, 0, 0), "what was left does not move");
	require(region_intact(&w.r) && region_on_node(&w.r, nodes[1]) &&
		region_intact(&r), "content");
}

/* Has one of some moves help, if this task has the policy? */
static bool helped_within(struct region *r, int flags, int policy)
{
	struct sched_param param = { .sched_priority = policy == SCHED_FIFO };
	int move;

	require(!sched_setscheduler(0, policy, &param), "cannot have policy %d", policy);
	for (move = 0; move < ROUNDS; move++) {
		if (move_beside(r, flags).wakes)
			return true;
	}
	return false;
}

/* Pages of requests of which helpers could take pieces. */
static uint64_t pages_shared(void)
{
	return stat_read("pages_caller") + stat_read("pages_helpers");
}

/* What a real-time task does waits for no ordinary task: nobody takes its batches. */
static void test_realtime_caller(const void *arg)
{
	struct sched_param param = { .sched_priority = 1 };
	bool ordinary, realtime, asked;
	struct region r;
	uint64_t shared;

	if (nr_cpus < 2 || nr_nodes < 2)
		skip("needs two CPUs and two nodes with memory");
	mode_enter(MODE_PARALLEL);
	cpu_pin(0, cpu_list[0]);
	region_make_own(&r, &base_pages);
	teams_of(nr_cpus - 1);
	trace_start();
	shared = pages_shared();
	move_beside(&r, MPOL_MF_MOVE);
	require(pages_shared() > shared, "no team for an ordinary task");

	require(!sched_setscheduler(0, SCHED_FIFO, &param),
		"cannot be real-time");
	shared = pages_shared();
	move_beside(&r, MPOL_MF_MOVE);
	move_beside(&r, MPOL_MF_MOVE | MPOL_MF_MOVE_MT);
	require(pages_shared() == shared, "a team for a real-time task");

	/* Nor has it help with copies, unless it asks for it. */
	mode_enter(MODE_THREADS);
	file_write_number(MT_PAGE_COPY, 2);
	ordinary = helped_within(&r, MPOL_MF_MOVE, SCHED_OTHER);
	realtime = helped_within(&r, MPOL_MF_MOVE, SCHED_FIFO);
	asked = helped_within(&r, MPOL_MF_MOVE | MPOL_MF_MOVE_MT, SCHED_FIFO);
	require(ordinary, "no help with copies for an ordinary task");
	require(!realtime, "help with copies for a real-time task");
	require(asked, "no help with copies for a real-time task that asks");
	region_free(&r);
}

static void all_online(void)
{
	int i;

	for (i = 0; i < nr_cpus; i++)
		cpu_set_online(cpu_list[i], true);
}

/* Takes CPUs away and brings them back; counts how often that went well. */
static void come_and_go(int *changes)
{
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		for (i = 1; i < nr_cpus; i++)
			*changes += !cpu_set_online(cpu_list[i], false) &&
				    !cpu_set_online(cpu_list[i], true);
	}
}

static void test_hotplug(const void *arg)
{
	uint64_t pages, bytes;
	int *changes, moves = 0;
	struct region r, huge;
	time_t end;
	pid_t pid;

	if (first_of(cpu_list[nr_cpus - 1], "online") < 0 || nr_nodes < 2)
		skip("needs CPU hot-plug and two nodes with memory");
	changes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(changes != MAP_FAILED, "no memory");
	mode_enter(MODE_PARALLEL);
	region_make_own(&r, &base_pages);
	region_make_own(&huge, &huge_pages);
	pages = stat_read("pages_helpers");
	bytes = stat_read("bytes_helpers");

	pid = fork();
	if (!pid)
		come_and_go(changes);
	end = time(NULL) + HOTPLUG_S;
	while (time(NULL) < end || *changes < HOTPLUG_MIN) {
		int from = nodes[moves % nr_nodes];
		int to = nodes[(moves + 1) % nr_nodes];

		constant("parallel_batches", moves / 2 % 2);
		require(!region_move_pages(&r, from, to) &&
			region_on_node(&r, to) && region_intact(&r) &&
			!region_move_pages(&huge, from, to) &&
			region_on_node(&huge, to) && region_intact(&huge),
			"after %d moves", moves);
		moves++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	all_online();
	pages = stat_read("pages_helpers") - pages;
	bytes = stat_read("bytes_helpers") - bytes;
	ksft_print_msg("%d moves, %d CPUs away and back, %llu pages and %llu KiB of helpers\n",
		       moves, *changes, (unsigned long long)pages,
		       (unsigned long long)bytes / KB);
	require(pages && bytes, "nobody has helped");
	region_free(&r);
	region_free(&huge);
}

/*
 * How many kernel threads have a name that begins so, and, unless @cpu is
 * negative, may not run on that CPU.
 */
static int threads_named(const char *name, int cpu)
{
	struct dirent *entry;
	int nr = 0;
	DIR *proc;

	proc = opendir("/proc");
	require(proc, "no /proc");
	while ((entry = readdir(proc))) {
		char path[300], comm[64] = "";
		cpu_set_t may;

		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (!isdigit(entry->d_name[0]) || file_read(path, comm, sizeof(comm)) ||
		    strncmp(comm, name, strlen(name)))
			continue;
		nr += cpu < 0 || (!sched_getaffinity(atoi(entry->d_name), sizeof(may), &may) &&
				  !CPU_ISSET(cpu, &may));
	}
	closedir(proc);
	return nr;
}

/* Both counted before any test. */
static int rescuers;
static uint64_t requests;

static void test_no_workers(const void *unused)
{
	struct region r;
	int move;

	(void)unused;
	if (requests)
		skip("somebody has had help since the kernel was booted");
	require(!rescuers, "a workqueue before the first help");
	mode_enter(MODE_PARALLEL);
	region_make(&r, &base_pages, nodes[0], false);
	for (move = 0; move < ROUNDS && !threads_named("kworker/R-migra", -1); move++)
		region_move_pages(&r, nodes[move % 2], nodes[(move + 1) % 2]);
	require(move < ROUNDS, "no workqueue after that");
	region_free(&r);
}

/* Moves as one of two CPUs until another one has come back. */
static void move_until_online(const void *arg)
{
	int cpu = *(const int *)arg, moves = 0;
	struct region r;

	mode_enter(MODE_PARALLEL);
	region_make(&r, &base_pages, nodes[0], false);
	while (moves < COMES_MOVES || !first_of(cpu, "online")) {
		require(!region_move_pages(&r, nodes[moves % 2], nodes[(moves + 1) % 2]),
			"after %d moves", moves);
		moves++;
	}
	region_free(&r);
}

/*
 * Of two CPUs that went, one returns: workers may run on those that are online, not
 * on the other. That returns while a worker helps a cpuset, which must not give the
 * worker the CPUs that it had before.
 */
static void test_hotplug_mask(const void *unused)
{
	int first = cpu_list[nr_cpus - 2], second = cpu_list[nr_cpus - 1], i;
	uint64_t pages = stat_read("pages_helpers");
	pid_t pid;

	(void)unused;
	if (first_of(second, "online") < 0 || nr_cpus < 4)
		skip("needs CPU hot-plug and 4 CPUs");
	for (i = 0; i < COMES; i++) {
		require(!cpu_set_online(second, false) && !cpu_set_online(first, false) &&
			!cpu_set_online(first, true), "CPUs do not come and go");
		pid = fork();
		if (!pid) {
			usleep(COMES_US);
			_exit(cpu_set_online(second, true) ? KSFT_FAIL : 0);
		}
		on_two_cpus(move_until_online, &second);
		waitpid(pid, NULL, 0);
		require(!threads_named("kworker/u", second),
			"workers that may not run on CPU %d any more", second);
	}
	require(stat_read("pages_helpers") > pages, "nobody has helped");
}

static const struct {
	const char *name;
	test_fn fn;
	const void *arg;
} tests[] = {
	{ "no workers before the first help", test_no_workers, NULL },
	{ "spread: cores, nodes and caches in order", test_order, "spread" },
	{ "fill: cores, nodes and caches in order", test_order, "fill" },
	{ "threads: around all nodes", test_around,
	  &(const enum copy_mode){ MODE_THREADS } },
	{ "parallel: around all nodes", test_around,
	  &(const enum copy_mode){ MODE_PARALLEL } },
	{ "cpuset: no helper outside", test_cpuset, &(const bool){ false } },
	{ "cpuset: help for a pinned task, none from outside", test_cpuset,
	  &(const bool){ true } },
	{ "workqueue/cpumask: no helper outside", test_workqueue_mask, NULL },
	{ "alone: flushes of the TLB", test_flushes, NULL },
	{ "asked: who may help with base pages", test_asked, &base_pages },
	{ "asked: who may help with huge pages", test_asked, &huge_pages },
	{ "asked: who may help with hugetlb pages", test_asked, &hugetlb_pages },
	{ "asked: who may help with shared hugetlb pages", test_asked,
	  &hugetlb_shared },
	{ "batches end where page tables do", test_tables, NULL },
	{ "batches are bounded where huge pages are split", test_halves, NULL },
	{ "priority: busy CPUs", test_priority, &base_pages },
	{ "priority: busy CPUs, hugetlb pages", test_priority, &hugetlb_pages },
	{ "priority: an ordinary task gets the CPU of a helper", test_comer,
	  NULL },
	{ "max_helpers: for batches and copies together", test_bound, NULL },
	{ "max_helpers: free for others while a call waits", test_waiting, NULL },
	{ "mbind: by the node of who asks", test_nearest, NULL },
	{ "mbind: by the place of a page", test_in_turn, NULL },
	{ "real-time: a task takes the CPU of a helper", test_taken,
	  &(const bool){ true } },
	{ "an ordinary task takes the CPU of a helper", test_taken,
	  &(const bool){ false } },
	{ "real-time: no team for a task", test_realtime_caller, NULL },
	{ "hot-plug: CPUs come and go", test_hotplug, NULL },
	{ "hot-plug: workers get back a CPU that has returned", test_hotplug_mask, NULL },
};

int main(void)
{
	char reasons[512] = "all";
	size_t i;

	rescuers = threads_named("kworker/R-migra", -1);
	requests = stat_read("requests");
	/* Without the file no test runs. */
	file_read(KNOB_DIR "/reasons", reasons, sizeof(reasons));
	tests_start(ARRAY_SIZE(tests));
	find_topology();
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		test_run(tests[i].name, TIMEOUT, tests[i].fn, tests[i].arg);
		/* What a test has changed, and the others leave as it is. */
		file_write(KNOB_DIR "/reasons", reasons);
	}
	/* A test that was ended may have left some away. */
	all_online();
	tests_end();
}
