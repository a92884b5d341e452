// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm: what can be set, in /sys/module/dcbm/parameters/ and when it is loaded; and
 * what can be seen, in /sys/kernel/mm/migrate_copy/engines/dcbm/.
 */
#define pr_fmt(fmt) "dcbm: " fmt

#include <linux/cpufeature.h>
#include <linux/ctype.h>
#include <linux/kstrtox.h>

#include "dcbm.h"

/* Protected by dcbm_mutex; NULL before it is registered, and when it is to go. */
static struct migrate_copy_engine *engine;
static struct migrate_copy_engine_use use = { .reasons = BIT(MR_TYPES) - 1 };

/* What was asked for before that. */
static bool offloading;

bool dcbm_near_only = true;
module_param_named(near_only, dcbm_near_only, bool, 0644);
MODULE_PARM_DESC(near_only, "of the channels, use those that are nearest to the destination (default 1)");

module_param_named(reason_mask, use.reasons, ulong, 0644);
MODULE_PARM_DESC(reason_mask, "for which reasons, one bit for each enum migrate_reason (default all)");

static int offloading_set(const char *text, const struct kernel_param *kp)
{
	bool enable;

	if (kstrtobool(text, &enable))
		return -EINVAL;
	guard(mutex)(&dcbm_mutex);
	if (engine)
		migrate_copy_engine_enable(engine, enable);
	else
		offloading = enable;
	return 0;
}

static const struct kernel_param_ops offloading_ops = {
	.set = offloading_set,
	.get = param_get_bool,
};

module_param_cb(offloading, &offloading_ops, &use.offloading, 0644);
MODULE_PARM_DESC(offloading, "let migrations use the channels (default 0)");

static int depth_set(const char *text, const struct kernel_param *kp)
{
	return param_set_uint_minmax(text, kp, 1, MAX_DEPTH);
}

static const struct kernel_param_ops depth_ops = {
	.set = depth_set,
	.get = param_get_uint,
};

unsigned int dcbm_depth = 2;
module_param_cb(depth, &depth_ops, &dcbm_depth, 0644);
MODULE_PARM_DESC(depth, "chunks that a channel has at a time, 1 to 4 (default 2)");

static int nr_dma_chan_set(const char *text, const struct kernel_param *kp)
{
	unsigned int nr;

	if (kstrtouint(text, 10, &nr) || nr > MAX_CHANNELS)
		return -EINVAL;
	guard(mutex)(&dcbm_mutex);
	WRITE_ONCE(dcbm_wanted, nr);
	if (engine)
		dcbm_acquire();
	return 0;
}

static const struct kernel_param_ops nr_dma_chan_ops = {
	.set = nr_dma_chan_set,
	.get = param_get_uint,
};

module_param_cb(nr_dma_chan, &nr_dma_chan_ops, &dcbm_wanted, 0644);
MODULE_PARM_DESC(nr_dma_chan, "how many channels to use, 0 to 64 (default 0)");

/* Channels that we have are released, and requested as the new list says. */
static int names_set(const char *text, const struct kernel_param *kp)
{
	char names[NAMES_SIZE], *at;

	if (strscpy(names, skip_spaces(text)) < 0 || !*strim(names))
		return -EINVAL;
	for (at = names; *at; at++)
		if (!isascii(*at) || !isprint(*at))
			return -EINVAL;
	guard(mutex)(&dcbm_mutex);
	strscpy(kp->arg, names, NAMES_SIZE);
	/* Parameters can be written for longer than there are places for channels. */
	if (engine) {
		dcbm_close_all();
		dcbm_acquire();
	}
	return 0;
}

static int names_get(char *buf, const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	return sysfs_emit(buf, "%s\n", (char *)kp->arg);
}

static const struct kernel_param_ops names_ops = {
	.set = names_set,
	.get = names_get,
};

module_param_cb(devices, &names_ops, dcbm_devices, 0644);
MODULE_PARM_DESC(devices, "names of drivers, devices, or channels as in /sys/class/dma/, to use (default any)");

module_param_cb(terminate, &names_ops, dcbm_terminate, 0644);
MODULE_PARM_DESC(terminate, "such names: these stop the hardware when they are told to terminate (default none)");

module_param_cb(poll, &names_ops, dcbm_poll, 0644);
MODULE_PARM_DESC(poll, "such names: these are asked, and need not interrupt (default none)");

/* How many there are. */
static ssize_t channels_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	unsigned int i, live = 0, nr = dcbm_slots();

	for (i = 0; i < nr; i++)
		live += READ_ONCE(dcbm_chans[i]->state) == CHAN_LIVE;
	return sysfs_emit(buf, "%u\n", live);
}

static ssize_t channels_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *buf, size_t count)
{
	return nr_dma_chan_set(buf, NULL) ?: count;
}

static struct kobj_attribute channels_attr = __ATTR_RW(channels);

/* What a channel does, in words; its lock is held. */
static const char *state_name(const struct dcbm_chan *dchan)
{
	if (dchan->lost)
		return "waits for transfers that are late";
	if (dchan->state == CHAN_RESETTING)
		return "is being terminated";
	if (dchan->state == CHAN_LEAVING)
		return "is being released";
	return dcbm_ready(dchan) ? "ready" : "is left alone for a while";
}

static ssize_t status_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	unsigned int i, nr = dcbm_slots();
	ssize_t len, first;

	len = sysfs_emit(buf, "rejected %ld\nspurious %ld\n", atomic_long_read(&dcbm_rejected),
			 atomic_long_read(&dcbm_spurious));
	if (!READ_ONCE(dcbm_wanted))
		len += sysfs_emit_at(buf, len, "no channel is asked for: nr_dma_chan is 0\n");
	if (!READ_ONCE(use.offloading))
		len += sysfs_emit_at(buf, len, "no migration uses channels: offloading is 0\n");
	first = len;
	for (i = 0; i < nr; i++) {
		struct dcbm_chan *dchan = dcbm_chans[i];

		spin_lock_irq(&dchan->lock);
		if (dchan->chan)
			len += sysfs_emit_at(buf, len, "%s of node %d: %s, %llu KB\n",
					     dchan->label, dchan->nid, state_name(dchan),
					     dchan->bytes / SZ_1K);
		spin_unlock_irq(&dchan->lock);
	}
	len = dcbm_list_unused(buf, len);
	if (len == first)
		len += sysfs_emit_at(buf, len, "no channel is there that nobody else has\n");
	return len;
}

static struct kobj_attribute status_attr = __ATTR_RO(status);

static struct attribute *dcbm_attrs[] = {
	&channels_attr.attr,
	&status_attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(dcbm);

static const struct migrate_copy_engine_desc dcbm_desc = {
	.name = "dcbm",
	.ops = &dcbm_ops,
	.use = &use,
	.groups = dcbm_groups,
};

static int __init dcbm_init(void)
{
	struct migrate_copy_engine *registered;

#ifdef CONFIG_ARM64_MTE
	/* The tags of pages are no part of what DMA copies. */
	if (system_supports_mte())
		return -EOPNOTSUPP;
#endif
	dcbm_wq = alloc_workqueue("dcbm", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!dcbm_wq)
		return -ENOMEM;
	registered = migrate_copy_engine_register(&dcbm_desc, NULL);
	if (IS_ERR(registered)) {
		destroy_workqueue(dcbm_wq);
		return PTR_ERR(registered);
	}
	guard(mutex)(&dcbm_mutex);
	engine = registered;
	dcbm_acquire();
	migrate_copy_engine_enable(engine, offloading);
	return 0;
}
late_initcall_sync(dcbm_init);

static void __exit dcbm_exit(void)
{
	struct migrate_copy_engine *registered = engine;

	while (1) {
		guard(mutex)(&dcbm_mutex);
		/* From now on no channel is acquired. */
		engine = NULL;
		if (dcbm_close_all())
			break;
		pr_warn_ratelimited("waiting for transfers that are late\n");
	}
	migrate_copy_engine_unregister(registered);
	dcbm_free();
	destroy_workqueue(dcbm_wq);
}
module_exit(dcbm_exit);

MODULE_AUTHOR("Pagehaul developers");
MODULE_DESCRIPTION("Copies folios by DMA channels for page migration");
MODULE_LICENSE("GPL");
