// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm: what can be set, in /sys/module/dcbm/parameters/ and when it is loaded; and
 * what can be seen, in /sys/kernel/mm/migrate_copy/engines/dcbm/.
 */
#define pr_fmt(fmt) "dcbm: " fmt

#include <linux/cleanup.h>
#include <linux/cpufeature.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "dcbm.h"

/* Protected by dcbm_mutex, and NULL as long as it is not registered. */
static struct migrate_copy_engine *engine;

/* What was asked for before there was an engine. */
static bool offloading;
static unsigned long reason_mask = ULONG_MAX;

bool dcbm_near_only = true;
unsigned int dcbm_depth = 2;
unsigned int dcbm_descriptors = 32;
bool dcbm_terminate;

static void set_channels(unsigned int nr, const char *devices)
{
	guard(mutex)(&dcbm_mutex);
	WRITE_ONCE(dcbm_wanted, nr);
	if (devices)
		strscpy(dcbm_devices, devices);
	if (!engine || dcbm_leaving)
		return;
	if (devices)
		dcbm_close_all();
	dcbm_acquire();
}

static int nr_dma_chan_set(const char *text, const struct kernel_param *kp)
{
	unsigned int nr;

	if (kstrtouint(text, 10, &nr) || nr > MAX_CHANNELS)
		return -EINVAL;
	set_channels(nr, NULL);
	return 0;
}

static int nr_dma_chan_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(dcbm_wanted));
}

static const struct kernel_param_ops nr_dma_chan_ops = {
	.set = nr_dma_chan_set,
	.get = nr_dma_chan_get,
};

module_param_cb(nr_dma_chan, &nr_dma_chan_ops, NULL, 0644);
MODULE_PARM_DESC(nr_dma_chan, "how many channels to use, 0 to 64 (default 0)");

static int devices_set(const char *text, const struct kernel_param *kp)
{
	char devices[DEVICES_SIZE];
	size_t i;

	text += strspn(text, " ,\n");
	if (!*text || strscpy(devices, text) < 0)
		return -EINVAL;
	strim(devices);
	/* No device has such a name, and what was written is shown again. */
	for (i = 0; devices[i]; i++) {
		if (!isascii(devices[i]) || !isprint(devices[i]))
			return -EINVAL;
	}
	set_channels(READ_ONCE(dcbm_wanted), devices);
	return 0;
}

static int devices_get(char *buf, const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	return sysfs_emit(buf, "%s\n", dcbm_devices);
}

static const struct kernel_param_ops devices_ops = {
	.set = devices_set,
	.get = devices_get,
};

module_param_cb(devices, &devices_ops, NULL, 0644);
MODULE_PARM_DESC(devices, "names of devices, or of channels as in /sys/class/dma/, to use (default any)");

static int offloading_set(const char *text, const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	if (kstrtobool(text, &offloading))
		return -EINVAL;
	if (engine)
		migrate_copy_engine_enable(engine, offloading);
	return 0;
}

static bool is_offloading(void)
{
	guard(mutex)(&dcbm_mutex);
	return engine && migrate_copy_engine_enabled(engine);
}

static int offloading_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", is_offloading());
}

static const struct kernel_param_ops offloading_ops = {
	.set = offloading_set,
	.get = offloading_get,
};

module_param_cb(offloading, &offloading_ops, NULL, 0644);
MODULE_PARM_DESC(offloading, "let migrations use the channels (default 0)");

static int reason_mask_set(const char *text, const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	if (kstrtoul(text, 0, &reason_mask))
		return -EINVAL;
	if (engine)
		WRITE_ONCE(*migrate_copy_engine_reasons(engine), reason_mask);
	return 0;
}

static int reason_mask_get(char *buf, const struct kernel_param *kp)
{
	guard(mutex)(&dcbm_mutex);
	return sysfs_emit(buf, "0x%lx\n", engine ?
			  READ_ONCE(*migrate_copy_engine_reasons(engine)) :
			  reason_mask);
}

static const struct kernel_param_ops reason_mask_ops = {
	.set = reason_mask_set,
	.get = reason_mask_get,
};

module_param_cb(reason_mask, &reason_mask_ops, NULL, 0644);
MODULE_PARM_DESC(reason_mask, "for which reasons, one bit for each enum migrate_reason (default all)");

/* A number from 1 to max. */
static int limited_set(const char *text, const struct kernel_param *kp,
		       unsigned int max)
{
	unsigned int value;

	if (kstrtouint(text, 10, &value) || !value || value > max)
		return -EINVAL;
	WRITE_ONCE(*(unsigned int *)kp->arg, value);
	return 0;
}

static int depth_set(const char *text, const struct kernel_param *kp)
{
	return limited_set(text, kp, MAX_DEPTH);
}

static const struct kernel_param_ops depth_ops = {
	.set = depth_set,
	.get = param_get_uint,
};

module_param_cb(depth, &depth_ops, &dcbm_depth, 0644);
MODULE_PARM_DESC(depth, "chunks that a channel has at a time, 1 to 4 (default 2)");

static int descriptors_set(const char *text, const struct kernel_param *kp)
{
	return limited_set(text, kp, MAX_DEPTH * MIGRATE_COPY_CHUNK_RANGES);
}

static const struct kernel_param_ops descriptors_ops = {
	.set = descriptors_set,
	.get = param_get_uint,
};

module_param_cb(descriptors, &descriptors_ops, &dcbm_descriptors, 0644);
MODULE_PARM_DESC(descriptors, "descriptors that a channel has at a time: at most what its queue holds (default 32)");

module_param_named(near_only, dcbm_near_only, bool, 0644);
MODULE_PARM_DESC(near_only, "of the channels, use those that are nearest to the destination (default 1)");

module_param_named(terminate, dcbm_terminate, bool, 0644);
MODULE_PARM_DESC(terminate, "drivers stop the hardware when they are told to terminate: believe them (default 0)");

static ssize_t channels_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	return nr_dma_chan_get(buf, NULL);
}

static ssize_t channels_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *buf, size_t count)
{
	return nr_dma_chan_set(buf, NULL) ?: count;
}

static struct kobj_attribute channels_attr = __ATTR_RW(channels);

static ssize_t channels_live_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	unsigned int i, live = 0, nr = dcbm_slots();

	for (i = 0; i < nr; i++)
		live += READ_ONCE(dcbm_chans[i]->state) == CHAN_LIVE;
	return sysfs_emit(buf, "%u\n", live);
}

static struct kobj_attribute channels_live_attr = __ATTR_RO(channels_live);

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

static ssize_t status_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	static const char * const names[] = { "rejected", "spurious", "retired" };
	unsigned int i, nr = dcbm_slots();
	ssize_t len = 0;

	static_assert(ARRAY_SIZE(names) == DCBM_NR_STATS);
	for (i = 0; i < DCBM_NR_STATS; i++)
		len += sysfs_emit_at(buf, len, "%s %ld\n", names[i],
				     atomic_long_read(&dcbm_stats[i]));
	if (!READ_ONCE(dcbm_wanted))
		len += sysfs_emit_at(buf, len, "no channel is asked for: nr_dma_chan is 0\n");
	if (!is_offloading())
		len += sysfs_emit_at(buf, len, "no migration uses channels: offloading is 0\n");
	for (i = 0; i < nr; i++) {
		struct dcbm_chan *dchan = dcbm_chans[i];

		spin_lock_irq(&dchan->lock);
		if (dchan->chan)
			len += sysfs_emit_at(buf, len, "%s of node %d: %s, %llu KB\n",
					     dchan->label, dchan->nid,
					     state_name(dchan),
					     dchan->bytes / SZ_1K);
		spin_unlock_irq(&dchan->lock);
	}
	return dcbm_list_unused(buf, len);
}

static struct kobj_attribute status_attr = __ATTR_RO(status);

static struct attribute *dcbm_attrs[] = {
	&channels_attr.attr,
	&channels_live_attr.attr,
	&status_attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(dcbm);

static const struct migrate_copy_engine_desc dcbm_desc = {
	.name = "dcbm",
	.ops = &dcbm_ops,
	.groups = dcbm_groups,
};

static bool copies_everything(void)
{
#ifdef CONFIG_ARM64_MTE
	/* The tags of pages are no part of what DMA copies. */
	return !system_supports_mte();
#else
	return true;
#endif
}

static int __init dcbm_init(void)
{
	struct migrate_copy_engine *registered = ERR_PTR(-ENOMEM);

	if (!copies_everything())
		return -EOPNOTSUPP;
	/* Jobs wait for the latter; the former may sleep for long. */
	dcbm_wq = alloc_workqueue("dcbm", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	dcbm_pump_wq = alloc_workqueue("dcbm-pump",
				       WQ_MEM_RECLAIM | WQ_UNBOUND | WQ_HIGHPRI, 0);
	if (dcbm_wq && dcbm_pump_wq)
		registered = migrate_copy_engine_register(&dcbm_desc, NULL);
	if (IS_ERR(registered)) {
		if (dcbm_pump_wq)
			destroy_workqueue(dcbm_pump_wq);
		if (dcbm_wq)
			destroy_workqueue(dcbm_wq);
		return PTR_ERR(registered);
	}
	scoped_guard(mutex, &dcbm_mutex) {
		engine = registered;
		dcbm_acquire();
		WRITE_ONCE(*migrate_copy_engine_reasons(engine), reason_mask);
		migrate_copy_engine_enable(engine, offloading);
	}
	return 0;
}
late_initcall_sync(dcbm_init);

static void __exit dcbm_exit(void)
{
	struct migrate_copy_engine *registered;

	/* From now on no channel is acquired, and nothing can be set. */
	scoped_guard(mutex, &dcbm_mutex) {
		registered = engine;
		engine = NULL;
		dcbm_leaving = true;
		dcbm_close_all();
	}
	while (dcbm_open()) {
		pr_warn_ratelimited("waiting for transfers that are late\n");
		msleep(100);
	}
	migrate_copy_engine_unregister(registered);
	dcbm_free();
	destroy_workqueue(dcbm_pump_wq);
	destroy_workqueue(dcbm_wq);
}
module_exit(dcbm_exit);

MODULE_AUTHOR("Pagehaul developers");
MODULE_DESCRIPTION("Copies folios by DMA channels for page migration");
MODULE_LICENSE("GPL");
