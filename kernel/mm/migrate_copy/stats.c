// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of the migration copy: per CPU, summed when somebody reads them.
 */
#include <linux/percpu.h>

#include "internal.h"

struct migrate_copy_stats {
	unsigned long nr[MIGRATE_COPY_NR_STATS];
};

static DEFINE_PER_CPU(struct migrate_copy_stats, stats);

/* The file names below /sys/kernel/mm/migrate_copy/stats/. */
static const char * const stat_names[] = {
	[MIGRATE_COPY_BATCHES]		= "batches",
	[MIGRATE_COPY_FOLIOS]		= "folios_copied",
	[MIGRATE_COPY_BYTES_CALLER]	= "bytes_caller",
	[MIGRATE_COPY_BYTES_HELPERS]	= "bytes_helpers",
	[MIGRATE_COPY_BYTES_NONTEMPORAL]	= "bytes_nontemporal",
	[MIGRATE_COPY_BYTES_ENGINES]	= "bytes_engines",
	[MIGRATE_COPY_JOBS]		= "jobs",
	[MIGRATE_COPY_HELPERS_WOKEN]	= "helpers_woken",
	[MIGRATE_COPY_FALLBACK_MOVABLE]	= "fallback_movable",
	[MIGRATE_COPY_FALLBACK_MAPPING]	= "fallback_mapping",
	[MIGRATE_COPY_FALLBACK_REFS]	= "fallback_refs",
	[MIGRATE_COPY_FALLBACK_FAILED]	= "fallback_failed",
	[MIGRATE_COPY_FALLBACK_VOID]	= "fallback_void",
	[MIGRATE_COPY_ALONE_SMALL]	= "alone_small",
	[MIGRATE_COPY_ALONE_BUSY]	= "alone_busy",
	[MIGRATE_COPY_TEAMS]		= "teams",
	[MIGRATE_COPY_TEAM_HELPERS]	= "team_helpers_woken",
	[MIGRATE_COPY_TEAM_BATCHES]	= "team_batches",
	[MIGRATE_COPY_HELPER_NS]	= "helper_ns",
};

static_assert(ARRAY_SIZE(stat_names) == MIGRATE_COPY_NR_STATS);

/**
 * migrate_copy_stat_add() - Count.
 * @stat: Which counter.
 * @nr: How much to add; folios, bytes or events, as the counter says.
 *
 * Context: Any.
 */
void migrate_copy_stat_add(enum migrate_copy_stat stat, unsigned long nr)
{
	this_cpu_add(stats.nr[stat], nr);
}

/**
 * migrate_copy_stat_read() - Sum a counter over all CPUs.
 * @stat: Which counter.
 *
 * Context: Any. Not a snapshot: other CPUs go on counting meanwhile.
 * Return: Its value since boot.
 */
unsigned long migrate_copy_stat_read(enum migrate_copy_stat stat)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(stats.nr[stat], cpu);
	return sum;
}

/**
 * migrate_copy_stat_name() - The name of a counter.
 * @stat: Which counter.
 *
 * Context: Any.
 * Return: Its file name in sysfs.
 */
const char *migrate_copy_stat_name(enum migrate_copy_stat stat)
{
	return stat_names[stat];
}
