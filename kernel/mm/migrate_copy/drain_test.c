// SPDX-License-Identifier: GPL-2.0-only
/*
 * A switch for tests and benchmarks: for which folios page migration drains the
 * LRU batches of its CPU.  /sys/kernel/debug/migrate_copy/lru_drain
 */
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"

DEFINE_STATIC_KEY_FALSE(migrate_copy_drains_key);
DEFINE_STATIC_KEY_FALSE(migrate_copy_drains_mapped_key);

static const char * const drain_names[] = {
	"never",	/* Mlocked folios go to the LRU together */
	"mlocked",	/* As the unmodified kernel since 6.7 */
	"mapped",	/* As it did before */
};

static DEFINE_MUTEX(drain_lock);
static int drain;	/* Index of a name; written under drain_lock */

static int drain_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "%s\n", drain_names[READ_ONCE(drain)]);
	return 0;
}

static void drain_set_key(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

static ssize_t drain_write(struct file *file, const char __user *user,
			   size_t size, loff_t *pos)
{
	char name[16];
	int found;

	if (size >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, user, size))
		return -EFAULT;
	name[size] = '\0';

	found = sysfs_match_string(drain_names, name);
	if (found < 0)
		return found;

	mutex_lock(&drain_lock);
	WRITE_ONCE(drain, found);
	drain_set_key(&migrate_copy_drains_key, found > 0);
	drain_set_key(&migrate_copy_drains_mapped_key, found > 1);
	mutex_unlock(&drain_lock);
	return size;
}

static int drain_open(struct inode *inode, struct file *file)
{
	return single_open(file, drain_show, NULL);
}

static const struct file_operations drain_fops = {
	.owner		= THIS_MODULE,
	.open		= drain_open,
	.read		= seq_read,
	.write		= drain_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int __init migrate_copy_drain_test_init(void)
{
	debugfs_create_file("lru_drain", 0600, migrate_copy_test_dir(), NULL,
			    &drain_fops);
	return 0;
}
late_initcall(migrate_copy_drain_test_init);
