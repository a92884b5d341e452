/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>

/* Takes the host's TSC away from QEMU. Returns false where that cannot be done. */
bool clock_init(void);

#endif
