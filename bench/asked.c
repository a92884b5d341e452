// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel moves by itself, where it is asked to: tiers, NUMA balancing, compaction. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

#define SCANS	"/sys/kernel/debug/sched/numa_balancing/"

static bool set(const char *path, const char *value)
{
	if (set_sysfs(path, value) < 0)
		fail("cannot set %s: %s", path, strerror(errno));
	return !failed();
}

bool enable_demotion(void)
{
	return set("/sys/kernel/mm/numa/demotion_enabled", "true");
}

/* Has the kernel look for pages that are used from afar, often enough; @mode is its own. */
bool set_balancing(const char *mode)
{
	/* A scan of less is allowed to be more frequent: waiting for it takes CPU time. */
	return set(SCANS "scan_size_mb", "64") && set(SCANS "scan_delay_ms", "10") &&
	       set(SCANS "scan_period_min_ms", "25") && set(SCANS "scan_period_max_ms", "25") &&
	       set(BALANCING, mode);
}

bool compact_node(unsigned long node)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/compact", node);
	if (write_text(path, "1") < 0)
		fail("cannot compact node %lu: %s", node, strerror(errno));
	return !failed();
}
