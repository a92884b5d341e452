// SPDX-License-Identifier: GPL-2.0-only
/*
 * The knobs in /sys/kernel/mm/migrate_copy/, and initialization.
 * Documentation/admin-guide/mm/migrate_copy.rst describes the knobs.
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

/* The most that has been measured; the limit is MIGRATE_COPY_MAX_HELPERS. */
#define DEFAULT_MAX_HELPERS	31

unsigned int migrate_copy_max_helpers;

/* The reasons that a request can have. */
#define NR_REASONS	(MR_DAMON + 1)
#define ALL_REASONS	GENMASK(NR_REASONS - 1, 0)

/*
 * Helpers could only copy for compaction, whose free list belongs to the caller:
 * that saves a tenth of its time, for 2.5 times the CPU time.
 */
unsigned long migrate_copy_reasons = ALL_REASONS & ~BIT(MR_COMPACTION);

static const char * const priority_names[] = {
	[MIGRATE_COPY_NORMAL]	= "normal",
	[MIGRATE_COPY_HIGH]	= "high",
};

static const char * const placement_names[] = {
	[MIGRATE_COPY_SPREAD]	= "spread",
	[MIGRATE_COPY_FILL]	= "fill",
};

static const char * const non_temporal_names[] = {
	[MIGRATE_COPY_NT_NEVER]		= "never",
	[MIGRATE_COPY_NT_DEMOTION]	= "demotion",
	[MIGRATE_COPY_NT_FAR]		= "far",
	[MIGRATE_COPY_NT_ALWAYS]	= "always",
};

/* A file for a number. Other files have functions of their own. */
struct knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
	const char * const *names;	/* Names of the values, or NULL */
};

static ssize_t knob_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	const struct knob *knob = container_of(attr, struct knob, attr);
	unsigned int value = READ_ONCE(*knob->value);

	if (knob->names)
		return sysfs_emit(buf, "%s\n", knob->names[value]);
	return sysfs_emit(buf, "%u\n", value);
}

/* Set the value; if the text is invalid, change nothing. */
static ssize_t knob_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	const struct knob *knob = container_of(attr, struct knob, attr);
	unsigned int value;

	if (knob->names)
		value = __sysfs_match_string(knob->names, knob->max + 1, buf);
	else if (kstrtouint(buf, 10, &value))
		return -EINVAL;
	/* An unknown name is a negative number, and thus above the maximum. */
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
	if (enable) {
		migrate_copy_helpers_start();
		static_branch_enable(&migrate_copy_key);
	} else {
		static_branch_disable(&migrate_copy_key);
	}
	return count;
}

/**
 * migrate_copy_reasons_print() - Print the names of reasons.
 * @reasons: One bit for each migrate_reason.
 * @buf: The sysfs buffer.
 *
 * Context: Any.
 * Return: The length.
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
 * migrate_copy_reasons_parse() - Parse the names of reasons.
 * @buf: Names separated by white space or commas; or "all", or "none".
 * @value: Where to store one bit for each. Not changed on error.
 *
 * Context: Any.
 * Return: 0; -EINVAL for an unknown name, or if there is none.
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
			/* strchr() also finds the terminating NUL. */
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

#define KNOB(_name, _min, _max, _names) {				\
	.attr = __ATTR(_name, 0644, knob_show, knob_store),		\
	.value = &migrate_copy_##_name,					\
	.min = _min, .max = _max, .names = _names,			\
}

static struct knob knobs[] = {
	/* Must be first: migrate_copy_init() limits its max to the CPUs. */
	KNOB(max_helpers, 0, MIGRATE_COPY_MAX_HELPERS, NULL),
	KNOB(placement, 0, MIGRATE_COPY_FILL, placement_names),
	KNOB(priority, 0, MIGRATE_COPY_HIGH, priority_names),
	KNOB(non_temporal, 0, IS_ENABLED(CONFIG_X86_64) ? MIGRATE_COPY_NT_ALWAYS : 0,
	     non_temporal_names),
	{ .attr = __ATTR_RW(enabled) },
	{ .attr = __ATTR_RW(reasons) },
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
	struct kobject *kobj;
	int i, err;

	/* CPUs may come online later; only online ones are asked. */
	migrate_copy_max_helpers = min(num_possible_cpus() - 1, DEFAULT_MAX_HELPERS);
	knobs[0].max = min(num_possible_cpus(), MIGRATE_COPY_MAX_HELPERS);
	migrate_copy_helpers_init();
	register_sysctl_init("vm", migrate_copy_table);

	kobj = kobject_create_and_add("migrate_copy", mm_kobj);
	err = kobj ? 0 : -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(knobs) && !err; i++)
		err = sysfs_create_file(kobj, &knobs[i].attr.attr);
	if (!err && IS_ENABLED(CONFIG_MIGRATE_COPY_ENGINE))
		err = migrate_copy_engines_init(kobj);
	if (err) {
		pr_err("migrate_copy: no sysfs directory (%d), staying off\n", err);
		kobject_put(kobj);
		return err;
	}
	static_branch_enable(&migrate_copy_key);
	return 0;
}
late_initcall(migrate_copy_init);
