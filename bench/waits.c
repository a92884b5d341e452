// SPDX-License-Identifier: GPL-2.0-only
/*
 * How often somebody waited how long. Times within 1/64 of each other count as
 * one and the same, so that all of them have room, from a nanosecond to years.
 */
#include <inttypes.h>
#include <stdio.h>

#include "waits.h"

static unsigned int slot_of(uint64_t ns)
{
	unsigned int shift;

	if (ns < WAIT_STEPS)
		return ns;
	shift = 63 - __builtin_clzll(ns) - WAIT_BITS;
	return shift * WAIT_STEPS + (ns >> shift);
}

/* The time in the middle of a slot. */
static uint64_t time_of(unsigned int slot)
{
	unsigned int shift;

	if (slot < WAIT_STEPS)
		return slot;
	shift = slot / WAIT_STEPS - 1;
	return ((uint64_t)(WAIT_STEPS + slot % WAIT_STEPS) << shift) + (1ULL << shift) / 2;
}

/*
 * Counts a wait of @ns by somebody who comes every @period_ns, and in any case
 * not before the wait is over: it stands for those of all the times at which
 * that task would have come during it, each of which had less of it left.
 */
void add_wait(struct waits *waits, uint64_t ns, uint64_t period_ns)
{
	for (; ns > period_ns; ns -= period_ns)
		waits->nr[slot_of(ns)]++;
	waits->nr[slot_of(ns)]++;
}

/* Prints pairs of a time and how often it was waited, the shortest first. */
void print_waits(const char *name, const struct waits *waits)
{
	const char *separator = "";

	printf(",\"%s\":[", name);
	for (unsigned int slot = 0; slot < WAIT_SLOTS; slot++) {
		if (!waits->nr[slot])
			continue;
		printf("%s[%" PRIu64 ",%" PRIu64 "]", separator, time_of(slot), waits->nr[slot]);
		separator = ",";
	}
	putchar(']');
}
