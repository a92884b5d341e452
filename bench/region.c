// SPDX-License-Identifier: GPL-2.0-only
/* The memory being moved: its folios, and what is written into them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "movebench.h"

#define WORDS			(BASE_SIZE / sizeof(uint64_t))
/* Odd, so that no two words of a region hold the same value. */
#define PATTERN_STEP		0x9e3779b97f4a7c15ULL

#define THP_DIR			"/sys/kernel/mm/transparent_hugepage"

/* Bits of /proc/kpageflags and /proc/PID/pagemap: Documentation/admin-guide/mm/pagemap.rst */
#define KPF_COMPOUND_HEAD	(1ULL << 15)
#define KPF_COMPOUND_TAIL	(1ULL << 16)
#define KPF_HUGE		(1ULL << 17)
#define PM_PRESENT		(1ULL << 63)
#define PM_PFN			((1ULL << 55) - 1)

/* Part of a region that one thread verifies. */
struct span {
	uint64_t *start;
	size_t words;
	uint64_t old_value;
	uint64_t new_value;
	uint64_t mismatches;
	uint64_t *first_bad;
};

struct region region;

/* --- the pattern --- */

static uint64_t count_mismatches(const uint64_t *page, uint64_t value)
{
	uint64_t bad = 0;

	for (size_t i = 0; i < WORDS; i++, value += PATTERN_STEP)
		bad += page[i] != value;
	return bad;
}

/*
 * Words that are compared and written at once. Most of the time of an emulated
 * run is spent so, and vectors are what an emulator is least slow at.
 */
typedef uint64_t vector __attribute__((vector_size(32)));
#define VECTOR_WORDS		(sizeof(vector) / sizeof(uint64_t))
#define PAGE_VECTORS		(WORDS / VECTOR_WORDS)

#ifdef __x86_64__
#define WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define WITH_AVX2
#endif

/* Returns whether all words of a page are as they should be, the first of them @value. */
WITH_AVX2 static bool page_is_right(const uint64_t *page, uint64_t value)
{
	const vector *at = (const vector *)page;
	vector expected = { value, value + PATTERN_STEP, value + 2 * PATTERN_STEP,
			    value + 3 * PATTERN_STEP }, difference = { 0 };

#pragma GCC unroll 16
	for (size_t i = 0; i < PAGE_VECTORS; i++, expected += VECTOR_WORDS * PATTERN_STEP)
		difference |= at[i] ^ expected;
	return !(difference[0] | difference[1] | difference[2] | difference[3]);
}

/* Writes the words of a page, the first of them @value. */
WITH_AVX2 static void fill_page(uint64_t *page, uint64_t value)
{
	vector *at = (vector *)page;
	vector next = { value, value + PATTERN_STEP, value + 2 * PATTERN_STEP,
			value + 3 * PATTERN_STEP };

#pragma GCC unroll 16
	for (size_t i = 0; i < PAGE_VECTORS; i++, next += VECTOR_WORDS * PATTERN_STEP)
		at[i] = next;
}

/*
 * Compares every word of a span with the pattern of this repetition and
 * writes the pattern of the next one, in a single pass over the memory.
 */
static void *verify_span(void *argument)
{
	struct span *span = argument;
	uint64_t old_value = span->old_value, new_value = span->new_value;

	for (size_t done = 0; done < span->words; done += WORDS) {
		uint64_t *page = span->start + done;

		if (!page_is_right(page, old_value)) {
			span->mismatches += count_mismatches(page, old_value);
			if (!span->first_bad)
				span->first_bad = page;
		}
		fill_page(page, new_value);
		old_value += WORDS * PATTERN_STEP;
		new_value += WORDS * PATTERN_STEP;
	}
	return NULL;
}

/* Returns the number of 64-bit words that were not what had been written. */
uint64_t verify_region(uint64_t next_base)
{
	struct span spans[MAX_CALLERS];
	pthread_t threads[MAX_CALLERS];
	size_t pages = region.bytes / BASE_SIZE, first = 0;
	uint64_t mismatches = 0;
	long nr = workers;

	if ((size_t)nr > pages)
		nr = pages;
	for (long i = 0; i < nr; i++) {
		size_t end = pages * (i + 1) / nr;

		spans[i] = (struct span) {
			.start = region.start + first * WORDS,
			.words = (end - first) * WORDS,
			.old_value = region.base + first * WORDS * PATTERN_STEP,
			.new_value = next_base + first * WORDS * PATTERN_STEP,
		};
		first = end;
	}
	for (long i = 1; i < nr; i++) {
		if (pthread_create(&threads[i], NULL, verify_span, &spans[i])) {
			fprintf(stderr, "movebench: cannot start a thread\n");
			exit(EXIT_FAILURE);
		}
	}
	verify_span(&spans[0]);
	for (long i = 1; i < nr; i++)
		pthread_join(threads[i], NULL);
	for (long i = 0; i < nr; i++) {
		mismatches += spans[i].mismatches;
		if (spans[i].first_bad)
			fprintf(stderr, "movebench: wrong content in the page at %p\n",
				(void *)spans[i].first_bad);
	}
	region.base = next_base;
	return mismatches;
}

/* --- the memory --- */

void free_region(void)
{
	if (region.map)
		munmap(region.map, region.map_bytes);
	free(region.addresses);
	free(region.targets);
	free(region.status);
	memset(&region, 0, sizeof(region));
	clean_up_reason();
}

/* Makes the kernel fault in folios of exactly the wanted size where a hint asks for it. */
static bool choose_folio_size(unsigned long folio_kb)
{
	bool found = folio_kb == BASE_KB;
	struct dirent *entry;
	DIR *dir = opendir(THP_DIR);

	if (!dir) {
		if (!found)
			fail("the kernel has no transparent huge pages");
		return found;
	}
	while ((entry = readdir(dir))) {
		char path[sizeof(THP_DIR) + 16 + sizeof(entry->d_name)];
		bool wanted;
		unsigned long kb;

		if (sscanf(entry->d_name, "hugepages-%lukB", &kb) != 1)
			continue;
		wanted = kb == folio_kb;
		found |= wanted;
		snprintf(path, sizeof(path), THP_DIR "/%s/enabled", entry->d_name);
		/* Sizes that exist for page cache only have no such file. */
		if (access(path, F_OK) < 0)
			continue;
		if (set_sysfs(path, wanted ? "madvise" : "never") < 0)
			fail("cannot write %s: %s", path, strerror(errno));
	}
	closedir(dir);
	if (!found && folio_kb == 2048)
		/* Before 6.8 there is one size and one file. */
		found = set_sysfs(THP_DIR "/enabled", "madvise") == 0;
	if (!found)
		fail("the kernel has no transparent huge pages of %lu kB", folio_kb);
	return !failed();
}

/*
 * Checks in /proc/kpageflags that every folio is one compound page of the
 * size asked for: a head first, then tails in adjacent frames. The next folio
 * starting with a head shows that no folio is larger.
 */
bool check_backing(void)
{
	unsigned long pages_per_folio = region.folio_kb / BASE_KB;
	size_t pages = region.bytes / BASE_SIZE;
	uint64_t entries[512], flags[512], head_pfn = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	int kpageflags = open("/proc/kpageflags", O_RDONLY);
	bool good = false;

	if (pagemap < 0 || kpageflags < 0) {
		fail("cannot check the folios: /proc/kpageflags: %s (run as root, with CONFIG_PROC_PAGE_MONITOR)",
		     strerror(errno));
		goto out;
	}
	for (size_t first = 0; first < pages; first += 512) {
		size_t nr = pages - first < 512 ? pages - first : 512;
		off_t offset = ((uintptr_t)region.start / BASE_SIZE + first) * sizeof(uint64_t);
		size_t run;

		if (pread(pagemap, entries, nr * sizeof(uint64_t), offset) !=
		    (ssize_t)(nr * sizeof(uint64_t))) {
			fail("cannot read /proc/self/pagemap: %s", strerror(errno));
			goto out;
		}
		for (size_t i = 0; i < nr; i += run) {
			uint64_t pfn = entries[i] & PM_PFN;

			for (run = 1; i + run < nr; run++)
				if ((entries[i + run] & PM_PFN) != pfn + run)
					break;
			if (!(entries[i] & PM_PRESENT) || !pfn) {
				fail("page %zu is not present, or its frame is hidden (run as root)",
				     first + i);
				goto out;
			}
			if (pread(kpageflags, flags + i, run * sizeof(uint64_t),
				  pfn * sizeof(uint64_t)) != (ssize_t)(run * sizeof(uint64_t))) {
				fail("cannot read /proc/kpageflags: %s", strerror(errno));
				goto out;
			}
		}
		for (size_t i = 0; i < nr; i++) {
			size_t position = (first + i) % pages_per_folio;
			uint64_t pfn = entries[i] & PM_PFN, expected;

			if (!position)
				head_pfn = pfn;
			expected = pages_per_folio == 1 ? 0 :
				   position ? KPF_COMPOUND_TAIL : KPF_COMPOUND_HEAD;
			if (region.hugetlb)
				expected |= KPF_HUGE;
			if ((flags[i] & (KPF_COMPOUND_HEAD | KPF_COMPOUND_TAIL | KPF_HUGE)) !=
			    expected || pfn != head_pfn + position) {
				fail("page %zu of folio %zu is not part of a folio of %lu kB (flags %#" PRIx64 ")",
				     position, (first + i) / pages_per_folio, region.folio_kb,
				     flags[i]);
				goto out;
			}
		}
	}
	good = true;
out:
	if (pagemap >= 0)
		close(pagemap);
	if (kpageflags >= 0)
		close(kpageflags);
	return good;
}

/* Puts the node of every folio into the region's status. */
bool ask_nodes(void)
{
	if (syscall(SYS_move_pages, 0, region.folios, region.addresses, NULL, region.status, 0)) {
		fail("cannot ask where the pages are: %s", strerror(errno));
		return false;
	}
	return true;
}

/* Checks, without moving anything, that every folio is where it should be. */
bool check_nodes(void)
{
	if (!ask_nodes())
		return false;
	for (unsigned long i = 0; i < region.folios; i++) {
		if (region.status[i] != (int)region.node) {
			fail("folio %lu is on node %d and not on node %lu", i, region.status[i],
			     region.node);
			return false;
		}
	}
	return true;
}

/* Finds the frames of base pages. */
bool read_frames(const void *start, size_t pages, uint64_t *frames)
{
	size_t done = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY);

	while (pagemap >= 0 && done < pages * sizeof(*frames)) {
		ssize_t length = pread(pagemap, (char *)frames + done,
				       pages * sizeof(*frames) - done,
				       (uintptr_t)start / BASE_SIZE * sizeof(*frames) + done);

		if (length <= 0)
			break;
		done += length;
	}
	if (pagemap >= 0)
		close(pagemap);
	if (done < pages * sizeof(*frames)) {
		fail("cannot read /proc/self/pagemap: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < pages; i++)
		frames[i] &= PM_PFN;
	return true;
}

static int hugetlb_flag(unsigned long folio_kb)
{
	return MAP_HUGETLB | __builtin_ctzl(folio_kb << 10) << 26 /* MAP_HUGE_SHIFT */;
}

bool make_region(const struct cell *cell)
{
	size_t folio_bytes = cell->folio_kb << 10;
	uint64_t value;

	if (cell->reason && !prepare_reason(cell))
		return false;
	region.folio_kb = cell->folio_kb;
	region.folios = cell->folios;
	region.home = cell->from;
	region.node = cell->from;
	region.hugetlb = cell->hugetlb;
	region.bytes = folio_bytes * cell->folios;
	region.addresses = calloc(cell->folios, sizeof(*region.addresses));
	region.targets = calloc(cell->folios, sizeof(*region.targets));
	region.status = calloc(cell->folios, sizeof(*region.status));
	if (!region.addresses || !region.targets || !region.status) {
		fail("out of memory");
		return false;
	}

	if (cell->hugetlb) {
		if (!reserve_hugetlb(cell->folio_kb, cell->folios, cell->from) ||
		    !reserve_hugetlb(cell->folio_kb, cell->folios, cell->to))
			return false;
	}

	/* Room to align: hugetlb memory is aligned by the kernel itself. */
	region.map_bytes = region.bytes + (cell->hugetlb ? 0 : folio_bytes);
	region.map = mmap(NULL, region.map_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS |
			  (cell->hugetlb ? hugetlb_flag(cell->folio_kb) : 0), -1, 0);
	if (region.map == MAP_FAILED) {
		region.map = NULL;
		fail("cannot map %zu bytes: %s", region.map_bytes, strerror(errno));
		return false;
	}
	region.start = (uint64_t *)(((uintptr_t)region.map + folio_bytes - 1) &
				    ~(uintptr_t)(folio_bytes - 1));
	if (!bind_memory(region.start, region.bytes, cell->from))
		return false;
	if (!cell->hugetlb && !choose_folio_size(cell->folio_kb))
		return false;
	if (!cell->hugetlb &&
	    madvise(region.start, region.bytes,
		    cell->folio_kb == BASE_KB ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) < 0 &&
	    cell->folio_kb != BASE_KB) {
		fail("cannot ask for large folios: %s", strerror(errno));
		return false;
	}

	for (unsigned long i = 0; i < cell->folios; i++)
		region.addresses[i] = (char *)region.start + i * folio_bytes;
	region.base = mix(cell->seed ^ mix((uintptr_t)region.start));
	value = region.base;
	for (size_t i = 0; i < region.bytes / sizeof(uint64_t); i += WORDS) {
		fill_page(region.start + i, value);
		value += WORDS * PATTERN_STEP;
	}

	/* From here on nothing gives the kernel a reason to bring the memory home. */
	if (syscall(SYS_mbind, region.start, region.bytes, MPOL_DEFAULT, NULL, 0UL, 0) < 0) {
		fail("cannot release the binding: %s", strerror(errno));
		return false;
	}
	return check_nodes() && check_backing();
}

/*
 * Whether every move needs memory that was just faulted in. So it does where all
 * moves go one way, where it ends up somewhere for a reason of the kernel's, and
 * where its folios are mapped by PTEs: unmapping such a folio page by page marks it
 * partially mapped, 6.12 hands the mark to its destination, and the next migration
 * splits it, so that it can be moved as a large folio only once.
 */
bool moves_only_once(const struct cell *cell)
{
	char text[64];

	if (cell->reason || cell->one_way)
		return true;
	if (cell->hugetlb || cell->folio_kb == BASE_KB ||
	    read_text(THP_DIR "/hpage_pmd_size", text, sizeof(text)) < 0)
		return false;
	return cell->folio_kb << 10 < strtoul(text, NULL, 10);
}

bool prepare_region(const struct cell *cell)
{
	if (region.map && !moves_only_once(cell) && region.folio_kb == cell->folio_kb && region.folios == cell->folios &&
	    region.hugetlb == cell->hugetlb &&
	    (region.node == cell->from || region.node == cell->to))
		return true;
	free_region();
	/* The pool of hugetlb pages of the last cell would take memory from this one. */
	restore_sysfs(0);
	if (make_region(cell))
		return true;
	free_region();
	return false;
}
