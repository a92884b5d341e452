/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells a simulator that something timed begins and ends, or that no cache has what is
 * compared, see sim/README.md. To any other processor these are instructions that do
 * nothing, and a comparison.
 */
#ifndef MARK_H
#define MARK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __x86_64__
/* nopl 0x50484d00 + number(%rax) */
#define MARK(number) asm volatile(".byte 0x0f, 0x1f, 0x80, " #number ", 0x4d, 0x48, 0x50" ::: "memory")
/* cmp with a prefix for the segment that it has anyway */
static inline bool missed_is(const uint64_t *from, uint64_t value)
{
	bool same;

	asm volatile(".byte 0x3e; cmp (%1), %2" : "=@ccz"(same) : "r"(from), "r"(value) : "memory");
	return same;
}
#else
#define MARK(number) asm volatile("" ::: "memory")

static inline bool missed_is(const uint64_t *from, uint64_t value)
{
	return *(const volatile uint64_t *)from == value;
}
#endif

#define mark_begin()	MARK(1)
#define mark_end()	MARK(2)

#endif
