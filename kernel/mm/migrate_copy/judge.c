// SPDX-License-Identifier: GPL-2.0-only
/*
 * For benchmarks only: what is each mechanism of the migration copy worth?
 *
 * A file in /sys/kernel/debug/migrate_copy/without/ is 1 while the copy does
 * without the mechanism of that name, and 0 at boot:
 *
 *   cost_model		helpers are called by costs that are assumed, see cost.c,
 *			not measured
 *   placement		CPUs are asked by their numbers, the idle ones first
 *   engine_model	engines get chunks of chunk_kb, however slow they are
 *
 * The size of a set of folios cannot be switched off, as it lies on the stack:
 * migrate_copy/set_folios, 1 to 64, makes it smaller.
 *
 * Whatever is switched off, and whenever: what migration promises is kept. What
 * has begun may end with the mechanism.
 */
#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/debugfs.h>
#include <linux/init.h>

#include "internal.h"

/* The mechanisms to do without, one bit each. */
unsigned long migrate_copy_left_out;
unsigned int migrate_copy_set_folios = MIGRATE_COPY_SET;

static const char * const mechanism_names[MIGRATE_COPY_NR_MECHANISMS] = {
	[MIGRATE_COPY_COST_MODEL]	= "cost_model",
	[MIGRATE_COPY_PLACEMENT]	= "placement",
	[MIGRATE_COPY_ENGINE_MODEL]	= "engine_model",
};

static_assert(MIGRATE_COPY_NR_MECHANISMS <= BITS_PER_LONG);

/* The data of a file is the number of its mechanism. */
static int without_get(void *data, u64 *value)
{
	*value = test_bit((unsigned long)data, &migrate_copy_left_out);
	return 0;
}

static int without_set(void *data, u64 value)
{
	if (value > 1)
		return -EINVAL;
	assign_bit((unsigned long)data, &migrate_copy_left_out, value);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(without_fops, without_get, without_set, "%llu\n");

static int set_folios_get(void *unused, u64 *value)
{
	*value = READ_ONCE(migrate_copy_set_folios);
	return 0;
}

static int set_folios_set(void *unused, u64 value)
{
	if (!value || value > MIGRATE_COPY_SET)
		return -EINVAL;
	WRITE_ONCE(migrate_copy_set_folios, value);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(set_folios_fops, set_folios_get,
			 set_folios_set, "%llu\n");

static int __init migrate_copy_judge_init(void)
{
	struct dentry *dir = migrate_copy_test_dir(), *without;
	unsigned long i;

	without = debugfs_create_dir("without", dir);
	for (i = 0; i < MIGRATE_COPY_NR_MECHANISMS; i++)
		debugfs_create_file_unsafe(mechanism_names[i], 0600, without,
					   (void *)i, &without_fops);
	debugfs_create_file_unsafe("set_folios", 0600, dir, NULL,
				   &set_folios_fops);
	return 0;
}
late_initcall(migrate_copy_judge_init);
