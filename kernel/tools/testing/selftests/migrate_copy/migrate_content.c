// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does memory of every kind keep its content, and does it go where it should,
 * whatever moves it and however the kernel copies?
 *
 * Each test is one kind of memory, moved in one way, in one mode of the kernel.
 *
 * migrate_content [-k KIND,... | -x KIND,...] [-w WAY,...] [MODE]...
 *
 * -k tests some kinds only, -x all but some; -w some ways only. The mode is
 * "plain" on a kernel without migrate_copy, and "off", "batch", "threads" or
 * "parallel" on one with it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/migrate_test.h"

/* How often to move back and forth until a helper has been fast enough. */
#define ROUNDS		100
#define OFFLINE_TRIES	10
#define OFFLINE_US	20000
/* For how long to take blocks away until a helper has been fast enough. */
#define OFFLINE_S	60
#define TIMEOUT		120
/* For DAMON to move a region, on a busy host and a slow kernel, too. */
#define DAMON_S		60

/* Several batches for several CPUs, which share no less than 128 pages. */
#define MIN_PAGES	512

/* What the kernel keeps for itself is within a few blocks of 128 MB. */
#define MAX_BLOCKS	16
#define MAX_MISSES	8
#define CHUNK		(4 * MB)
#define SAMPLE		(64 * KB)
#define MAX_CHUNKS	64

/* Blocks that have been found to go offline, or not; the tests share them. */
static struct {
	struct blocks {
		size_t nr;
		uint64_t list[MAX_BLOCKS];
	} free, fixed;
} *known;

enum move_by {
	MOVE_PAGES,
	MBIND,
	MIGRATE_PAGES,
	CPUSET,
	COMPACTION,
	OFFLINE,
	DAMON,
	NR_METHODS,
};

#define METHOD(m)	(1U << (m))

static const char * const method_names[NR_METHODS] = {
	[MOVE_PAGES]	= "move_pages",
	[MBIND]		= "mbind",
	[MIGRATE_PAGES]	= "migrate_pages",
	[CPUSET]	= "cpuset",
	[COMPACTION]	= "compaction",
	[OFFLINE]	= "offline",
	[DAMON]		= "damon",
};

/*
 * Compaction leaves folios alone that are as large as a page block (2 MB), and
 * cannot thin out what KSM has merged or what must stay in the swap cache. 1 GB
 * pages have nowhere else to go on their node. Only the kernel itself can move
 * page cache that nobody maps. DAMON takes what is on the LRU lists.
 *
 * 1 GB pages need MPOL_MF_MOVE_ALL: hugetlb_pmd_shared() reads the share count
 * of their PUD table, which 6.12 initializes for PMD tables only, so that mbind()
 * may leave such a page behind, as shared, and say that it has done its work.
 */
#define BY_CALLS	(METHOD(MOVE_PAGES) | METHOD(MBIND) | \
			 METHOD(MIGRATE_PAGES) | METHOD(CPUSET))
#define BY_KERNEL	(METHOD(COMPACTION) | METHOD(OFFLINE) | METHOD(DAMON))
#define BY_ALL		(BY_CALLS | BY_KERNEL)
#define POOL		(BY_CALLS | METHOD(OFFLINE))
#define LARGE		(POOL | METHOD(DAMON))

static struct {
	struct kind kind;
	unsigned int methods;
} kinds[] = {
	{ { "base", BACK_ANON, OF_PAGES(1), 8 * MB }, BY_ALL },
	{ { "mthp_16k", BACK_ANON, 16 * KB, 8 * MB }, BY_ALL },
	{ { "mthp_32k", BACK_ANON, 32 * KB, 8 * MB }, BY_ALL },
	{ { "mthp_64k", BACK_ANON, 64 * KB, 8 * MB }, BY_ALL },
	{ { "mthp_128k", BACK_ANON, 128 * KB, 8 * MB }, BY_ALL },
	{ { "mthp_256k", BACK_ANON, 256 * KB, 8 * MB }, BY_ALL },
	{ { "mthp_512k", BACK_ANON, 512 * KB, 8 * MB }, BY_ALL },
	{ { "mthp_1m", BACK_ANON, 1 * MB, 8 * MB }, BY_ALL },
	{ { "thp", BACK_ANON, 2 * MB, 16 * MB }, LARGE },
	{ { "mlocked", BACK_ANON, OF_PAGES(1), 8 * MB, KIND_MLOCK }, BY_ALL },
	{ { "mlocked_thp", BACK_ANON, 2 * MB, 8 * MB, KIND_MLOCK }, LARGE },
	{ { "forked", BACK_ANON, OF_PAGES(1), 8 * MB, KIND_FORK }, BY_ALL },
	{ { "forked_thp", BACK_ANON, 2 * MB, 8 * MB, KIND_FORK }, LARGE },
	{ { "ksm", BACK_ANON, OF_PAGES(1), 8 * MB, KIND_KSM }, LARGE },
	{ { "swapcache", BACK_ANON, OF_PAGES(1), 8 * MB, KIND_SWAPCACHE }, LARGE },
	{ { "shmem", BACK_SHMEM, OF_PAGES(1), 8 * MB }, BY_ALL },
	{ { "tmpfs", BACK_TMPFS, OF_PAGES(1), 8 * MB }, BY_ALL },
	{ { "tmpfs_unmapped", BACK_TMPFS, OF_PAGES(1), 8 * MB, KIND_UNMAPPED },
	  BY_KERNEL },
	{ { "tmpfs_read_only", BACK_TMPFS, OF_PAGES(1), 8 * MB, KIND_READ_ONLY },
	  BY_ALL },
	{ { "tmpfs_huge", BACK_TMPFS_HUGE, 2 * MB, 16 * MB }, LARGE },
	{ { "tmpfs_huge_unmapped", BACK_TMPFS_HUGE, 2 * MB, 16 * MB,
	    KIND_UNMAPPED }, METHOD(OFFLINE) | METHOD(DAMON) },
	{ { "ext4", BACK_EXT4, OF_PAGES(1), 8 * MB, KIND_UNBATCHED }, BY_ALL },
	{ { "ext4_unmapped", BACK_EXT4, OF_PAGES(1), 8 * MB,
	    KIND_UNBATCHED | KIND_UNMAPPED }, BY_KERNEL },
	{ { "ext4_read_only", BACK_EXT4, OF_PAGES(1), 8 * MB,
	    KIND_UNBATCHED | KIND_READ_ONLY }, BY_ALL },
	{ { "xfs", BACK_XFS, OF_PAGES(1), 8 * MB }, BY_ALL },
	{ { "xfs_64k", BACK_XFS, 64 * KB, 8 * MB }, BY_ALL },
	{ { "xfs_unmapped", BACK_XFS, OF_PAGES(1), 8 * MB, KIND_UNMAPPED },
	  BY_KERNEL },
	{ { "hugetlb_2m", BACK_HUGETLB, 2 * MB, 16 * MB }, POOL },
	{ { "hugetlb_2m_shared", BACK_HUGETLB_SHARED, 2 * MB, 16 * MB }, POOL },
	{ { "hugetlb_1g", BACK_HUGETLB, 1 * GB, 1 * GB, KIND_SHARED },
	  BY_CALLS },
};

static int region_move(struct region *r, enum move_by method, int from, int to)
{
	switch (method) {
	case MOVE_PAGES:
		return region_move_pages(r, from, to);
	case MBIND:
		return region_mbind(r, from, to);
	case MIGRATE_PAGES:
		return region_migrate_pages(r, from, to);
	case CPUSET:
		return region_cpuset(r, from, to);
	default:
		return -1;
	}
}

/* Helpers have come, or there is nothing that they could help with. */
static bool seen_enough(const struct region *r, const struct evidence *ev)
{
	return evidence_helpers(ev) || r->kind->flags & KIND_UNBATCHED;
}

/* Between two nodes, there and back, until the mode has shown itself. */
static bool between_nodes(struct region *r, enum move_by method, enum copy_mode mode,
			  int from, int to)
{
	struct evidence ev;
	size_t moved = 0;
	int round, tmp;

	evidence_start(&ev, mode);
	for (round = 0; round < ROUNDS; round++) {
		if (region_move(r, method, from, to) ||
		    !region_on_node(r, to) || !region_intact(r))
			return false;
		moved += region_folios(r);
		tmp = from;
		from = to;
		to = tmp;
		if (round && seen_enough(r, &ev))
			break;
	}
	return evidence_check(&ev, moved, r->folio,
			      !(r->kind->flags & KIND_UNBATCHED));
}

/* Within a node: what counts is that folios got another address. */
static bool by_compaction(struct region *r, enum copy_mode mode, int node)
{
	const struct kind *kind = r->kind;
	size_t n = region_folios(r), changed = 0, i;
	struct evidence ev;
	uint64_t *before, *after;
	bool ok = true;
	int round;

	before = calloc(n, sizeof(*before));
	after = calloc(n, sizeof(*after));
	evidence_start(&ev, mode);
	for (round = 0; ok && round < ROUNDS; round++) {
		if (round) {
			/* It is compact now. Make a new one. */
			region_free(r);
			region_make(r, kind, node, true);
		}
		region_pfns(r, before);
		require(!file_write("/proc/sys/vm/compact_memory", "1"),
			"cannot compact memory");
		region_pfns(r, after);
		for (i = 0; i < n; i++)
			changed += before[i] != after[i];
		ok = region_intact(r);
		if (changed && seen_enough(r, &ev))
			break;
	}
	free(before);
	free(after);
	require(changed, "compaction moved none of %zu folios", n);
	/*
	 * It moves what else is in the zone, too, and whoever looks at that, or
	 * at one of our folios, holds a reference: then it is copied alone.
	 */
	return ok && evidence_check(&ev, (changed + 1) / 2, r->folio,
				    !(kind->flags & KIND_UNBATCHED));
}

static int block_set(uint64_t block, const char *state)
{
	char path[128];

	snprintf(path, sizeof(path),
		 "/sys/devices/system/memory/memory%llu/state",
		 (unsigned long long)block);
	return file_write(path, state);
}

static int block_offline(uint64_t block)
{
	int try, err;

	err = block_set(block, "offline");
	for (try = 1; err && try < OFFLINE_TRIES; try++) {
		usleep(OFFLINE_US);
		err = block_set(block, "offline");
	}
	return err;
}

static void block_online(uint64_t block)
{
	if (block_set(block, "online_movable"))
		die("cannot bring block %llu back",
		    (unsigned long long)block);
}

static bool is_known(const struct blocks *blocks, uint64_t block)
{
	size_t i;

	for (i = 0; i < blocks->nr; i++) {
		if (blocks->list[i] == block)
			return true;
	}
	return false;
}

static void learn(struct blocks *blocks, uint64_t block)
{
	if (blocks->nr < MAX_BLOCKS && !is_known(blocks, block))
		blocks->list[blocks->nr++] = block;
}

/* Folios in a block. */
static size_t inside(const uint64_t *pfns, size_t n, uint64_t per_block,
		     uint64_t block)
{
	size_t i, count = 0;

	for (i = 0; i < n; i++)
		count += pfns[i] / per_block == block;
	return count;
}

/*
 * Offline a movable block in which some of the folios are; most of them, if
 * that block can go. Returns how many there were, 0 if no block can go.
 */
static size_t offline_some(const uint64_t *pfns, size_t n, uint64_t per_block,
			   uint64_t *block)
{
	uint64_t tried[MAX_BLOCKS];
	size_t nr_tried = 0;

	while (nr_tried < MAX_BLOCKS) {
		size_t i, j, count, best = 0;

		for (i = 0; i < n; i++) {
			uint64_t here = pfns[i] / per_block;

			if (i && here == pfns[i - 1] / per_block)
				continue;
			for (j = 0; j < nr_tried && tried[j] != here; j++)
				;
			if (j < nr_tried || is_known(&known->fixed, here))
				continue;
			count = inside(pfns, n, per_block, here);
			if (count > best) {
				best = count;
				*block = here;
			}
		}
		if (!best)
			return 0;
		if (block_is_movable(*block)) {
			if (!block_offline(*block))
				return best;
			learn(&known->fixed, *block);
		}
		tried[nr_tried++] = *block;
	}
	return 0;
}

static bool block_is_fixed(uint64_t block)
{
	if (is_known(&known->fixed, block))
		return true;
	if (is_known(&known->free, block))
		return false;
	if (block_is_movable(block) && !block_offline(block)) {
		block_online(block);
		learn(&known->free, block);
		return false;
	}
	learn(&known->fixed, block);
	return true;
}

static void avoid_fixed_with(uint64_t per_block, int advice)
{
	uint64_t good = 0;
	size_t i, fixed;
	char *chunk;
	int try;

	for (try = 0; try < MAX_CHUNKS; try++) {
		chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk == MAP_FAILED)
			return;
		madvise(chunk, CHUNK, advice);
		memset(chunk, 1, CHUNK);
		if (!block_is_movable(page_pfn(chunk) / per_block) &&
		    !block_is_movable(page_pfn(chunk + CHUNK - 1) / per_block))
			return;
		for (i = 0, fixed = 0; i < CHUNK; i += SAMPLE) {
			uint64_t block = page_pfn(chunk + i) / per_block;

			if (block == good)
				continue;
			if (block_is_fixed(block))
				fixed++;
			else
				good = block;
		}
		if (!fixed) {
			munmap(chunk, CHUNK);
			return;
		}
	}
}

/*
 * The kernel itself has a little memory at the end of each node, where movable
 * memory is handed out first. Take what is free there, for as long as this test
 * runs, so that it gets memory from blocks that can go offline.
 */
static void avoid_fixed_blocks(int node)
{
	uint64_t per_block = block_pages();

	if (!per_block)
		return;
	require(!node_bind(node), "cannot allocate on node %d", node);
	thp_only(2 * MB);
	avoid_fixed_with(per_block, MADV_HUGEPAGE);
	avoid_fixed_with(per_block, MADV_NOHUGEPAGE);
	node_unbind();
}

/* Take memory away in which some of the folios are. */
static bool by_offlining(struct region *r, enum copy_mode mode, int node)
{
	const struct kind *kind = r->kind;
	bool merged = kind->flags & KIND_KSM;
	size_t max = r->size / r->folio;
	uint64_t per_block = block_pages();
	size_t n, count, left, moved = 0;
	struct evidence ev;
	uint64_t *pfns, block = 0;
	double start = now();
	bool ok = true;
	int misses = 0, kept = 0;

	if (!per_block)
		skip("this kernel has no memory hot-remove");
	pfns = calloc(max, sizeof(*pfns));
	evidence_start(&ev, mode);

	while (ok && now() < start + OFFLINE_S) {
		n = region_pfns(r, pfns);
		count = offline_some(pfns, n, per_block, &block);
		if (!count) {
			if (++misses == MAX_MISSES) {
				if (!moved)
					break;
				/* What could not go offline then may be able to now. */
				known->fixed.nr = 0;
				misses = 0;
			}
			/* Keep some for a while, to get memory elsewhere. */
			if (++kept >= MAX_MISSES)
				region_free(r);
			region_make(r, kind, node, false);
			continue;
		}
		misses = 0;
		/* Many pages of a merged one are still one folio. */
		moved += merged ? 1 : count;
		ok = region_intact(r);
		n = region_pfns(r, pfns);
		left = inside(pfns, n, per_block, block) + inside(pfns, n, 1, 0);
		if (left) {
			ksft_print_msg("%zu folios are gone or still in the block\n",
				       left);
			ok = false;
		}
		block_online(block);
		if (evidence_helpers(&ev) || kind->flags & KIND_UNBATCHED)
			break;
		/* It went to another node. Make a new one. */
		region_free(r);
		region_make(r, kind, node, false);
	}
	free(pfns);
	if (!moved)
		skip("no folio is in a block that can go offline: boot with movablecore=");
	return ok && evidence_check(&ev, moved, r->folio,
				    !(kind->flags & KIND_UNBATCHED));
}

/*
 * Where the pages are, each of them: where no folio of that size is free on the
 * other node, it is split, and each page goes its own way. Of page cache that
 * nobody maps, what a look at its folios shows.
 */
static size_t page_pfns(struct region *r, uint64_t *pfns)
{
	size_t i;

	if (!r->map)
		return region_pfns(r, pfns);
	for (i = 0; i < r->size / PAGE; i++)
		pfns[i] = page_pfn(r->map + i * PAGE);
	return i;
}

/*
 * Pages that are in such a range of physical memory, or on their way: what is
 * not mapped just now may yet come back.
 */
static size_t not_gone(struct region *r, uint64_t *pfns, uint64_t first,
		       uint64_t last)
{
	size_t i, n = page_pfns(r, pfns), count = 0;

	for (i = 0; i < n; i++)
		count += !pfns[i] || (pfns[i] >= first && pfns[i] <= last);
	return count;
}

/* From node to node again, by a kdamond that is told where the folios are. */
static bool by_damon(struct region *r, enum copy_mode mode, int from, int to)
{
	uint64_t *pfns = calloc(r->size / PAGE, sizeof(*pfns));
	uint64_t first, last, applied;
	size_t n, i, left, moved = 0;
	struct evidence ev;
	int round, tmp;
	bool ok = true;
	double end;

	evidence_start(&ev, mode);
	for (round = 0; ok && round < ROUNDS; round++) {
		n = page_pfns(r, pfns);
		for (i = 0, first = UINT64_MAX, last = 0; i < n; i++) {
			first = pfns[i] < first ? pfns[i] : first;
			last = pfns[i] > last ? pfns[i] : last;
		}
		if (!r->map)
			last += r->folio / PAGE - 1;
		require(!damon_start(first * PAGE, (last + 1) * PAGE, to),
			"cannot start DAMON");
		end = now() + DAMON_S;
		do {
			/*
			 * DAMON leaves alone what a CPU has not put on the LRU
			 * lists yet. This moves nothing, but has them do so.
			 */
			sys_migrate_pages(0, to, to);
			usleep(20000);
			left = not_gone(r, pfns, first, last);
		} while (left && now() < end);
		applied = damon_stop();
		require(!left && applied,
			"DAMON has left %zu pages, and moved something %llu times",
			left, (unsigned long long)applied);
		/* Where page cache is that nobody maps, only its address says. */
		ok = (r->kind->flags & KIND_UNMAPPED || region_on_node(r, to)) &&
		     region_intact(r);
		moved += region_folios(r);
		tmp = from;
		from = to;
		to = tmp;
		if (round && seen_enough(r, &ev))
			break;
	}
	free(pfns);
	return ok && evidence_check(&ev, moved, r->folio,
				    !(r->kind->flags & KIND_UNBATCHED));
}

struct variant {
	const struct kind *kind;
	enum move_by method;
	enum copy_mode mode;
};

static void test_content(const void *arg)
{
	const struct variant *variant = arg;
	struct region r;
	int from, to;
	bool ok;

	mode_enter(variant->mode);
	nodes_find(&from, &to);
	if (variant->method == DAMON && !file_exists(DAMON_DIR))
		skip("this kernel has no DAMON");
	if (variant->method == OFFLINE)
		avoid_fixed_blocks(from);
	region_make(&r, variant->kind, from, variant->method == COMPACTION);
	require(region_intact(&r), "wrong before anything has moved");

	switch (variant->method) {
	case COMPACTION:
		ok = by_compaction(&r, variant->mode, from);
		break;
	case OFFLINE:
		ok = by_offlining(&r, variant->mode, from);
		break;
	case DAMON:
		ok = by_damon(&r, variant->mode, from, to);
		break;
	default:
		require(region_on_node(&r, from), "not where it was made");
		ok = between_nodes(&r, variant->method, variant->mode, from,
				   to);
	}
	region_free(&r);
	require(ok, "failed");
}

static const char *only, *all_but, *ways;

/* Is the name in a list, separated by commas? */
static bool is_in(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (strncmp(list, name, len) || (list[len] && list[len] != ',')) {
		list = strchr(list, ',');
		if (!list++)
			return false;
	}
	return true;
}

static bool is_wanted(const struct kind *kind)
{
	return (!only || is_in(only, kind->name)) &&
	       (!all_but || !is_in(all_but, kind->name));
}

/* The ways in which a kind is to be moved. */
static unsigned int methods_wanted(size_t i)
{
	unsigned int methods = 0;
	enum move_by method;

	if (!is_wanted(&kinds[i].kind))
		return 0;
	for (method = 0; method < NR_METHODS; method++) {
		if (!ways || is_in(ways, method_names[method]))
			methods |= METHOD(method);
	}
	return methods & kinds[i].methods;
}

/*
 * The sizes of the kinds are those for base pages of 4 KB: with larger ones
 * they would be too few pages.
 */
static void kinds_enlarge(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct kind *kind = &kinds[i].kind;

		if (kind->size < MIN_PAGES * PAGE)
			kind->size = MIN_PAGES * PAGE;
	}
}

/* Are there any folios whose batches are shared? Those of hugetlb are not. */
static bool wants_team(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (methods_wanted(i) && !kind_is_hugetlb(&kinds[i].kind))
			return true;
	}
	return false;
}

static void run_mode(enum copy_mode mode)
{
	struct variant variant = { .mode = mode };
	char name[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		variant.kind = &kinds[i].kind;
		for (variant.method = 0; variant.method < NR_METHODS;
		     variant.method++) {
			if (!(methods_wanted(i) & METHOD(variant.method)))
				continue;
			snprintf(name, sizeof(name), "%s, %s by %s",
				 mode_names[mode], variant.kind->name,
				 method_names[variant.method]);
			test_run(name, TIMEOUT, test_content, &variant);
		}
	}
}

/*
 * Not every request has enough folios for several CPUs, and they are not always
 * idle. But of all of them together some must have been shared.
 */
static void test_parallel(const void *arg)
{
	uint64_t before = *(const uint64_t *)arg;
	uint64_t pages = stat_read("pages_helpers") - before;

	require(pages, "helpers moved nothing");
	ksft_print_msg("helpers moved %llu pages\n", (unsigned long long)pages);
}

static void run_parallel(void)
{
	uint64_t before = stat_read("pages_helpers");

	run_mode(MODE_PARALLEL);
	if (wants_team())
		test_run("parallel: helpers take batches", TIMEOUT,
			 test_parallel, &before);
}

static unsigned int tests_of_mode(void)
{
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		n += __builtin_popcount(methods_wanted(i));
	return n;
}

int main(int argc, char **argv)
{
	unsigned int modes;
	enum copy_mode mode;
	int opt;

	while ((opt = getopt(argc, argv, "k:w:x:")) != -1) {
		if (opt == 'k')
			only = optarg;
		else if (opt == 'w')
			ways = optarg;
		else if (opt == 'x')
			all_but = optarg;
		else
			return KSFT_FAIL;
	}
	modes = modes_wanted(argc - optind, argv + optind);
	kinds_enlarge();

	/* The tests are processes, and learn from each other. */
	known = mmap(NULL, sizeof(*known), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (known == MAP_FAILED)
		ksft_exit_fail_msg("no memory\n");

	tests_start(__builtin_popcount(modes) * tests_of_mode() +
		    (modes & 1U << MODE_PARALLEL && wants_team()));
	for (mode = 0; mode < NR_MODES; mode++) {
		if (!(modes & 1U << mode))
			continue;
		if (mode == MODE_PARALLEL)
			run_parallel();
		else
			run_mode(mode);
	}
	tests_end();
}
