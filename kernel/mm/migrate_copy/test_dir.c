// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/migrate_copy/, where the switches of kernels for tests are.
 */
#include <linux/debugfs.h>

#include "internal.h"

/**
 * migrate_copy_test_dir() - Get the directory of what is for tests only.
 *
 * Context: Process context, of an initcall: these come one after the other.
 * Return: The directory in debugfs, or an error pointer, which debugfs accepts as
 * a parent.
 */
struct dentry * __init migrate_copy_test_dir(void)
{
	static struct dentry *dir __initdata;

	if (!dir)
		dir = debugfs_create_dir("migrate_copy", NULL);
	return dir;
}
