// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random updates of a table, as the benchmark GUPS makes them: a step exclusive-ors
 * random numbers into words, most of them in the hot half. A word belongs to one
 * thread. Applying the same updates again must restore the initial table.
 */
#include "job.h"
#include "mark.h"

/* Words of a step. */
#define UPDATES		256

static uint64_t *table;
static size_t nr_words;
static uint64_t first_seeds[MAX_THREADS];

static bool prepare(void)
{
	table = crew.memory;
	nr_words = crew.bytes / sizeof(*table);
	return true;
}

static void fill(void)
{
	for (size_t i = 0; i < nr_words; i++)
		table[i] = i;
}

static void begin(struct worker *worker)
{
	first_seeds[worker->number] = worker->seed;
}

/* Of so many words no cache has the one that is next. */
static void step(struct worker *worker, bool shifted)
{
	for (int i = 0; i < UPDATES; i++) {
		uint64_t *word = &table[pick(worker, nr_words, shifted)], value = *word;

		if (!missed_is(word, value))
			worker->load.wrong++;
		*word = value ^ worker->seed;
	}
}

static void undo(struct worker *worker)
{
	worker->seed = first_seeds[worker->number];
	for (int shifted = 0; shifted < 2; shifted++)
		for (uint64_t i = 0; i < worker->steps[shifted] * UPDATES; i++) {
			uint64_t *word = &table[pick(worker, nr_words, shifted)];

			*word ^= worker->seed;
		}
}

static void check(struct load *sum)
{
	for (unsigned int i = 0; i < crew.nr_workers; i++)
		undo(&crew.workers[i]);
	for (size_t i = 0; i < nr_words; i++)
		sum->wrong += table[i] != i;
	sum->checked += crew.bytes;
}

const struct job update_words = {
	.prepare = prepare, .fill = fill, .begin = begin, .step = step, .check = check,
};
