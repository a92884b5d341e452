// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a move leaves of the caches: for somebody whose memory was in them, and
 * for who reads what has moved.
 */
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "movebench.h"

#define LINE		64
/* Until all of it is there that fits. */
#define WARM_PASSES	3

static char *own;
static size_t own_bytes;

static uint64_t time_pass(const char *memory, size_t bytes)
{
	uint64_t start = now_ns();

	for (size_t at = 0; at < bytes; at += LINE)
		*(volatile const char *)(memory + at);
	return now_ns() - start;
}

/* Brings @kb of memory into the caches; returns the nanoseconds of reading it there. */
static uint64_t warm_caches(unsigned long kb)
{
	size_t bytes = kb << 10;
	uint64_t ns = 0;

	if (bytes != own_bytes) {
		free(own);
		own_bytes = 0;
		own = aligned_alloc(BASE_SIZE, bytes);
		if (!own) {
			fail("no memory for %lu KB beside what moves", kb);
			return 0;
		}
		memset(own, 1, bytes);
		own_bytes = bytes;
	}
	for (int pass = 0; pass < WARM_PASSES; pass++)
		ns = time_pass(own, bytes);
	return ns;
}

static void begin_cache(unsigned long kb, uint64_t *figures)
{
	figures[0] += warm_caches(kb);
}

/* Reads the same memory once more, and what has moved. */
static void end_cache(uint64_t *figures)
{
	figures[1] += time_pass(own, own_bytes);
	figures[2] += time_pass((const char *)region.start, region.bytes);
}

static const struct meter cache = {
	.option = "cache",
	.letter = 'C',
	.most = 1UL << 24,
	.help = "  -C, --cache KB       tell how long KB of other memory take to be read, from the\n"
		"                       caches and again after each move, and what has moved (0: no)\n",
	.each_move = true,
	.names = { "warm_ns", "own_ns", "read_ns" },
	.begin = begin_cache,
	.end = end_cache,
};
METER(cache)
