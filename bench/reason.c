// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reasons for which the kernel moves memory other than move_pages(2), each brought
 * about and timed: mbind(2), migrate_pages(2), a change of a cpuset, demotion,
 * promotion, NUMA balancing, compaction, memory that goes offline.
 *
 * Whether a page moved is seen by its frame, which is another one afterwards.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "blocks.h"
#include "movebench.h"

#define CGROUPS			"/sys/fs/cgroup"
#define CGROUP			CGROUPS "/movebench"
#define LRU_GEN			"/sys/kernel/mm/lru_gen/enabled"
/* What a node that is filled up keeps free. */
#define FREE_BYTES		(32UL << 20)
/* A move that has made no progress so often makes none any more. */
#define MAX_IDLE_ATTEMPTS	3
/* Reading memory until the kernel begins to move it, and until no more of it moves. */
#define FIRST_NS		(10 * 1000000000ULL)
#define LAST_NS			(150 * 1000000ULL)

struct reason {
	const char *name;
	/* Called before the memory is faulted in. */
	bool (*prepare)(const struct cell *cell);
	/* Returns nanoseconds, 0 when it failed. */
	uint64_t (*move)(const struct cell *cell);
	/* Called when the memory is there no more. */
	void (*clean_up)(void);
};

static const struct reason *prepared;
static void *filler;	/* all of a node but the region */
static size_t filler_bytes;
static bool *kept;	/* pages of it that stay during the move */
static char block[BLOCK_PATH];	/* that goes offline: its state */

static bool set(const char *path, const char *value)
{
	if (write_text(path, value) == 0)
		return true;
	fail("cannot write %s to %s: %s", value, path, strerror(errno));
	return false;
}

static bool set_number(const char *path, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return set(path, text);
}

/* --- system calls that are told of ranges --- */

#define MASK_BITS	(CHAR_BIT * sizeof(unsigned long))

/* A mask with one node, of which there may be as many as it has bits. */
static bool mask_of(unsigned long node, unsigned long *mask)
{
	if (node >= MASK_BITS - 1) {
		fail("node %lu is out of range", node);
		return false;
	}
	*mask = 1UL << node;
	return true;
}

static uint64_t move_by_mbind(const struct cell *cell)
{
	unsigned long mask;
	uint64_t start;

	if (!mask_of(cell->to, &mask))
		return 0;
	start = now_ns();
	if (syscall(SYS_mbind, region.start, region.bytes, MPOL_BIND, &mask, MASK_BITS,
		    MPOL_MF_MOVE) < 0) {
		fail("mbind: %s", strerror(errno));
		return 0;
	}
	return now_ns() - start;
}

static uint64_t move_by_migrate_pages(const struct cell *cell)
{
	unsigned long from, to;
	uint64_t start;

	if (!mask_of(cell->from, &from) || !mask_of(cell->to, &to))
		return 0;
	start = now_ns();
	/* It returns how many pages it could not move. */
	if (syscall(SYS_migrate_pages, 0, MASK_BITS, &from, &to) < 0) {
		fail("migrate_pages: %s", strerror(errno));
		return 0;
	}
	return now_ns() - start;
}

/* --- a cgroup --- */

static bool enter_cgroup(void)
{
	if (!set(CGROUPS "/cgroup.subtree_control", "+cpuset +memory"))
		return false;
	if (mkdir(CGROUP, 0700) < 0 && errno != EEXIST) {
		fail("cannot make %s: %s", CGROUP, strerror(errno));
		return false;
	}
	return set(CGROUP "/cgroup.procs", "0");
}

static void leave_cgroup(void)
{
	if (write_text(CGROUPS "/cgroup.procs", "0") < 0 || rmdir(CGROUP) < 0)
		fprintf(stderr, "movebench: cannot remove %s: %s\n", CGROUP, strerror(errno));
}

static bool prepare_cpuset(const struct cell *cell)
{
	return enter_cgroup() && set_number(CGROUP "/cpuset.mems", cell->from);
}

static uint64_t move_by_cpuset(const struct cell *cell)
{
	uint64_t start = now_ns();

	/* It returns when all pages have been tried. */
	return set_number(CGROUP "/cpuset.mems", cell->to) ? now_ns() - start : 0;
}

/* --- demotion: reclaim of a node that has a slower one below --- */

static bool prepare_demotion(const struct cell *cell)
{
	(void)cell;
	return enable_demotion() && enter_cgroup();
}

/* With the multi-generational LRU. */
static bool prepare_demotion_mglru(const struct cell *cell)
{
	return set(LRU_GEN, "1") && prepare_demotion(cell);
}

static void leave_mglru(void)
{
	set(LRU_GEN, "0");
	leave_cgroup();
}

/* Bytes of the region that are not on @node. */
static uint64_t bytes_elsewhere(unsigned long node)
{
	uint64_t folios = 0;

	if (!ask_nodes())
		return 0;
	for (unsigned long i = 0; i < region.folios; i++)
		folios += region.status[i] != (int)node;
	return folios * (region.folio_kb << 10);
}

static uint64_t move_by_demotion(const struct cell *cell)
{
	uint64_t left = region.bytes, elapsed = 0;
	int idle = 0;

	/* As if nobody had used it for long: reclaim begins with such memory. */
	if (madvise(region.start, region.bytes, MADV_COLD) < 0) {
		fail("cannot let the memory get cold: %s", strerror(errno));
		return 0;
	}
	while (left && idle < MAX_IDLE_ATTEMPTS) {
		uint64_t before = left, start = now_ns(), ns;
		char text[32];

		snprintf(text, sizeof(text), "%" PRIu64, left);
		/* EAGAIN: less than that could be had. */
		if (write_text(CGROUP "/memory.reclaim", text) < 0 && errno != EAGAIN) {
			fail("cannot reclaim memory: %s", strerror(errno));
			return 0;
		}
		ns = now_ns() - start;
		left = bytes_elsewhere(cell->to);
		if (left < before)
			elapsed += ns;
		idle = left < before ? 0 : idle + 1;
	}
	if (!elapsed)
		fail("reclaim demoted nothing: is there a slower tier of memory?");
	return elapsed;
}

/* --- promotion and NUMA balancing: memory that a CPU of another node uses --- */

static bool prepare_promotion(const struct cell *cell)
{
	(void)cell;
	return set_balancing("2");
}

static bool prepare_numa_balancing(const struct cell *cell)
{
	(void)cell;
	return set_balancing("1");
}

/*
 * Reads a word of each folio, again and again, on a CPU of the other node.
 * The kernel makes the pages fault from time to time, and moves those that are
 * used from afar. Only rounds in which folios moved count: the others wait for
 * the kernel.
 */
static uint64_t move_by_use(const struct cell *cell)
{
	uint64_t deadline = now_ns() + FIRST_NS;
	uint64_t left = region.bytes, elapsed = 0;
	cpu_set_t before, cpus;

	if (!node_cpus(cell->to, &cpus)) {
		fail("node %lu has no CPU", cell->to);
		return 0;
	}
	sched_getaffinity(0, sizeof(before), &before);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) < 0) {
		fail("cannot run on node %lu: %s", cell->to, strerror(errno));
		return 0;
	}
	while (left && now_ns() < deadline) {
		uint64_t rest, start = now_ns(), ns;

		for (unsigned long i = 0; i < region.folios; i++)
			*(volatile const char *)region.addresses[i];
		ns = now_ns() - start;
		rest = bytes_elsewhere(cell->to);
		if (rest < left) {
			elapsed += ns;
			deadline = now_ns() + LAST_NS;
		}
		left = rest;
	}
	sched_setaffinity(0, sizeof(before), &before);
	if (!elapsed)
		fail("nothing moved to where it was used");
	return elapsed;
}

/* --- compaction --- */

static void drop_filler(void)
{
	if (filler)
		munmap(filler, filler_bytes);
	filler = NULL;
	free(kept);
	kept = NULL;
}

struct frame {
	uint64_t number;
	size_t page;	/* of the filler */
};

static int by_number(const void *one, const void *other)
{
	const struct frame *a = one, *b = other;

	return a->number < b->number ? -1 : a->number > b->number;
}

/* Returns the pages of the filler, the lowest first; NULL after an error. */
static struct frame *sorted_filler(void)
{
	size_t pages = filler_bytes / BASE_SIZE;
	uint64_t *numbers = malloc(pages * sizeof(*numbers));
	struct frame *frames = malloc(pages * sizeof(*frames));

	if (!numbers || !frames || !read_frames(filler, pages, numbers)) {
		if (!failed())
			fail("out of memory");
		free(numbers);
		free(frames);
		return NULL;
	}
	for (size_t i = 0; i < pages; i++)
		frames[i] = (struct frame) { numbers[i], i };
	free(numbers);
	qsort(frames, pages, sizeof(*frames), by_number);
	return frames;
}

static void drop_filler_page(size_t page, size_t pages)
{
	madvise((char *)filler + page * BASE_SIZE, pages * BASE_SIZE, MADV_DONTNEED);
}

/*
 * Fills the node, and makes holes of one page each among the lowest pages, as many
 * as the region has pages: there it will be, at the bottom, when the rest is free
 * again. Compaction moves pages from the bottom to holes at the top, but not into
 * what is free as a whole: so every other page stays there, of twice as many as
 * the region has. Small pieces of free memory would be used before the holes:
 * compaction puts them together first.
 */
static bool prepare_compaction(const struct cell *cell)
{
	size_t bytes = (cell->folio_kb << 10) * cell->folios, available, pages;
	struct frame *frames;

	if (!compact_node(cell->from))
		return false;
	available = free_bytes(cell->from);
	if (available < 5 * bytes + FREE_BYTES) {
		fail("node %lu has too little free memory", cell->from);
		return false;
	}
	filler_bytes = (available - FREE_BYTES) / BASE_SIZE * BASE_SIZE;
	filler = mmap(NULL, filler_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (filler == MAP_FAILED) {
		filler = NULL;
		fail("cannot map %zu bytes: %s", filler_bytes, strerror(errno));
		return false;
	}
	madvise(filler, filler_bytes, MADV_NOHUGEPAGE);
	if (!bind_memory(filler, filler_bytes, cell->from))
		return false;
	for (size_t i = 0; i < filler_bytes; i += BASE_SIZE)
		((volatile char *)filler)[i] = 1;
	pages = filler_bytes / BASE_SIZE;
	kept = calloc(pages, sizeof(*kept));
	frames = kept ? sorted_filler() : NULL;
	if (!frames) {
		if (!failed())
			fail("out of memory");
		return false;
	}
	for (size_t i = 0; i < 2 * bytes / BASE_SIZE; i += 2) {
		drop_filler_page(frames[i].page, 1);
		kept[frames[pages - 1 - i].page] = true;
	}
	free(frames);
	return true;
}

static uint64_t move_by_compaction(const struct cell *cell)
{
	size_t pages = filler_bytes / BASE_SIZE, end;
	uint64_t start;

	/* Now there are holes between the region's pages, and between those at the top. */
	for (size_t i = 0; i < pages; i = end + 1) {
		for (end = i; end < pages && !kept[end]; end++)
			;
		if (end > i)
			drop_filler_page(i, end - i);
	}
	start = now_ns();
	return compact_node(cell->from) ? now_ns() - start : 0;
}

/* --- memory that goes offline --- */

/*
 * Makes one block of the node a zone for nothing but movable pages: user memory
 * is then taken from it first, and it can always go offline.
 */
static bool prepare_offlining(const struct cell *cell)
{
	if (!take_block(cell->from, block)) {
		fail("no block of node %lu can go offline", cell->from);
		return false;
	}
	return set(block, "online_movable");
}

static uint64_t move_by_offlining(const struct cell *cell)
{
	uint64_t start = now_ns();

	(void)cell;
	return set(block, "offline") ? now_ns() - start : 0;
}

static void bring_online(void)
{
	if (block[0])
		return_block(block);
	block[0] = '\0';
}

/* --- all of them --- */

static const struct reason reasons[] = {
	{ "mbind", NULL, move_by_mbind, NULL },
	{ "migrate_pages", NULL, move_by_migrate_pages, NULL },
	{ "cpuset", prepare_cpuset, move_by_cpuset, leave_cgroup },
	{ "demotion", prepare_demotion, move_by_demotion, leave_cgroup },
	{ "demotion_mglru", prepare_demotion_mglru, move_by_demotion, leave_mglru },
	{ "promotion", prepare_promotion, move_by_use, NULL },
	{ "balancing", prepare_numa_balancing, move_by_use, NULL },
	{ "compaction", prepare_compaction, move_by_compaction, drop_filler },
	{ "offlining", prepare_offlining, move_by_offlining, bring_online },
};

/* Returns NULL for a name that is none of theirs. */
const struct reason *find_reason(const char *name)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (!strcmp(reasons[i].name, name))
			return &reasons[i];
	return NULL;
}

/* Before the memory is faulted in for a cell with a reason. */
bool prepare_reason(const struct cell *cell)
{
	prepared = cell->reason;
	return !prepared->prepare || prepared->prepare(cell);
}

/* When that memory is there no more. */
void clean_up_reason(void)
{
	if (prepared && prepared->clean_up)
		prepared->clean_up();
	prepared = NULL;
}

/*
 * Gives the kernel the reason to move the region. Returns the nanoseconds that
 * it took, and in *@pages how many base pages moved; 0 if that failed.
 */
uint64_t move_by_reason(const struct cell *cell, uint64_t *pages)
{
	size_t nr = region.bytes / BASE_SIZE;
	uint64_t *before = malloc(nr * sizeof(*before)), *after = malloc(nr * sizeof(*after));
	uint64_t elapsed = 0;

	*pages = 0;
	if (before && after && read_frames(region.start, nr, before)) {
		elapsed = cell->reason->move(cell);
		if (elapsed && !read_frames(region.start, nr, after))
			elapsed = 0;
		for (size_t i = 0; elapsed && i < nr; i++)
			*pages += before[i] != after[i];
		if (elapsed && !*pages) {
			fail("%s moved nothing", cell->reason->name);
			elapsed = 0;
		}
	}
	free(before);
	free(after);
	return elapsed;
}
