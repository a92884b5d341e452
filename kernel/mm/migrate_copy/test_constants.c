// SPDX-License-Identifier: GPL-2.0-only
/*
 * For benchmarks and tests only: files in /sys/kernel/debug/migrate_copy/ that
 * change what is constant otherwise, at any time.
 *
 *	batch_pages		base pages in a batch, 512 to 32768
 *	chunk_kb		most KiB per claim, at least a base page
 *	promote_hold		1: candidates for promotion have to wait
 *	parallel_batches	0: helpers share copies, but take no pieces
 *	set_folios		folios copied together, 1 to 64
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/sizes.h>

#include "internal.h"

unsigned int migrate_copy_batch_pages = 512;
unsigned int migrate_copy_chunk_kb = MAX(SZ_128K, PAGE_SIZE) / SZ_1K;
unsigned int migrate_copy_set_folios = MIGRATE_COPY_SET;
bool migrate_copy_pieces = true;
bool migrate_copy_promote_hold;

static int set_folios_get(void *unused, u64 *value)
{
	*value = READ_ONCE(migrate_copy_set_folios);
	return 0;
}

static int set_folios_set(void *unused, u64 value)
{
	/* A set is on the stack. */
	if (!value || value > MIGRATE_COPY_SET)
		return -EINVAL;
	WRITE_ONCE(migrate_copy_set_folios, value);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(set_folios_fops, set_folios_get,
			 set_folios_set, "%llu\n");

static int __init migrate_copy_judge_init(void)
{
	struct dentry *dir = migrate_copy_test_dir();

	debugfs_create_u32("batch_pages", 0600, dir, &migrate_copy_batch_pages);
	debugfs_create_u32("chunk_kb", 0600, dir, &migrate_copy_chunk_kb);
	debugfs_create_bool("parallel_batches", 0600, dir, &migrate_copy_pieces);
	debugfs_create_bool("promote_hold", 0600, dir, &migrate_copy_promote_hold);
	debugfs_create_file_unsafe("set_folios", 0600, dir, NULL, &set_folios_fops);
	return 0;
}
late_initcall(migrate_copy_judge_init);
