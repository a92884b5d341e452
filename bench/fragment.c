// SPDX-License-Identifier: GPL-2.0-only
/*
 * A node whose free memory is in pieces: it is filled with base pages, and every
 * other one of them is freed. A huge page has to be made by compaction then, which
 * migrates pages that are mapped, and mlocked if that is asked for.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

#define PAGE_BYTES	4096UL

/* What stays free besides what the kernel wants to be free, for what it needs until then. */
#define SPARE_KB	(8UL << 10)

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT	1
#endif

static char *fill;
static size_t fill_bytes;

void drop_fragments(void)
{
	if (fill)
		munmap(fill, fill_bytes);
	fill = NULL;
}

/* Fills a node, if it has @least_kb more than is to stay free besides what the kernel wants. */
static bool fill_node(unsigned long node, unsigned long spare_kb, unsigned long least_kb)
{
	unsigned long kb = free_bytes(node) >> 10;

	/* With less than this reclaim would begin, or the program be killed. */
	spare_kb += wanted_free_bytes(node) >> 10;
	if (kb < spare_kb + least_kb) {
		fail("node %lu has %lu kB free only", node, kb);
		return false;
	}
	fill_bytes = (kb - spare_kb) << 10;
	fill = mmap(NULL, fill_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fill == MAP_FAILED) {
		fill = NULL;
		fail("cannot map %zu bytes", fill_bytes);
		return false;
	}
	if (!bind_memory(fill, fill_bytes, node))
		return false;
	madvise(fill, fill_bytes, MADV_NOHUGEPAGE);
	for (size_t offset = 0; offset < fill_bytes; offset += PAGE_BYTES)
		fill[offset] = 1;
	return true;
}

/* Lock the pages that are present, without faulting in others. */
static bool lock_fill(void)
{
	if (syscall(SYS_mlock2, fill, fill_bytes, MLOCK_ONFAULT) < 0)
		fail("cannot mlock: %s", strerror(errno));
	return !failed();
}

/* Until drop_fragments(). */
bool leave_free(unsigned long node, unsigned long kb)
{
	if (!fill_node(node, kb, 0))
		return false;
	/* The mover, and other programs, need no page tables of it. */
	madvise(fill, fill_bytes, MADV_DONTFORK);
	return lock_fill();
}

/* At least @room_kb are freed, in single pages. */
bool fragment_node(unsigned long node, unsigned long room_kb, bool mlocked)
{
	if (!fill_node(node, SPARE_KB, 3 * room_kb))
		return false;
	for (size_t offset = 0; offset < fill_bytes; offset += 2 * PAGE_BYTES)
		madvise(fill + offset, PAGE_BYTES, MADV_DONTNEED);
	return !mlocked || lock_fill();
}
