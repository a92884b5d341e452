// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every page of a long list gets the status, and every call the result, that an
 * unmodified kernel gives: also where pages move while others are isolated, and
 * whatever a list holds that could be met twice.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define NR_PAGES	6144UL
#define MIDDLE		3000UL
/* More entries than 13 bits can count. */
#define MANY		(8192 + 100UL)
/* What the requests that end in a hole leave unmapped, and ask for of it. */
#define HOLE		100UL
#define ASKED		50UL
#define FEW		7UL
#define SPLIT		3
#define BAD_NODE	63
#define SEED		4711
#define TIMEOUT		60
#define ATTEMPTS	50

/**
 * struct list - What move_pages() is asked, and what it must answer
 * @nr: number of entries
 * @addr: addresses
 * @node: where to
 * @expected: statuses; NO_STATUS where none is stored
 * @flags: of the call
 * @ret: what the call returns, or -errno
 */
struct list {
	size_t nr;
	void **addr;
	int *node;
	int *expected;
	int flags;
	long ret;
};

static int from, to;
/* Base pages on node "from"; only some lists change their number. */
static char *base;
static size_t nr_base = NR_PAGES;

static void *map_on_node(size_t size, int flags, int fd)
{
	void *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	require(p != MAP_FAILED, "no memory");
	require(!node_bind(from), "cannot allocate on a node");
	if (fd < 0)
		madvise(p, size, MADV_NOHUGEPAGE);
	pattern_fill(p, size, SEED, 0, 0);
	require(!node_unbind(), "cannot allocate anywhere");
	return p;
}

static void add(struct list *l, void *addr, int node, int expected)
{
	l->addr[l->nr] = addr;
	l->node[l->nr] = node;
	l->expected[l->nr] = expected;
	l->nr++;
}

static void add_pages(struct list *l, size_t first, size_t end, int node)
{
	for (; first < end; first++)
		add(l, base + first * PAGE, node, node);
}

static void rising(struct list *l)
{
	add_pages(l, 0, NR_PAGES, to);
}

static void falling(struct list *l)
{
	size_t i;

	for (i = NR_PAGES; i--; )
		add(l, base + i * PAGE, to, to);
}

static void within_pages(struct list *l)
{
	size_t i;

	for (i = 0; i < NR_PAGES; i++)
		add(l, base + i * PAGE + i * 7 % PAGE, to, to);
}

/* It has been isolated by then. */
static void first_again_at_end(struct list *l)
{
	add_pages(l, 0, NR_PAGES, to);
	add(l, base, to, -EBUSY);
}

static void same_page_in_a_row(struct list *l)
{
	add_pages(l, 0, MIDDLE, to);
	add(l, base + (MIDDLE - 1) * PAGE + 8, to, -EBUSY);
	add_pages(l, MIDDLE, NR_PAGES, to);
}

/* The hole ends the group, so the page has been moved by then. */
static void again_after_hole(struct list *l)
{
	munmap(base + MIDDLE * PAGE, PAGE);
	add_pages(l, 0, MIDDLE, to);
	add(l, base + MIDDLE * PAGE, to, -EFAULT);
	add_pages(l, MIDDLE + 1, NR_PAGES, to);
	add(l, base + 5 * PAGE, to, to);
	add(l, base + (NR_PAGES - 1) * PAGE, to, to);
}

static void holes(struct list *l)
{
	size_t i;

	for (i = 0; i < NR_PAGES; i++) {
		char *p = base + i * PAGE;

		if (i % 1400 == 700) {
			munmap(p, PAGE);
			add(l, p, to, -EFAULT);
		} else if (i % 1400 == 1399) {
			madvise(p, PAGE, MADV_DONTNEED);
			add(l, p, to, -ENOENT);
		} else {
			add(l, p, to, to);
		}
	}
}

/* Other statuses than the rest have where a count could be too small. */
static void very_many(struct list *l)
{
	munmap(base, nr_base * PAGE);
	nr_base = MANY;
	base = map_on_node(nr_base * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(base + 8190 * PAGE, PAGE, MADV_DONTNEED);
	munmap(base + 8192 * PAGE, PAGE);
	add_pages(l, 0, 8190, to);
	add(l, base + 8190 * PAGE, to, -ENOENT);
	add_pages(l, 8191, 8192, from);
	add(l, base + 8192 * PAGE, to, -EFAULT);
	add_pages(l, 8193, nr_base, to);
}

static void ends_in_hole(struct list *l)
{
	size_t i;

	munmap(base + (NR_PAGES - HOLE) * PAGE, HOLE * PAGE);
	add_pages(l, 0, NR_PAGES - HOLE, to);
	for (i = NR_PAGES - HOLE; i < NR_PAGES - ASKED; i++)
		add(l, base + i * PAGE, to, -EFAULT);
}

static void ends_untouched(struct list *l)
{
	size_t i;

	madvise(base + (NR_PAGES - HOLE) * PAGE, HOLE * PAGE, MADV_DONTNEED);
	add_pages(l, 0, NR_PAGES - HOLE, to);
	for (i = NR_PAGES - HOLE; i < NR_PAGES - ASKED; i++)
		add(l, base + i * PAGE, to, -ENOENT);
}

static void half_is_there(struct list *l)
{
	add_pages(l, 0, NR_PAGES / 2, to);
	add_pages(l, NR_PAGES / 2, NR_PAGES, from);
}

static void nodes_by_turns(struct list *l)
{
	size_t i;

	for (i = 0; i < NR_PAGES; i++)
		add_pages(l, i, i + 1, i / 1000 % 2 ? from : to);
}

static char *shared_memory(int *fd)
{
	*fd = memfd_create("shared", 0);
	require(*fd >= 0 && !ftruncate(*fd, NR_PAGES * PAGE), "no memory");
	return map_on_node(NR_PAGES * PAGE, MAP_SHARED, *fd);
}

static void mapped_twice(struct list *l)
{
	char *one, *two;
	size_t i;
	int fd;

	one = shared_memory(&fd);
	two = map_on_node(NR_PAGES * PAGE, MAP_SHARED, fd);
	require(one && two, "no memory");
	for (i = 0; i < NR_PAGES; i++) {
		if (i % 700 == 699)
			add(l, one + i * PAGE, to, -EACCES);
		else
			add_pages(l, i, i + 1, to);
	}
}

/*
 * Both mappings of each page, at addresses that rise. The second one of the
 * first page finds it isolated, which ends the group; the others have moved.
 */
static void both_mappings(struct list *l)
{
	size_t size = NR_PAGES * PAGE, i;
	char *one, *two;
	int fd;

	one = shared_memory(&fd);
	two = map_on_node(size, MAP_SHARED, fd);
	if (one > two) {
		char *low = two;

		two = one;
		one = low;
	}
	l->flags = MPOL_MF_MOVE_ALL;
	for (i = 0; i < NR_PAGES; i++)
		add(l, one + i * PAGE, to, to);
	for (i = 0; i < NR_PAGES; i++)
		add(l, two + i * PAGE, to, i ? to : -EBUSY);
}

/* Every address of a huge page: its second one ends the group. */
static void huge_page_between(struct list *l)
{
	char *map, *huge;
	size_t i;

	map = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(map != MAP_FAILED, "no memory");
	huge = (char *)(((unsigned long)map + 2 * MB - 1) & ~(2 * MB - 1));
	thp_only(2 * MB);
	require(!madvise(huge, 2 * MB, MADV_HUGEPAGE), "no huge pages");
	require(!node_bind(from), "cannot allocate on a node");
	memset(huge, 1, 2 * MB);
	node_unbind();
	if (folio_size_at(huge) != 2 * MB)
		skip("no huge page to be had");

	add_pages(l, 0, NR_PAGES / 2, to);
	for (i = 0; i < 2 * MB / PAGE; i++)
		add(l, huge + i * PAGE, to, i == 1 ? -EBUSY : to);
	add_pages(l, NR_PAGES / 2, NR_PAGES, to);
}

/* What comes before is moved. */
static void bad_node_between(struct list *l)
{
	add_pages(l, 0, MIDDLE, to);
	add(l, base + MIDDLE * PAGE, BAD_NODE, NO_STATUS);
	l->ret = -ENODEV;
}

static void list_ends_early(struct list *l)
{
	size_t bytes = MIDDLE * sizeof(*l->addr), room;
	char *map;

	room = (bytes + PAGE - 1) / PAGE * PAGE;
	map = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(map != MAP_FAILED && !munmap(map + room, PAGE), "no memory");
	l->addr = (void **)(map + room - bytes);
	add_pages(l, 0, MIDDLE, to);
	/* One more than can be read. */
	l->expected[l->nr] = NO_STATUS;
	l->nr++;
	l->ret = -EFAULT;
}

/* So few that no CPU's LRU batch has to be drained for them, unless they are in one. */
static void few(struct list *l)
{
	add_pages(l, 0, FEW, to);
}

static void few_just_touched(struct list *l, int touched_by, int moved_by)
{
	char *p = base + MIDDLE * PAGE;
	size_t i;

	require(!madvise(p, FEW * PAGE, MADV_DONTNEED) && !node_bind(from),
		"cannot allocate on a node");
	cpu_pin(0, touched_by);
	pattern_fill(p, FEW * PAGE, SEED, p - base, 0);
	cpu_pin(0, moved_by);
	require(!node_unbind(), "cannot allocate anywhere");
	for (i = 0; i < FEW; i++)
		add(l, p + i * PAGE, to, to);
}

static void few_of_this_cpu(struct list *l)
{
	few_just_touched(l, 0, 0);
}

static void few_of_another_cpu(struct list *l)
{
	few_just_touched(l, 1, 0);
}

static void few_twice(struct list *l)
{
	add_pages(l, 0, FEW, to);
	add(l, base + (FEW - 1) * PAGE, to, -EBUSY);
	add_pages(l, FEW, 2 * FEW, to);
}

static const struct {
	const char *name;
	void (*build)(struct list *l);
} cases[] = {
	{ "a few pages", few },
	{ "a few that this CPU has just touched", few_of_this_cpu },
	{ "a few that another CPU has just touched", few_of_another_cpu },
	{ "a few, one of them twice", few_twice },
	{ "addresses rise", rising },
	{ "addresses fall", falling },
	{ "addresses within pages", within_pages },
	{ "the first page again at the end", first_again_at_end },
	{ "the same page twice in a row", same_page_in_a_row },
	{ "pages again after a hole", again_after_hole },
	{ "holes and untouched pages", holes },
	{ "more than 8192 pages", very_many },
	{ "the end lies in a hole", ends_in_hole },
	{ "the end is untouched", ends_untouched },
	{ "half is there already", half_is_there },
	{ "two nodes by turns", nodes_by_turns },
	{ "pages mapped twice", mapped_twice },
	{ "both mappings of pages", both_mappings },
	{ "a huge page between", huge_page_between },
	{ "a bad node between", bad_node_between },
	{ "the list ends early", list_ends_early },
};

struct variant {
	size_t nr;
	enum copy_mode mode;
};

static void list_make(struct list *l)
{
	size_t most = 2 * NR_PAGES + 1;

	memset(l, 0, sizeof(*l));
	l->flags = MPOL_MF_MOVE;
	l->addr = calloc(most, sizeof(*l->addr));
	l->node = calloc(most, sizeof(*l->node));
	l->expected = calloc(most, sizeof(*l->expected));
	require(l->addr && l->node && l->expected, "no memory");
}

static void list_check(const struct list *l)
{
	int *status = calloc(l->nr, sizeof(*status));
	size_t i;
	long ret;

	require(status, "no memory");
	for (i = 0; i < l->nr; i++)
		status[i] = NO_STATUS;
	ret = sys_move_pages(0, l->nr, l->addr, l->node, status, l->flags);
	if (ret < 0)
		ret = -errno;
	require(ret == l->ret, "returned %ld, not %ld", ret, l->ret);
	for (i = 0; i < l->nr; i++)
		require(status[i] == l->expected[i],
			"status %zu is %d, not %d", i, status[i],
			l->expected[i]);
	free(status);

	for (i = 0; i < l->nr; i++) {
		char *p;

		if (l->expected[i] < 0 || l->expected[i] == NO_STATUS)
			continue;
		p = l->addr[i];
		require(page_node(p) == l->expected[i], "page %zu is elsewhere",
			i);
		if (p >= base && p < base + nr_base * PAGE) {
			p -= (unsigned long)p % PAGE;
			require(!pattern_bad(p, PAGE, SEED, p - base, 0),
				"page %zu has another content", i);
		}
	}
}

static void test_list(const void *arg)
{
	const struct variant *v = arg;
	struct list l;

	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(0);
	base = map_on_node(NR_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	list_make(&l);
	cases[v->nr].build(&l);
	list_check(&l);
}

/* The policy of the mapping there. */
static int policy_at(void *addr)
{
	int mode = -1;

	require(!syscall(SYS_get_mempolicy, &mode, NULL, 0, addr, MPOL_F_ADDR),
		"no policy: %s", strerror(errno));
	return mode;
}

/*
 * Two mappings with a hole behind the second one, or between them. Pages of the
 * first one may have been isolated when the hole is found: all is undone, and
 * what has no hole still moves. Only the default policy minds no hole.
 */
static void mbind_over(size_t hole, size_t end)
{
	size_t size = NR_PAGES * PAGE, tail = hole + HOLE * PAGE;

	base = map_on_node(size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	require(!mprotect(base + MIDDLE * PAGE, size - MIDDLE * PAGE, PROT_READ),
		"cannot make two mappings");
	munmap(base + hole, HOLE * PAGE);
	require(sys_mbind(base, end, MPOL_BIND, to, MPOL_MF_MOVE) &&
		errno == EFAULT, "a hole is no error");
	require(!pages_elsewhere(base, hole, PAGE, from) &&
		!pages_elsewhere(base + tail, size - tail, PAGE, from),
		"pages have moved");
	require(policy_at(base) == MPOL_DEFAULT, "there is a policy");

	require(!sys_mbind(base, hole, MPOL_BIND, to,
			   MPOL_MF_MOVE | MPOL_MF_STRICT) &&
		policy_at(base) == MPOL_BIND, "mbind: %s", strerror(errno));
	require(!pages_elsewhere(base, hole, PAGE, to) &&
		!pages_elsewhere(base + tail, size - tail, PAGE, from),
		"not what was asked for has moved");

	require(!node_bind(from) &&
		!syscall(SYS_mbind, base, end, MPOL_DEFAULT, NULL, 0,
			 MPOL_MF_MOVE) && !node_unbind() &&
		policy_at(base) == MPOL_DEFAULT, "default policy: %s",
		strerror(errno));
	require(!pages_elsewhere(base, hole, PAGE, from) &&
		!pages_elsewhere(base + tail, size - tail, PAGE, from),
		"not all is back");
	require(!pattern_bad(base, hole, SEED, 0, 0) &&
		!pattern_bad(base + tail, size - tail, SEED, tail, 0),
		"content");
	munmap(base, size);
}

static void test_mbind(const void *arg)
{
	const struct variant *v = arg;

	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(0);
	mbind_over((NR_PAGES - HOLE) * PAGE, (NR_PAGES - ASKED) * PAGE);
	mbind_over((MIDDLE - HOLE) * PAGE, (MIDDLE - ASKED) * PAGE);
	mbind_over((MIDDLE - HOLE) * PAGE, NR_PAGES * PAGE);
}

/* Huge pages of which only halves are mapped, which is why they are split. */
static char *split_make(void)
{
	size_t size = (SPLIT + 1) * 2 * MB, i;
	char *map, *huge;

	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	require(map != MAP_FAILED && !madvise(map, size, MADV_HUGEPAGE) &&
		!node_bind(from), "no huge pages");
	huge = (char *)(((unsigned long)map + 2 * MB - 1) & ~(2 * MB - 1));
	memset(huge, 1, SPLIT * 2 * MB);
	node_unbind();
	for (i = 0; i < SPLIT; i++) {
		if (folio_size_at(huge + i * 2 * MB) != 2 * MB)
			skip("no huge page to be had");
		require(!munmap(huge + i * 2 * MB + MB, MB), "cannot unmap");
	}
	return huge;
}

/*
 * migrate_pages() counts a huge page that it has split as one that did not move, if
 * there is any such page.
 */
static void test_split(const void *arg)
{
	const struct variant *v = arg;
	int pipes[2], moved;
	struct iovec iov;
	char *huge;
	size_t i;

	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(2 * MB);
	/* Whatever is split has moved. */
	huge = split_make();
	moved = sys_migrate_pages(0, from, to);
	require(!moved, "%d, not 0, when all has moved", moved);
	for (i = 0; i < SPLIT; i++)
		munmap(huge + i * 2 * MB, MB);
	huge = split_make();
	for (i = 0; i < SPLIT; i++) {
		require(!sys_mbind(huge + i * 2 * MB, MB, MPOL_BIND, to,
				   MPOL_MF_MOVE | MPOL_MF_STRICT),
			"mbind(): %s", strerror(errno));
		munmap(huge + i * 2 * MB, MB);
	}
	split_make();
	base = map_on_node(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	iov.iov_base = base;
	iov.iov_len = PAGE;
	require(!pipe(pipes) && vmsplice(pipes[1], &iov, 1, 0) == PAGE, "cannot pin");
	moved = sys_migrate_pages(0, from, to);
	require(moved == SPLIT + 1, "%d, not %d", moved, SPLIT + 1);
}

/* The other tests say nothing if no helper ever takes a batch of such a list. */
static void test_helpers(const void *arg)
{
	const struct variant *v = arg;
	uint64_t before;
	int i, target;

	if (v->mode != MODE_PARALLEL)
		skip("this mode has no helpers that take batches");
	nodes_find(&from, &to);
	mode_enter(v->mode);
	thp_only(0);
	base = map_on_node(NR_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	before = stat_read("pages_helpers");
	for (i = 0; i < ATTEMPTS && stat_read("pages_helpers") == before; i++) {
		struct list l;

		list_make(&l);
		rising(&l);
		list_check(&l);
		target = from;
		from = to;
		to = target;
	}
	require(stat_read("pages_helpers") > before, "no helper took a batch");
}

int main(int argc, char **argv)
{
	unsigned int modes = modes_wanted(argc - 1, argv + 1);
	char name[128];
	struct variant v;

	tests_start(__builtin_popcount(modes) * (ARRAY_SIZE(cases) + 3));
	for (v.mode = 0; v.mode < NR_MODES; v.mode++) {
		if (!(modes & 1U << v.mode))
			continue;
		for (v.nr = 0; v.nr < ARRAY_SIZE(cases); v.nr++) {
			snprintf(name, sizeof(name), "%s, %s",
				 mode_names[v.mode], cases[v.nr].name);
			test_run(name, TIMEOUT, test_list, &v);
		}
		snprintf(name, sizeof(name), "%s, mbind over a hole",
			 mode_names[v.mode]);
		test_run(name, TIMEOUT, test_mbind, &v);
		snprintf(name, sizeof(name), "%s, huge pages that are split",
			 mode_names[v.mode]);
		test_run(name, TIMEOUT, test_split, &v);
		snprintf(name, sizeof(name), "%s, helpers take batches",
			 mode_names[v.mode]);
		test_run(name, TIMEOUT, test_helpers, &v);
	}
	tests_end();
}
