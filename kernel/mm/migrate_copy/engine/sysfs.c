// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy engines: how they come and go, and their directories in
 * /sys/kernel/mm/migrate_copy/engines/.
 */
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/kstrtox.h>
#include <linux/migrate.h>
#include <linux/slab.h>

#include "engine.h"

#define DEFAULT_MIN_KB		64
#define DEFAULT_CHUNK_KB	512
#define DEFAULT_TIMEOUT_MS	100
#define MAX_TIMEOUT_MS		10000

/* On while there is an engine that jobs may use. */
DEFINE_STATIC_KEY_FALSE(migrate_copy_offload_key);
/* On while an engine is registered: something may be in quarantine. */
DEFINE_STATIC_KEY_FALSE(migrate_copy_engine_key);

/* Of registered engines; read under SRCU, changed under the mutex. */
LIST_HEAD(copy_engines);
DEFINE_SRCU(copy_engines_srcu);

static struct kobject *engines_kobj;
static DEFINE_MUTEX(engines_lock);

static struct migrate_copy_engine *to_engine(struct kobject *kobj)
{
	return container_of(kobj, struct migrate_copy_engine, kobj);
}

/* No engine would take these folios: say so to each. */
static void engines_refuse(int reason, unsigned long pages)
{
	struct migrate_copy_engine *engine;

	list_for_each_entry_srcu(engine, &copy_engines, node,
				 srcu_read_lock_held(&copy_engines_srcu)) {
		if (READ_ONCE(engine->use->offloading)) {
			copy_engine_count(engine, ENGINE_REFUSED, 1);
			copy_engine_suits(engine, reason, pages, true);
		}
	}
}

/**
 * __migrate_copy_may_offload() - Is there an engine for such folios?
 * @reason: The migrate_reason.
 * @src_folios: The folios, linked by their lru; NULL for a large one.
 *
 * Context: Any.
 * Return: true if so: one to which it is worth to hand them over.
 */
bool __migrate_copy_may_offload(int reason, const struct list_head *src_folios)
{
	unsigned long folios = 0, pages = 0;
	struct migrate_copy_engine *engine;
	struct folio *folio;
	bool may = false;
	int idx;

	if (src_folios) {
		list_for_each_entry(folio, src_folios, lru) {
			folios++;
			pages += folio_nr_pages(folio);
		}
	}
	idx = srcu_read_lock(&copy_engines_srcu);
	list_for_each_entry_srcu(engine, &copy_engines, node,
				 srcu_read_lock_held(&copy_engines_srcu))
		may |= copy_engine_is_for(engine, reason) &&
		       (copy_engine_alone(engine) || !copy_engine_costly(engine, folios, pages));
	/* Else it is only asked what would be. */
	if (!may && src_folios)
		engines_refuse(reason, pages);
	srcu_read_unlock(&copy_engines_srcu, idx);
	return may;
}

/**
 * migrate_copy_engine_enable() - Let jobs use an engine, or no longer.
 * @engine: The engine.
 * @enable: Whether.
 *
 * Jobs in flight are not affected. What was learned of its speed is forgotten: it
 * is switched on again once something has been mended.
 *
 * Context: Process context, may sleep.
 */
void migrate_copy_engine_enable(struct migrate_copy_engine *engine, bool enable)
{
	guard(mutex)(&engines_lock);
	if (engine->use->offloading == enable || (enable && engine->leaving))
		return;
	if (enable) {
		migrate_copy_rooms_alloc();
		copy_engine_forget(engine);
		static_branch_inc(&migrate_copy_offload_key);
	} else {
		static_branch_dec(&migrate_copy_offload_key);
	}
	WRITE_ONCE(engine->use->offloading, enable);
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_enable);

static ssize_t offloading_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_engine(kobj)->use->offloading));
}

static ssize_t offloading_store(struct kobject *kobj, struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	unsigned int enable;

	if (kstrtouint(buf, 10, &enable) || enable > 1)
		return -EINVAL;
	migrate_copy_engine_enable(to_engine(kobj), enable);
	return count;
}

static struct kobj_attribute offloading_attr = __ATTR_RW(offloading);

static ssize_t reasons_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return migrate_copy_reasons_print(READ_ONCE(to_engine(kobj)->use->reasons), buf);
}

static ssize_t reasons_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	return migrate_copy_reasons_parse(buf, &to_engine(kobj)->use->reasons) ?: count;
}

static struct kobj_attribute reasons_attr = __ATTR_RW(reasons);

/**
 * struct engine_knob - a number of an engine that can be set
 * @attr: Its attribute.
 * @offset: Where it is in the engine.
 * @min: Its smallest value.
 * @max: Its largest value.
 */
struct engine_knob {
	struct kobj_attribute attr;
	size_t offset;
	unsigned int min;
	unsigned int max;
};

static ssize_t knob_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct engine_knob *knob = container_of(attr, struct engine_knob, attr);
	unsigned int *place = (void *)to_engine(kobj) + knob->offset;

	return sysfs_emit(buf, "%u\n", READ_ONCE(*place));
}

static ssize_t knob_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	struct engine_knob *knob = container_of(attr, struct engine_knob, attr);
	unsigned int *place = (void *)to_engine(kobj) + knob->offset;
	unsigned int value;

	if (kstrtouint(buf, 10, &value) || value < knob->min || value > knob->max)
		return -EINVAL;
	WRITE_ONCE(*place, value);
	return count;
}

#define KNOB(_name, _min, _max) {					\
	.attr = { .attr = { #_name, 0644 },				\
		  .show = knob_show, .store = knob_store },		\
	offsetof(struct migrate_copy_engine, _name), _min, _max		\
}

static struct engine_knob knobs[] = {
	KNOB(exclusive, 0, 1),
	KNOB(min_kb, 0, UINT_MAX),
	KNOB(chunk_kb, MIGRATE_COPY_MIN_CHUNK_KB, MIGRATE_COPY_MAX_CHUNK_KB),
	KNOB(timeout_ms, 1, MAX_TIMEOUT_MS),
};

static struct attribute *engine_attrs[] = {
	&offloading_attr.attr,
	&reasons_attr.attr,
	&knobs[0].attr.attr,
	&knobs[1].attr.attr,
	&knobs[2].attr.attr,
	&knobs[3].attr.attr,
	NULL
};

static const struct attribute_group engine_group = {
	.attrs = engine_attrs,
};

static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf);

#define STAT(_name)							\
	(&((struct kobj_attribute)__ATTR(_name, 0444, stat_show, NULL)).attr)

/* What is counted, then what is known. */
static struct attribute *engine_stat_attrs[] = {
	[ENGINE_JOBS]		= STAT(jobs),
	[ENGINE_REFUSED]	= STAT(refused),
	[ENGINE_TOO_SMALL]	= STAT(too_small),
	[ENGINE_TOO_SLOW]	= STAT(too_slow),
	[ENGINE_CHUNKS]		= STAT(chunks),
	[ENGINE_BYTES]		= STAT(bytes),
	[ENGINE_FAILED]		= STAT(failed),
	[ENGINE_TIMEOUTS]	= STAT(timeouts),
	[ENGINE_LOST]		= STAT(lost),
	[ENGINE_QUARANTINED]	= STAT(quarantined),
	STAT(chunk_ns),
	STAT(chunk_pages),
	STAT(range_ns),
	NULL
};

static_assert(ARRAY_SIZE(engine_stat_attrs) == ENGINE_NR_STATS + 4);

static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct migrate_copy_engine *engine = to_engine(kobj);
	unsigned long known[] = {
		READ_ONCE(engine->chunk_ns),
		READ_ONCE(engine->chunk_pages) >> FRACTION_SHIFT,
		READ_ONCE(engine->range_ns) >> FRACTION_SHIFT,
	};
	unsigned int file = 0;

	while (engine_stat_attrs[file] != &attr->attr)
		file++;
	return sysfs_emit(buf, "%lu\n", file < ENGINE_NR_STATS ?
			  (unsigned long)atomic_long_read(&engine->stats[file]) :
			  known[file - ENGINE_NR_STATS]);
}

static const struct attribute_group engine_stat_group = {
	.name = "stats",
	.attrs = engine_stat_attrs,
};

static const struct attribute_group *engine_groups[] = {
	&engine_group,
	&engine_stat_group,
	NULL
};

static void engine_release(struct kobject *kobj)
{
	kfree(to_engine(kobj));
}

static const struct kobj_type engine_ktype = {
	.release = engine_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = engine_groups,
};

static int engine_add(struct migrate_copy_engine *engine)
{
	struct migrate_copy_engine *other;
	int err = -ENODEV;

	guard(mutex)(&engines_lock);
	list_for_each_entry(other, &copy_engines, node)
		if (!strcmp(other->desc->name, engine->desc->name))
			return -EEXIST;
	if (engines_kobj)
		err = kobject_add(&engine->kobj, engines_kobj, "%s", engine->desc->name);
	if (!err)
		err = sysfs_create_groups(&engine->kobj, engine->desc->groups);
	if (!err) {
		static_branch_inc(&migrate_copy_engine_key);
		list_add_tail_rcu(&engine->node, &copy_engines);
	} else {
		/* Somebody may have found it in sysfs already. */
		WRITE_ONCE(engine->leaving, true);
	}
	return err;
}

/**
 * migrate_copy_engine_register() - Make an engine known.
 * @desc: Its description. Must stay until it is unregistered.
 * @priv: Passed to its operations.
 *
 * Jobs use it when the administrator says so, in its directory in sysfs.
 * Attributes in desc->groups can be accessed before this returns.
 *
 * Context: Process context, may sleep.
 * Return: The engine, or an error pointer: -EINVAL for a description that is not
 * complete, -EEXIST for a name that is taken, -ENOMEM, -ENODEV without sysfs.
 */
struct migrate_copy_engine *
migrate_copy_engine_register(const struct migrate_copy_engine_desc *desc, void *priv)
{
	struct migrate_copy_engine *engine;
	int err;

	if (!desc->name || !*desc->name || strchr(desc->name, '/') ||
	    !desc->ops || !desc->ops->start || !desc->ops->end)
		return ERR_PTR(-EINVAL);

	engine = kzalloc_obj(*engine);
	if (!engine)
		return ERR_PTR(-ENOMEM);

	engine->desc = desc;
	engine->priv = priv;
	engine->min_kb = DEFAULT_MIN_KB;
	engine->chunk_kb = DEFAULT_CHUNK_KB;
	engine->timeout_ms = DEFAULT_TIMEOUT_MS;
	engine->own_use.reasons = ULONG_MAX;
	engine->use = desc->use ?: &engine->own_use;
	kobject_init(&engine->kobj, &engine_ktype);
	err = engine_add(engine);
	if (err) {
		kobject_put(&engine->kobj);
		return ERR_PTR(err);
	}
	return engine;
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_register);

/**
 * migrate_copy_engine_unregister() - Forget an engine.
 * @engine: The engine. Gone when this returns.
 *
 * Every lost chunk must be declared stopped, before this or while it waits.
 *
 * Context: Process context; not from an attribute of the engine. Sleeps until
 * the jobs in flight, its directory in sysfs and the quarantine have no more
 * use for it.
 */
void migrate_copy_engine_unregister(struct migrate_copy_engine *engine)
{
	atomic_long_t *quarantined = &engine->stats[ENGINE_QUARANTINED];

	WRITE_ONCE(engine->leaving, true);
	/* Ends what goes on in sysfs, which may need engines_lock. */
	kobject_del(&engine->kobj);
	migrate_copy_engine_enable(engine, false);
	scoped_guard(mutex, &engines_lock)
		list_del_rcu(&engine->node);

	synchronize_srcu(&copy_engines_srcu);
	wait_var_event(quarantined, !atomic_long_read(quarantined));
	static_branch_dec(&migrate_copy_engine_key);
	kobject_put(&engine->kobj);
}
EXPORT_SYMBOL_GPL(migrate_copy_engine_unregister);

/**
 * migrate_copy_engines_init() - Make room for engines.
 * @parent: The directory of the migration copy in sysfs.
 *
 * Context: Boot, may sleep.
 * Return: 0, or -ENOMEM.
 */
int __init migrate_copy_engines_init(struct kobject *parent)
{
	engines_kobj = kobject_create_and_add("engines", parent);
	return engines_kobj ? 0 : -ENOMEM;
}
