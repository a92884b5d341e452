/* SPDX-License-Identifier: GPL-2.0-only */
/* How often somebody waited how long. */
#ifndef WAITS_H
#define WAITS_H

#include <stdint.h>

#define WAIT_BITS		6
#define WAIT_STEPS		(1U << WAIT_BITS)
#define WAIT_SLOTS		((64 - WAIT_BITS + 1) * WAIT_STEPS)

struct waits {
	uint64_t nr[WAIT_SLOTS];
};

void add_wait(struct waits *waits, uint64_t ns, uint64_t period_ns);
void print_waits(const char *name, const struct waits *waits);

#endif
