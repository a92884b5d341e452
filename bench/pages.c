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
	if (pages->nr + more > pages->room) {
		pages->room = 2 * (pages->nr + more);
		pages->addresses = realloc(pages->addresses, pages->room * sizeof(void *));
		pages->status = realloc(pages->status, pages->room * sizeof(int));
		if (!pages->addresses || !pages->status) {
			fail("out of memory");
			return false;
		}
	}
	for (size_t i = 0; i < more; i++)
		pages->addresses[pages->nr++] = (char *)address + i * BASE_SIZE;
	return true;
}

static bool add_found(const struct found *found, struct pages *pages, struct pages *huge)
{
	if (!huge || !(found->categories & PAGE_HUGE))
		return add_pages(pages, (void *)found->start,
				 (found->end - found->start) / BASE_SIZE);
	for (uint64_t at = found->start; at < found->end; at += HUGE_SIZE)
		if (!add_pages(huge, (void *)at, 1))
			return false;
	return true;
}

static bool scan_mapping(int pagemap, uint64_t start, uint64_t end, struct pages *pages,
			 struct pages *huge)
{
	static struct found found[REGIONS];
	struct scan scan = {
		.size = sizeof(scan), .end = end, .regions = (uintptr_t)found,
		.nr_regions = REGIONS, .inverted = PAGE_ZERO, .wanted = PAGE_PRESENT | PAGE_ZERO,
		.told = PAGE_HUGE,
	};

	while (start < end) {
		int nr;

		scan.start = start;
		nr = ioctl(pagemap, SCAN, &scan);
		if (nr < 0) {
			fail("PAGEMAP_SCAN: %s", strerror(errno));
			return false;
		}
		for (int i = 0; i < nr; i++)
			if (!add_found(&found[i], pages, huge))
				return false;
		if (scan.walk_end <= start)
			break;
		start = scan.walk_end;
	}
	return true;
}

/*
 * Finds the pages of a process that are present, in the order of their addresses. With
 * @huge, which is empty, those that are mapped as a huge page are named there, by one address.
 */
bool find_pages(pid_t pid, struct pages *pages, struct pages *huge)
{
	char path[64], *line = NULL;
	size_t size = 0;
	int pagemap;
	FILE *maps;

	pages->nr = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY);
	if (!maps || pagemap < 0)
		fail("cannot read %s: %s", path, strerror(errno));
	while (!failed() && getline(&line, &size, maps) > 0) {
		uint64_t start, end;

		/* Pages of the kernel have names such as [vdso]. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 &&
		    !strstr(line, "[v"))
			scan_mapping(pagemap, start, end, pages, huge);
	}
	free(line);
	if (maps)
		fclose(maps);
	if (pagemap >= 0)
		close(pagemap);
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
