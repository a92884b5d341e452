// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a worker, and what is in it.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "torture.h"

/* The contents of pages that are to be merged. */
#define KSM_CONTENTS	16

void fault(enum fault what)
{
	shared->injected[what]++;
}

void count_error(atomic_ulong *counts, int err)
{
	counts[err < 0 || err >= NR_ERRORS ? NR_ERRORS - 1 : err]++;
}

void __printf(1, 2) unexpected(const char *fmt, ...)
{
	char text[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ksft_print_msg("%s\n", text);
	shared->unexpected++;
}

/*
 * How many random numbers a process has drawn may depend on what it met. So it
 * begins afresh each turn: what it does in one depends on the seed, on which of
 * the processes it is, and on how many turns it has had.
 */
void turn_start(unsigned int process, uint64_t turn)
{
	random_start(seed, (uint64_t)(process + 1) << 32 | turn);
}

/* What is freed by advice, and copied after a fork: no file is behind it. */
bool is_private(const struct slot *s)
{
	return s->kind <= SLOT_KSM;
}

/*
 * Pages that KSM can merge are of few contents, in all processes the same; each
 * write gives a page another one of them. All others differ.
 */
static uint64_t page_seed(const struct slot *s, size_t page)
{
	if (s->kind == SLOT_KSM)
		return ((page + s->version[page]) % KSM_CONTENTS + 1) << 20;
	return s->seed + s->version[page] * 0x100000001ULL;
}

/* Where the pattern of a page begins. */
static size_t page_offset(const struct slot *s, size_t page)
{
	return s->kind == SLOT_KSM ? 0 : page * PAGE;
}

void page_fill(const struct slot *s, size_t page, char *at)
{
	pattern_fill(at, PAGE, page_seed(s, page), page_offset(s, page), 0);
}

void write_pages(struct slot *s, size_t first, size_t nr)
{
	size_t page;

	for (page = first; page < first + nr; page++) {
		s->version[page]++;
		page_fill(s, page, s->map + page * PAGE);
	}
}

unsigned long bad_words(const struct slot *s, const char *at, size_t page)
{
	return pattern_bad(at, PAGE, page_seed(s, page), page_offset(s, page),
			   0);
}

void verify(struct slot *s, size_t first, size_t nr)
{
	unsigned long bad = 0;
	char buf[PAGE];
	size_t page;

	for (page = first; page < first + nr; page++) {
		bad += bad_words(s, s->map + page * PAGE, page);
		/* And what a read finds, which takes no lock. */
		if (s->fd >= 0 && !rnd(4)) {
			if (pread(s->fd, buf, PAGE, page * PAGE) ==
			    (ssize_t)PAGE)
				bad += bad_words(s, buf, page);
		}
	}
	if (bad)
		ksft_print_msg("%lu wrong words in a slot of kind %d\n", bad,
			       s->kind);
	shared->wrong += bad;
	shared->verified += nr * PAGE;
	shared->pages_of_kind[s->kind] += nr;
}

bool slot_map(struct slot *s, unsigned int worker)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t size, align = 2 * MB;
	char *space, *at;

	s->fd = -1;
	s->pages = MAX_PAGES;
	switch (s->kind) {
	case SLOT_HUGETLB:
		flags |= MAP_HUGETLB;
		break;
	case SLOT_SHMEM:
		flags = MAP_SHARED | MAP_ANONYMOUS;
		break;
	case SLOT_TMPFS:
	case SLOT_TMPFS_HUGE:
	case SLOT_EXT4:
	case SLOT_XFS:
		flags = MAP_SHARED;
		s->fd = files[worker][s->kind];
		if (s->fd < 0)
			return false;
		break;
	default:
		break;
	}
	size = s->pages * PAGE;
	space = mmap(NULL, size + align, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		return false;
	at = (char *)(((uintptr_t)space + align - 1) & ~(align - 1));
	s->map = mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
		      s->fd, 0);
	if (s->map == MAP_FAILED)
		return false;
	if (s->kind == SLOT_MTHP || s->kind == SLOT_THP)
		madvise(s->map, size, MADV_HUGEPAGE);
	else if (s->kind == SLOT_BASE || s->kind == SLOT_KSM)
		madvise(s->map, size, MADV_NOHUGEPAGE);
	if (s->kind == SLOT_KSM)
		madvise(s->map, size, MADV_MERGEABLE);
	write_pages(s, 0, s->pages);
	return true;
}
