/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells a simulator that something timed begins and ends, see sim/README.md. To any
 * other processor these are instructions that do nothing.
 */
#ifndef MARK_H
#define MARK_H

#ifdef __x86_64__
/* nopl 0x50484d00 + number(%rax) */
#define MARK(number) asm volatile(".byte 0x0f, 0x1f, 0x80, " #number ", 0x4d, 0x48, 0x50" ::: "memory")
#else
#define MARK(number) asm volatile("" ::: "memory")
#endif

#define mark_begin()	MARK(1)
#define mark_end()	MARK(2)

#endif
