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
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <linux/sysfs.h>

#include "internal.h"

DEFINE_STATIC_KEY_FALSE(migrate_copy_key);

/* As many as one caller has been measured with; a work can have twice as many. */
#define DEFAULT_MAX_HELPERS	31

unsigned int migrate_copy_max_helpers;
unsigned int migrate_copy_min_helper_kb = MIGRATE_COPY_AUTO;
unsigned int migrate_copy_chunk_kb = 128;
unsigned int migrate_copy_batch_pages = 512;
unsigned int migrate_copy_parallel_batches = 1;

/* Those that a request can have. */
#define NR_REASONS	(MR_DAMON + 1)
#define ALL_REASONS	GENMASK(NR_REASONS - 1, 0)

/*
 * For compaction, whose free list is the caller's, helpers could only copy: that
 * saves a tenth of its time, for 2.5 times the CPU time.
 */
unsigned long migrate_copy_reasons = ALL_REASONS & ~BIT(MR_COMPACTION);

static const char * const placement_names[] = {
	[MIGRATE_COPY_SPREAD]	= "spread",
	[MIGRATE_COPY_FILL]	= "fill",
};

static const char * const priority_names[] = {
	[MIGRATE_COPY_NORMAL]	= "normal",
	[MIGRATE_COPY_HIGH]	= "high",
};

/* A number that has a file. Those without a number have functions of their own. */
struct knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;		/* MIGRATE_COPY_AUTO: may be that, too */
	const char * const *names;	/* Of its values, or NULL */
};

static ssize_t knob_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	const struct knob *knob = container_of(attr, struct knob, attr);
	unsigned int value = READ_ONCE(*knob->value);

	if (knob->names)
		return sysfs_emit(buf, "%s\n", knob->names[value]);
	if (value == MIGRATE_COPY_AUTO)
		return sysfs_emit(buf, "auto\n");
	return sysfs_emit(buf, "%u\n", value);
}

/* Set it if the text is one of its values, else change nothing. */
static ssize_t knob_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	const struct knob *knob = container_of(attr, struct knob, attr);
	unsigned int value;

	if (knob->names)
		value = __sysfs_match_string(knob->names, knob->max + 1, buf);
	else if (knob->max == MIGRATE_COPY_AUTO && sysfs_streq(buf, "auto"))
		value = MIGRATE_COPY_AUTO;
	else if (kstrtouint(buf, 10, &value) || value == MIGRATE_COPY_AUTO)
		return -EINVAL;
	/* So is a name that it does not have: a negative number. */
	if (value < knob->min || value > knob->max)
		return -EINVAL;
	WRITE_ONCE(*knob->value, value);
	return count;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", migrate_copy_enabled());
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	static DEFINE_MUTEX(lock);
	unsigned int enable;

	if (kstrtouint(buf, 10, &enable) || enable > 1)
		return -EINVAL;

	guard(mutex)(&lock);
	if (enable)
		static_branch_enable(&migrate_copy_key);
	else
		static_branch_disable(&migrate_copy_key);
	return count;
}

/**
 * migrate_copy_reasons_print() - Write the names of reasons.
 * @reasons: One bit for each migrate_reason.
 * @buf: A page that is shown in sysfs.
 *
 * Context: Any.
 * Return: How many characters that are.
 */
ssize_t migrate_copy_reasons_print(unsigned long reasons, char *buf)
{
	unsigned int reason;
	ssize_t len = 0;

	for_each_set_bit(reason, &reasons, NR_REASONS)
		len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "",
				     migrate_reason_names[reason]);
	return len + sysfs_emit_at(buf, len, "%s\n", len ? "" : "none");
}

/**
 * migrate_copy_reasons_parse() - Read the names of reasons.
 * @buf: Names, separated by white space or commas; or "all", or "none".
 * @value: Where one bit for each goes. For a name that is not known, or no name at
 *	all, nothing is changed.
 *
 * Context: Any.
 * Return: 0, or -EINVAL.
 */
int migrate_copy_reasons_parse(const char *buf, unsigned long *value)
{
	static const char separators[] = " ,\t\n";
	const char *text = buf + strspn(buf, separators);
	unsigned long reasons = sysfs_streq(buf, "all") ? ALL_REASONS : 0;
	unsigned int reason;
	size_t len;

	if (reasons || sysfs_streq(buf, "none"))
		text = "";
	else if (!*text)
		return -EINVAL;
	for (; *text; text += strspn(text, separators)) {
		for (reason = 0; reason < NR_REASONS; reason++) {
			len = str_has_prefix(text, migrate_reason_names[reason]);
			/* The end of the text is found there, too. */
			if (len && strchr(separators, text[len]))
				break;
		}
		if (reason == NR_REASONS)
			return -EINVAL;
		reasons |= BIT(reason);
		text += len;
	}
	WRITE_ONCE(*value, reasons);
	return 0;
}

static ssize_t reasons_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return migrate_copy_reasons_print(READ_ONCE(migrate_copy_reasons), buf);
}

static ssize_t reasons_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	return migrate_copy_reasons_parse(buf, &migrate_copy_reasons) ?: count;
}

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

static ssize_t calibrate_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	migrate_copy_calibrate();
	return count;
}

#define KNOB(_name, _min, _max, _names) {				\
	.attr = __ATTR(_name, 0644, knob_show, knob_store),		\
	.value = &migrate_copy_##_name,					\
	.min = _min, .max = _max, .names = _names,			\
}

static struct knob knobs[] = {
	/* Of the first one max is less where there are fewer CPUs. */
	KNOB(max_helpers, 0, MIGRATE_COPY_MAX_HELPERS, NULL),
	KNOB(min_helper_kb, 0, MIGRATE_COPY_AUTO, NULL),
	KNOB(chunk_kb, MIGRATE_COPY_MIN_CHUNK_KB, MIGRATE_COPY_MAX_CHUNK_KB, NULL),
	KNOB(batch_pages, 512, 64 * 512, NULL),
	KNOB(parallel_batches, 0, 1, NULL),
	KNOB(placement, 0, MIGRATE_COPY_FILL, placement_names),
	KNOB(priority, 0, MIGRATE_COPY_HIGH, priority_names),
	{ .attr = __ATTR_RW(enabled) },
	{ .attr = __ATTR_RW(reasons) },
	{ .attr = __ATTR_RW(non_temporal) },
};

static struct knob costs[] = {
	{ __ATTR(copy_page_ns, 0444, knob_show, NULL), &migrate_copy_costs.copy_page_ns },
	{ __ATTR(helper_call_ns, 0444, knob_show, NULL), &migrate_copy_costs.helper_call_ns },
	{ __ATTR(helper_start_ns, 0444, knob_show, NULL), &migrate_copy_costs.helper_start_ns },
	{ .attr = __ATTR_WO(calibrate) },
};

static const struct ctl_table migrate_copy_table[] = {
	{
		.procname	= "mt_page_copy",
		.data		= &migrate_copy_mt_page_copy,
		.maxlen		= sizeof(migrate_copy_mt_page_copy),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_TWO,
	},
};

static int __init migrate_copy_init(void)
{
	struct kobject *kobj, *dir = NULL;
	int i, err;

	/* Others may come online: only those that are there are asked. */
	migrate_copy_max_helpers = min(num_possible_cpus() - 1, DEFAULT_MAX_HELPERS);
	knobs[0].max = min(num_possible_cpus(), MIGRATE_COPY_MAX_HELPERS);
	migrate_copy_helpers_init();
	migrate_copy_calibrate();
	register_sysctl_init("vm", migrate_copy_table);

	kobj = kobject_create_and_add("migrate_copy", mm_kobj);
	if (kobj)
		dir = kobject_create_and_add("costs", kobj);
	err = dir ? 0 : -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(knobs) && !err; i++)
		err = sysfs_create_file(kobj, &knobs[i].attr.attr);
	for (i = 0; i < ARRAY_SIZE(costs) && !err; i++)
		err = sysfs_create_file(dir, &costs[i].attr.attr);
	if (!err)
		err = migrate_copy_engines_init(kobj);
	if (err) {
		pr_err("migrate_copy: no sysfs directory (%d), staying off\n", err);
		kobject_put(dir);
		kobject_put(kobj);
		return err;
	}
	static_branch_enable(&migrate_copy_key);
	return 0;
}
late_initcall(migrate_copy_init);
