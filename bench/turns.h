/* SPDX-License-Identifier: GPL-2.0-only */
/* When a benchmark program may load the machine, and when it must stop. */
#ifndef TURNS_H
#define TURNS_H

#include <signal.h>
#include <stdbool.h>

extern volatile sig_atomic_t stop;

void stop_on_signals(void);
bool wait_for_turn(const char *dir, unsigned long number);

#endif
