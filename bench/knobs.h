/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's knobs, as a cell wants them. */
#ifndef KNOBS_H
#define KNOBS_H

#include <stdbool.h>

#define MAX_KNOBS		16

/*
 * A knob whose name begins so is a sysctl, a parameter of a module, or a switch that only some
 * kernels for tests have.
 */
#define SYSCTL_PREFIX		"vm."
#define SYSCTL_DIR		"/proc/sys/vm"
#define MODULE_PREFIX		"module."
#define MODULE_DIR		"/sys/module"
#define DEBUG_PREFIX		"debug."
/* One that begins so is the nice value of kernel threads: they are to end with the cell. */
#define NICE_PREFIX		"nice."
#define DEBUGFS			"/sys/kernel/debug"
#define DEBUG_DIR		DEBUGFS "/migrate_copy"

void add_knob(const char **knobs, int *nr, const char *text);
bool set_knobs(const char *const *knobs, int nr);

#endif
