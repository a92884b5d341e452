// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel counts and traces of a migration, and to which node and cgroup
 * it accounts the memory, is that of an unmodified kernel, whoever copies and
 * whoever takes the batches.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define TIMEOUT		120
/* Others migrate now and then: once it has to be exactly that. */
#define ATTEMPTS	20
/* What statistics of a cgroup may lag behind, in pages, by 64 of each CPU. */
#define LAG		(64 * sysconf(_SC_NPROCESSORS_CONF))

enum count {
	/* Of /proc/vmstat. */
	SUCCESS,
	FAIL,
	THP_SUCCESS,
	THP_FAIL,
	THP_SPLIT,
	NR_VM_EVENTS,
	/* Of the tracepoint of migrate_pages(), summed up. */
	TRACED_SUCCESS = NR_VM_EVENTS,
	TRACED_FAIL,
	TRACED_THP_SUCCESS,
	TRACED_THP_FAIL,
	TRACED_THP_SPLIT,
	/* How often it was called. */
	TRACED_CALLS,
	/* Entries of page tables that were replaced, and put back. */
	TRACED_SET,
	TRACED_REMOVED,
	NR_COUNTS,
};

/* Those of vm events are what /proc/vmstat calls them. */
static const char * const count_names[NR_COUNTS] = {
	"pgmigrate_success", "pgmigrate_fail", "thp_migration_success",
	"thp_migration_fail", "thp_migration_split", "traced nr_succeeded",
	"traced nr_failed", "traced nr_thp_succeeded", "traced nr_thp_failed",
	"traced nr_thp_split", "traced calls", "traced set_migration_pte",
	"traced remove_migration_pte",
};

static const struct kind base = { "base", BACK_ANON, OF_PAGES(1), 24 * MB };
static const struct kind mthp = { "mthp", BACK_ANON, OF_PAGES(16), 24 * MB };
static const struct kind thp = { "thp", BACK_ANON, 2 * MB, 32 * MB };
static const struct kind shmem = { "shmem", BACK_SHMEM, OF_PAGES(1), 24 * MB };
static const struct kind hugetlb = { "hugetlb", BACK_HUGETLB, 2 * MB, 32 * MB };

/**
 * struct load - What moves
 * @name: for messages
 * @kind: its kind
 * @pinned: so many folios, at equal distances, have a reference too many
 * @halved: the second half of each folio is given up, so that it is split
 */
static const struct load {
	const char *name;
	const struct kind *kind;
	unsigned int pinned;
	bool halved;
} loads[] = {
	{ "base pages", &base, 0 },
	{ "base pages, some pinned", &base, 100 },
	{ "folios of 64 KB", &mthp, 0 },
	{ "folios of 64 KB, some pinned", &mthp, 5 },
	{ "huge pages", &thp, 0 },
	{ "huge pages, some pinned", &thp, 3 },
	{ "huge pages that are split", &thp, 0, true },
	{ "shared memory", &shmem, 0 },
	{ "hugetlb pages", &hugetlb, 0 },
};

struct variant {
	const struct load *load;
	enum copy_mode mode;
};

/* Once for all tests: the kernel patches its code for that. */
static void tracing_set(const char *on)
{
	file_write(TRACING "/buffer_size_kb", "8192");
	file_write(TRACING "/events/migrate/mm_migrate_pages/enable", on);
	file_write(TRACING "/events/migrate/set_migration_pte/enable", on);
	file_write(TRACING "/events/migrate/remove_migration_pte/enable", on);
	file_write(TRACING "/tracing_on", "1");
}

static void tracing_read(uint64_t *counts)
{
	static const char * const fields[] = {
		" nr_succeeded=", " nr_failed=", " nr_thp_succeeded=",
		" nr_thp_failed=", " nr_thp_split=",
	};
	char line[512];
	FILE *trace;
	size_t i;

	trace = fopen(TRACING "/trace", "r");
	require(trace, "cannot read the trace");
	while (fgets(line, sizeof(line), trace)) {
		char *at = strstr(line, " mm_migrate_pages:");

		if (at && strstr(at, "reason=syscall_or_cpuset")) {
			counts[TRACED_CALLS]++;
			for (i = 0; i < ARRAY_SIZE(fields); i++) {
				char *field = strstr(at, fields[i]);

				require(field, "no%sin: %s", fields[i], line);
				counts[TRACED_SUCCESS + i] +=
					strtoull(field + strlen(fields[i]), NULL,
						 10);
			}
		}
		counts[TRACED_SET] += !!strstr(line, " set_migration_pte:");
		counts[TRACED_REMOVED] +=
			!!strstr(line, " remove_migration_pte:");
	}
	fclose(trace);
}

static void vm_events_read(uint64_t *counts)
{
	size_t i;

	for (i = 0; i < NR_VM_EVENTS; i++)
		counts[i] = file_count("/proc/vmstat", count_names[i]);
}

/* One address of each folio. */
static void move(const struct region *r, int node, int flags)
{
	size_t nr = r->size / r->folio, i;
	void **pages = calloc(nr, sizeof(*pages));
	int *nodes = calloc(nr, sizeof(*nodes));
	int *status = calloc(nr, sizeof(*status));

	require(pages && nodes && status, "no memory");
	for (i = 0; i < nr; i++) {
		pages[i] = r->map + i * r->folio;
		nodes[i] = node;
	}
	require(sys_move_pages(0, nr, pages, nodes, status, flags) >= 0,
		"move_pages: %s", strerror(errno));
	free(pages);
	free(nodes);
	free(status);
}

/* A pipe has references to a page of some folios. */
static void pin(const struct region *r, unsigned int nr, int *fds)
{
	size_t folios = r->size / r->folio;
	unsigned int i;

	require(!pipe(fds) && fcntl(fds[1], F_SETPIPE_SZ, 128 * PAGE) > 0,
		"no pipe");
	for (i = 0; i < nr; i++) {
		struct iovec iov = { r->map + i * folios / nr * r->folio, 8 };

		require(vmsplice(fds[1], &iov, 1, 0) == 8, "vmsplice: %s",
			strerror(errno));
	}
}

static void expect(const struct load *load, uint64_t *expected)
{
	size_t folio = load->kind->folio, size = load->kind->size;
	uint64_t folios, pages;

	folio = folio < PAGE ? folio * PAGE : folio;
	folios = size / folio;
	pages = folio / PAGE;
	memset(expected, 0, NR_COUNTS * sizeof(*expected));
	expected[SUCCESS] = (folios - load->pinned) * pages;
	expected[FAIL] = load->pinned * pages;
	if (load->kind == &thp) {
		expected[THP_SUCCESS] = folios - load->pinned;
		expected[THP_FAIL] = load->pinned;
	}
	if (load->halved) {
		/*
		 * A split is a failure of the folio. Its parts have moved, those
		 * that nobody has any more, too.
		 */
		expected[THP_FAIL] = folios;
		expected[THP_SUCCESS] = 0;
		expected[THP_SPLIT] = folios;
	}
	memcpy(&expected[TRACED_SUCCESS], expected,
	       NR_VM_EVENTS * sizeof(*expected));
	expected[TRACED_CALLS] = 1;
	/* That of a huge page has another name. */
	if (load->kind == &hugetlb)
		expected[TRACED_SET] = folios;
	else if (load->halved)
		/* Of one half, for the split, and for the move. */
		expected[TRACED_SET] = size / PAGE;
	else if (load->kind != &thp)
		expected[TRACED_SET] = size / PAGE;
	expected[TRACED_REMOVED] = expected[TRACED_SET];
}

static void halve(const struct region *r)
{
	size_t half = r->folio / 2, i;

	for (i = half; i < r->size; i += r->folio)
		require(!madvise(r->map + i, half, MADV_DONTNEED),
			"cannot give up a half");
}

static bool intact(const struct load *load, struct region *r)
{
	size_t i;

	if (!load->halved)
		return region_intact(r);
	for (i = 0; i < r->size; i += r->folio) {
		if (pattern_bad(r->map + i, r->folio / 2, r->seed, i, r->period))
			return false;
	}
	return true;
}

/* Is it as expected? Who is pinned is tried more than once. */
static bool same(const struct load *load, const uint64_t *counts,
		 const uint64_t *expected, bool last)
{
	bool good = true;
	size_t i;

	for (i = 0; i < NR_COUNTS; i++) {
		bool ok = counts[i] == expected[i];

		if (load->pinned && i == TRACED_SET)
			ok = counts[i] >= expected[i] &&
			     counts[i] == counts[TRACED_REMOVED];
		else if (load->pinned && i == TRACED_REMOVED)
			continue;
		if (!ok && last)
			ksft_print_msg("%s is %llu, not %llu\n", count_names[i],
				       (unsigned long long)counts[i],
				       (unsigned long long)expected[i]);
		good &= ok;
	}
	return good;
}

/* Of huge pages in bytes. */
static uint64_t huge_size(void)
{
	uint64_t size;

	if (file_read_number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
			     &size))
		return 0;
	return size;
}

/* What helpers must have done, or NULL: hugetlb pages are no batches. */
static const char *helper_stat(const struct variant *v)
{
	if (v->mode == MODE_THREADS)
		return "bytes_helpers";
	if (v->mode == MODE_PARALLEL && v->load->kind != &hugetlb)
		return "pages_helpers";
	return NULL;
}

static void test_counts(const void *arg)
{
	const struct variant *v = arg;
	uint64_t before[NR_VM_EVENTS], counts[NR_COUNTS], expected[NR_COUNTS];
	const char *stat = helper_stat(v);
	int from, to, i, try, fds[2];
	struct region r;
	bool good;

	nodes_find(&from, &to);
	if (!file_exists(TRACING "/trace"))
		skip("no tracepoints");
	if (v->load->kind == &thp && huge_size() != thp.folio)
		skip("huge pages have another size here");
	mode_enter(v->mode);
	for (try = 0, good = false; try < ATTEMPTS && !good; try++) {
		uint64_t help_before;

		memset(counts, 0, sizeof(counts));
		expect(v->load, expected);
		region_make(&r, v->load->kind, from, false);
		if (v->load->halved)
			halve(&r);
		pin(&r, v->load->pinned, fds);
		trace_clear();
		vm_events_read(before);
		help_before = stat ? stat_read(stat) : 0;
		move(&r, to, MPOL_MF_MOVE);
		vm_events_read(counts);
		for (i = 0; i < NR_VM_EVENTS; i++)
			counts[i] -= before[i];
		tracing_read(counts);
		good = same(v->load, counts, expected, try == ATTEMPTS - 1) &&
		       (!stat || stat_read(stat) > help_before);
		require(intact(v->load, &r), "the content is wrong");
		close(fds[0]);
		close(fds[1]);
		region_free(&r);
	}
	require(good, "it is counted in another way, or nobody has helped");
}

/* Pages of a node that are charged to our cgroup; all nodes below 0. */
static long charged(int node)
{
	char text[4096], *at, word[16];
	unsigned long bytes;

	if (node < 0) {
		require(!file_read(cgroup_file("test", "memory.current"), text,
				   sizeof(text)), "no memory.current");
		return strtoul(text, NULL, 10) / PAGE;
	}
	require(!file_read(cgroup_file("test", "memory.numa_stat"), text, sizeof(text)),
		"no memory.numa_stat");
	at = strstr(text, "anon ");
	require(at, "no anon");
	at[strcspn(at, "\n")] = '\0';
	snprintf(word, sizeof(word), " N%d=", node);
	at = strstr(at, word);
	require(at, "no node %d", node);
	bytes = strtoul(at + strlen(word), NULL, 10);
	return bytes / PAGE;
}

static void test_cgroup(const void *arg)
{
	const struct variant *v = arg;
	long pages = v->load->kind->size / PAGE, all, there, here;
	struct region r;
	int from, to;

	nodes_find(&from, &to);
	mode_enter(v->mode);
	if (!file_exists(cgroup_file("test", "memory.numa_stat")))
		skip("no memory controller");
	if (pages < 4 * LAG)
		skip("statistics of so many CPUs lag too much");
	require(!cgroup_write("test", "cgroup.procs", "0"), "no cgroup");
	region_make(&r, v->load->kind, from, false);
	/* The statistics are brought up to date now and then. */
	sleep(3);
	all = charged(-1);
	here = charged(from);
	there = charged(to);
	move(&r, to, MPOL_MF_MOVE);
	require(region_on_node(&r, to), "it has not moved");
	sleep(3);
	here -= charged(from);
	there = charged(to) - there;
	all -= charged(-1);
	ksft_print_msg("%ld pages less on node %d, %ld more on node %d, %ld less in all\n",
		       here, from, there, to, all);
	require(labs(here - pages) <= LAG && labs(there - pages) <= LAG &&
		labs(all) <= LAG, "%ld pages have moved", pages);
	region_free(&r);
	cgroup_write("", "cgroup.procs", "0");
}

int main(int argc, char **argv)
{
	unsigned int modes = modes_wanted(argc - 1, argv + 1);
	struct variant v;
	char name[128];
	size_t i;

	tests_start(__builtin_popcount(modes) * (ARRAY_SIZE(loads) + 2));
	tracing_set("1");
	cgroup_make("test", "+memory");
	for (v.mode = 0; v.mode < NR_MODES; v.mode++) {
		if (!(modes & 1U << v.mode))
			continue;
		for (i = 0; i < ARRAY_SIZE(loads); i++) {
			v.load = &loads[i];
			snprintf(name, sizeof(name), "%s, counts: %s",
				 mode_names[v.mode], v.load->name);
			test_run(name, TIMEOUT, test_counts, &v);
		}
		for (i = 0; i < ARRAY_SIZE(loads); i++) {
			v.load = &loads[i];
			if (v.load->kind != &base && v.load->kind != &thp)
				continue;
			if (v.load->pinned || v.load->halved)
				continue;
			snprintf(name, sizeof(name), "%s, cgroup: %s",
				 mode_names[v.mode], v.load->name);
			test_run(name, TIMEOUT, test_cgroup, &v);
		}
	}
	tracing_set("0");
	tests_end();
}
