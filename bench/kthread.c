// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where a kernel thread runs that moves wait for.
 *
 * move_pages(2) switches the LRU caches off, which takes an expedited grace period of
 * RCU. The thread that ends it may be on the caller's CPU or on another one, stays
 * there until the scheduler has a reason to move it, and makes a move of one page
 * take 6 us or 11.
 */
#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* As /proc has it, in so many characters as fit. */
#define GRACE_PERIODS		"rcu_exp_gp_kthr"

static void put_on_first_cpu(const char *pid, void *unused)
{
	cpu_set_t cpus, first;

	(void)unused;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		CPU_ZERO(&first);
		CPU_SET(cpu, &first);
		if (sched_setaffinity(atoi(pid), sizeof(first), &first) < 0)
			perror("movebench: cannot place a kernel thread");
		return;
	}
}

/* Visits the threads of the kernel whose names begin so. */
void each_kernel_thread(const char *prefix, void (*visit)(const char *pid, void *arg), void *arg)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	while (dir && (entry = readdir(dir))) {
		char path[sizeof("/proc//comm") + sizeof(entry->d_name)], name[32];

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (read_text(path, name, sizeof(name)) == 0 &&
		    !strncmp(name, prefix, strlen(prefix)))
			visit(entry->d_name, arg);
	}
	if (dir)
		closedir(dir);
}

/* Puts it on the CPU of the first caller, for good. */
void place_kernel_threads(void)
{
	each_kernel_thread(GRACE_PERIODS, put_on_first_cpu, NULL);
}
