// SPDX-License-Identifier: GPL-2.0-only
/*
 * The knobs in /sys/kernel/mm/migrate_copy/, and the start-up.
 * Documentation/admin-guide/mm/migrate_copy.rst describes them.
 */
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "internal.h"

DEFINE_STATIC_KEY_FALSE(migrate_copy_key);

/* As many as one caller has been measured with; a work can have twice as many. */
#define DEFAULT_MAX_HELPERS	31

unsigned int migrate_copy_max_helpers;
unsigned int migrate_copy_min_helper_kb = MIGRATE_COPY_AUTO;
unsigned int migrate_copy_chunk_kb = 128;
unsigned int migrate_copy_batch_pages = MIGRATE_COPY_MIN_BATCH_PAGES;
unsigned int migrate_copy_parallel_batches = 1;

static DEFINE_MUTEX(enabled_lock);

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", migrate_copy_enabled());
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	unsigned int enable;

	if (kstrtouint(buf, 10, &enable) || enable > 1)
		return -EINVAL;

	mutex_lock(&enabled_lock);
	if (enable)
		static_branch_enable(&migrate_copy_key);
	else
		static_branch_disable(&migrate_copy_key);
	mutex_unlock(&enabled_lock);
	return count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

/* Set *knob if the text is a number from min to max, else change nothing. */
static ssize_t store_number(const char *buf, size_t count, unsigned int *knob,
			    unsigned int min, unsigned int max)
{
	unsigned int value;

	if (kstrtouint(buf, 10, &value) || value < min || value > max)
		return -EINVAL;

	WRITE_ONCE(*knob, value);
	return count;
}

#define KNOB(_name, _min, _max)						\
static ssize_t _name##_show(struct kobject *kobj,			\
			    struct kobj_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, "%u\n", READ_ONCE(migrate_copy_##_name));\
}									\
static ssize_t _name##_store(struct kobject *kobj,			\
			     struct kobj_attribute *attr,		\
			     const char *buf, size_t count)		\
{									\
	return store_number(buf, count, &migrate_copy_##_name,		\
			    _min, _max);				\
}									\
static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

KNOB(max_helpers, 0, min(num_possible_cpus(), MIGRATE_COPY_MAX_HELPERS));
KNOB(chunk_kb, MIGRATE_COPY_MIN_CHUNK_KB, MIGRATE_COPY_MAX_CHUNK_KB);
KNOB(batch_pages, MIGRATE_COPY_MIN_BATCH_PAGES, MIGRATE_COPY_MAX_BATCH_PAGES);
KNOB(parallel_batches, 0, 1);

static ssize_t min_helper_kb_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	unsigned int kb = READ_ONCE(migrate_copy_min_helper_kb);

	if (kb == MIGRATE_COPY_AUTO)
		return sysfs_emit(buf, "auto\n");
	return sysfs_emit(buf, "%u\n", kb);
}

static ssize_t min_helper_kb_store(struct kobject *kobj,
				   struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	if (sysfs_streq(buf, "auto")) {
		WRITE_ONCE(migrate_copy_min_helper_kb, MIGRATE_COPY_AUTO);
		return count;
	}
	return store_number(buf, count, &migrate_copy_min_helper_kb, 0,
			    MIGRATE_COPY_AUTO - 1);
}

static struct kobj_attribute min_helper_kb_attr = __ATTR_RW(min_helper_kb);

/* A knob whose values have names. */
#define CHOICE(_name)							\
static ssize_t _name##_show(struct kobject *kobj,			\
			    struct kobj_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, "%s\n",					\
			  _name##_names[READ_ONCE(migrate_copy_##_name)]); \
}									\
static ssize_t _name##_store(struct kobject *kobj,			\
			     struct kobj_attribute *attr,		\
			     const char *buf, size_t count)		\
{									\
	int choice = sysfs_match_string(_name##_names, buf);		\
									\
	if (choice < 0)							\
		return choice;						\
	WRITE_ONCE(migrate_copy_##_name, choice);			\
	return count;							\
}									\
static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

static const char * const placement_names[] = {
	[MIGRATE_COPY_SPREAD]	= "spread",
	[MIGRATE_COPY_FILL]	= "fill",
};

static const char * const priority_names[] = {
	[MIGRATE_COPY_NORMAL]	= "normal",
	[MIGRATE_COPY_HIGH]	= "high",
};

CHOICE(placement);
CHOICE(priority);

static ssize_t reasons_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return migrate_copy_reasons_print(buf);
}

static ssize_t reasons_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	return migrate_copy_reasons_parse(buf) ?: count;
}

static struct kobj_attribute reasons_attr = __ATTR_RW(reasons);

static ssize_t non_temporal_show(struct kobject *kobj,
				 struct kobj_attribute *attr, char *buf)
{
	return migrate_copy_nontemporal_print(buf);
}

static ssize_t non_temporal_store(struct kobject *kobj,
				  struct kobj_attribute *attr, const char *buf,
				  size_t count)
{
	return migrate_copy_nontemporal_parse(buf) ?: count;
}

static struct kobj_attribute non_temporal_attr = __ATTR_RW(non_temporal);

static struct attribute *knob_attrs[] = {
	&enabled_attr.attr,
	&max_helpers_attr.attr,
	&min_helper_kb_attr.attr,
	&chunk_kb_attr.attr,
	&batch_pages_attr.attr,
	&parallel_batches_attr.attr,
	&placement_attr.attr,
	&priority_attr.attr,
	&reasons_attr.attr,
	&non_temporal_attr.attr,
	NULL
};

static const struct attribute_group knob_group = {
	.attrs = knob_attrs,
};

#define COST(_name)							\
static ssize_t _name##_ns_show(struct kobject *kobj,			\
			       struct kobj_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, "%u\n",					\
			  READ_ONCE(migrate_copy_costs._name##_ns));	\
}									\
static struct kobj_attribute _name##_ns_attr = __ATTR_RO(_name##_ns)

COST(copy_page);
COST(helper_call);
COST(helper_start);

static ssize_t calibrate_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	migrate_copy_calibrate();
	return count;
}

static struct kobj_attribute calibrate_attr = __ATTR_WO(calibrate);

static struct attribute *cost_attrs[] = {
	&copy_page_ns_attr.attr,
	&helper_call_ns_attr.attr,
	&helper_start_ns_attr.attr,
	&calibrate_attr.attr,
	NULL
};

static const struct attribute_group cost_group = {
	.name = "costs",
	.attrs = cost_attrs,
};

static const struct attribute_group *groups[] = {
	&knob_group,
	&cost_group,
	NULL
};

static int __init migrate_copy_sysfs_init(void)
{
	struct kobject *kobj;
	int err;

	kobj = kobject_create_and_add("migrate_copy", mm_kobj);
	if (!kobj)
		return -ENOMEM;

	err = sysfs_create_groups(kobj, groups);
	if (!err)
		err = migrate_copy_engines_init(kobj);
	if (err)
		kobject_put(kobj);
	return err;
}

static int __init migrate_copy_init(void)
{
	int err;

	/* Others may come online: only those that are there are asked. */
	migrate_copy_max_helpers = min(num_possible_cpus() - 1,
				       DEFAULT_MAX_HELPERS);
	if (migrate_copy_helpers_init())
		pr_warn("migrate_copy: no workqueue, copying without helpers\n");

	migrate_copy_calibrate();
	migrate_copy_sysctl_init();
	err = migrate_copy_sysfs_init();
	if (err) {
		pr_err("migrate_copy: no sysfs directory (%d), staying off\n",
		       err);
		return err;
	}
	static_branch_enable(&migrate_copy_key);
	return 0;
}
late_initcall(migrate_copy_init);
