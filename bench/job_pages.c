// SPDX-License-Identifier: GPL-2.0-only
/*
 * A step touches pages, most of them in the hot half of the memory.
 *
 * A page belongs to one thread, which counts in it and knows how far it has come, and
 * has a content that tells its number: a page that is old, lost or another one's is
 * noticed when it is touched next, and at the end of a scene.
 */
#include <stdlib.h>

#include "job.h"
#include "mark.h"

/* Pages of a step. */
#define TOUCHES		128

/* Of a page that is touched: its count, and a word. */
#define CHECKED_BYTES	(2 * sizeof(uint64_t))

#define WORDS		(BASE_SIZE / sizeof(uint64_t))

/* The first word is the count, all others depend on the page and their place. */
struct page {
	uint64_t words[WORDS];
};

static struct page *pages;
static uint32_t *counts;
static size_t nr_pages;

static uint64_t word_of(size_t page, size_t word)
{
	return mix(page + 1) + word * 0x9e3779b97f4a7c15ULL;
}

static bool prepare(void)
{
	pages = crew.memory;
	nr_pages = crew.bytes / BASE_SIZE;
	counts = calloc(nr_pages, sizeof(*counts));
	return counts;
}

static void fill(void)
{
	for (size_t i = 0; i < nr_pages; i++)
		for (size_t word = 1; word < WORDS; word++)
			pages[i].words[word] = word_of(i, word);
}

/* Of so many pages no cache has the one that is next, nor both of its lines. */
static void touch(struct worker *worker, size_t index)
{
	struct page *page = &pages[index];
	size_t word = 1 + (worker->seed >> 48) % (WORDS - 1);

	if (!missed_is(&page->words[0], counts[index]) ||
	    !missed_is(&page->words[word], word_of(index, word)))
		worker->load.wrong++;
	page->words[0] = ++counts[index];
	worker->load.checked += CHECKED_BYTES;
}

static void step(struct worker *worker, bool shifted)
{
	for (int i = 0; i < TOUCHES; i++)
		touch(worker, pick(worker, nr_pages, shifted));
}

/* Also those that nobody has touched since they moved. */
static void check(struct load *sum)
{
	for (size_t i = 0; i < nr_pages; i++) {
		const uint64_t *words = pages[i].words;
		bool good = words[0] == counts[i];

		for (size_t word = 1; word < WORDS; word++)
			good &= words[word] == word_of(i, word);
		sum->wrong += !good;
	}
	sum->checked += nr_pages * BASE_SIZE;
}

const struct job touch_pages = {
	.prepare = prepare, .fill = fill, .step = step, .check = check,
};
