// SPDX-License-Identifier: GPL-2.0-only
/* Where the pages of a process are. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workbench.h"

/* Of linux/fs.h, which Debian 12 has without them. */
#define PAGE_PRESENT	(1ULL << 3)
#define PAGE_ZERO	(1ULL << 5)
#define PAGE_HUGE	(1ULL << 6)
#define REGIONS		1024

struct found {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags, start, end, walk_end, regions, nr_regions, max_pages;
	uint64_t inverted, wanted, any_of, told;
};

#define SCAN	_IOWR('f', 16, struct scan)

/* Adds @more pages from an address on. */
bool add_pages(struct pages *pages, void *address, size_t more)
{
	size_t room = 2 * (pages->nr + more);

	if (pages->nr + more > pages->room) {
		void **addresses = realloc(pages->addresses, room * sizeof(*addresses));
		int *status = realloc(pages->status, room * sizeof(*status));

		pages->addresses = addresses ?: pages->addresses;
		pages->status = status ?: pages->status;
		if (!addresses || !status) {
			fail("out of memory");
			return false;
		}
		pages->room = room;
	}
	for (size_t i = 0; i < more; i++)
		pages->addresses[pages->nr++] = (char *)address + i * BASE_SIZE;
	return true;
}

static uint64_t up_to_huge(uint64_t address)
{
	return (address + HUGE_SIZE - 1) / HUGE_SIZE * HUGE_SIZE;
}

static bool add_found(const struct found *found, struct pages *pages, struct pages *huge)
{
	if (!huge || !(found->categories & PAGE_HUGE))
		return add_pages(pages, (void *)found->start,
				 (found->end - found->start) / BASE_SIZE);
	/* A region that begins inside a huge page is the rest of one that was named before. */
	for (uint64_t at = up_to_huge(found->start); at < found->end; at += HUGE_SIZE)
		if (!add_pages(huge, (void *)at, 1))
			return false;
	return true;
}

/* The search of a process for its pages: what is left of a mapping, and the mappings after it. */
struct search {
	FILE *maps;
	char *line;
	size_t size;
	int pagemap;
	uint64_t at, end;
};

struct search *begin_search(pid_t pid)
{
	struct search *search = calloc(1, sizeof(*search));
	char path[64];

	if (!search) {
		fail("out of memory");
		return NULL;
	}
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	search->maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	search->pagemap = open(path, O_RDONLY);
	if (!search->maps || search->pagemap < 0) {
		fail("cannot read maps and pagemap of process %d: %s", pid, strerror(errno));
		end_search(search);
		return NULL;
	}
	return search;
}

void end_search(struct search *search)
{
	if (!search)
		return;
	free(search->line);
	if (search->maps)
		fclose(search->maps);
	if (search->pagemap >= 0)
		close(search->pagemap);
	free(search);
}

static bool next_mapping(struct search *search)
{
	uint64_t known = search->end;

	while (search->at >= search->end) {
		if (getline(&search->line, &search->size, search->maps) <= 0)
			return false;
		/* Pages of the kernel have names such as [vdso]. */
		if (strstr(search->line, "[v") ||
		    sscanf(search->line, "%" SCNx64 "-%" SCNx64, &search->at, &search->end) != 2)
			search->at = search->end = 0;
		/* It may have grown downwards by what was searched as a mapping of its own. */
		if (search->at < known)
			search->at = known;
	}
	return true;
}

/* Finds the next pages of a mapping, at most so many, and adds their number to @nr. */
static bool scan(struct search *search, uint64_t end, size_t most, size_t *nr,
		 struct pages *pages, struct pages *huge)
{
	struct found found[REGIONS];
	struct scan scan = {
		.size = sizeof(scan), .start = search->at, .end = end,
		.regions = (uintptr_t)found, .nr_regions = REGIONS, .max_pages = most,
		.inverted = PAGE_ZERO, .wanted = PAGE_PRESENT | PAGE_ZERO, .told = PAGE_HUGE,
	};
	int regions = ioctl(search->pagemap, SCAN, &scan);

	if (regions < 0) {
		fail("PAGEMAP_SCAN: %s", strerror(errno));
		return false;
	}
	for (int i = 0; i < regions; i++) {
		if (!add_found(&found[i], pages, huge))
			return false;
		*nr += (found[i].end - found[i].start) / BASE_SIZE;
		/* Of more than 512 regions the kernel may tell too low an end. */
		if (scan.walk_end < found[i].end)
			scan.walk_end = found[i].end;
	}
	search->at = scan.walk_end > search->at ? scan.walk_end : end;
	return true;
}

/*
 * Finds the next @most pages of a process that are present, in the order of their addresses,
 * and those that share room for a huge page with the last of them; returns whether there are
 * any. With @huge, those that are mapped as a huge page are named there, by one address.
 */
bool search_pages(struct search *search, size_t most, struct pages *pages, struct pages *huge)
{
	size_t nr = 0;
	uint64_t border;

	while (nr < most && next_mapping(search))
		if (!scan(search, search->end, most - nr, &nr, pages, huge))
			return false;
	border = up_to_huge(search->at);
	while (nr && next_mapping(search) && search->at < border)
		if (!scan(search, border < search->end ? border : search->end, 0, &nr, pages,
			  huge))
			return false;
	return nr;
}

/* The bytes of a process that are in memory, about. */
size_t resident_bytes(pid_t pid)
{
	unsigned long rss = 0, hugetlb = 0;
	char path[64], line[256];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = fopen(path, "r");
	if (!status)
		fail("cannot read %s: %s", path, strerror(errno));
	while (status && fgets(line, sizeof(line), status))
		(void)(sscanf(line, "VmRSS: %lu", &rss) || sscanf(line, "HugetlbPages: %lu", &hugetlb));
	if (status)
		fclose(status);
	return (rss + hugetlb) << 10;
}

/* Finds all pages of a process that are present, as search_pages() does. */
bool find_pages(pid_t pid, struct pages *pages, struct pages *huge)
{
	struct search *search = begin_search(pid);

	pages->nr = 0;
	while (search && search_pages(search, SIZE_MAX, pages, huge))
		;
	end_search(search);
	return !failed();
}

static bool find_nodes(pid_t pid, struct pages *pages)
{
	if (syscall(SYS_move_pages, (long)pid, pages->nr, pages->addresses, NULL, pages->status,
		    0L) < 0)
		fail("move_pages: %s", strerror(errno));
	return !failed();
}

/* Tells how many of the pages are on @node. */
bool count_on(pid_t pid, struct pages *pages, unsigned long node, size_t *nr)
{
	*nr = 0;
	if (!find_nodes(pid, pages))
		return false;
	for (size_t i = 0; i < pages->nr; i++)
		*nr += pages->status[i] == (int)node;
	return true;
}

/* Keeps only those pages that are on @node. */
bool keep_on(pid_t pid, struct pages *pages, unsigned long node)
{
	size_t nr = 0;

	if (!find_nodes(pid, pages))
		return false;
	for (size_t i = 0; i < pages->nr; i++)
		if (pages->status[i] == (int)node)
			pages->addresses[nr++] = pages->addresses[i];
	pages->nr = nr;
	return true;
}

void free_pages(struct pages *pages)
{
	free(pages->addresses);
	free(pages->status);
	*pages = (struct pages) { .nr = 0 };
}
