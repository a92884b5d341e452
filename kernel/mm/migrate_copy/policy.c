// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which requests may use several CPUs, and whether busy ones: vm.mt_page_copy, and
 * reasons and priority in /sys/kernel/mm/migrate_copy/.
 */
#include <linux/bits.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/user_namespace.h>

#include "internal.h"

unsigned int migrate_copy_mt_page_copy = MIGRATE_COPY_MT_AUTO;
unsigned int migrate_copy_priority = MIGRATE_COPY_NORMAL;

/*
 * The scheduler declares this only for itself. It is needed here because
 * workers run in the root cgroup, where the caller's limit does not apply.
 */
#ifdef CONFIG_CGROUP_SCHED
bool cfs_task_bw_constrained(struct task_struct *p);
#endif

/* Does the cpu.max of any cgroup limit the current task? */
static bool bandwidth_limited(void)
{
#ifdef CONFIG_CGROUP_SCHED
	guard(rcu)();
	return cfs_task_bw_constrained(current);
#else
	return false;
#endif
}

/**
 * migrate_copy_may_share() - May several CPUs work for a request?
 * @reason: Its migrate_reason.
 * @asked: What it asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * A real-time task must not wait for an ordinary one, such as a helper, so it
 * gets help only on request, and only with copies (see team.c). A task under a
 * bandwidth limit never gets any.
 *
 * Context: Process context.
 * Return: true if helpers may be woken, provided that they pay off.
 */
bool migrate_copy_may_share(int reason, unsigned int asked)
{
	unsigned int mt = READ_ONCE(migrate_copy_mt_page_copy);

	if (bandwidth_limited())
		return false;
	return asked & MIGRATE_MT || mt == MIGRATE_COPY_MT_ALWAYS ||
	       (mt == MIGRATE_COPY_MT_AUTO && READ_ONCE(migrate_copy_reasons) & BIT(reason) &&
		!rt_or_dl_task(current));
}

/**
 * migrate_copy_is_highpri() - May a request use busy CPUs, too?
 * @asked: What it asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * Context: Any.
 * Return: true if helpers may take CPUs from other tasks.
 */
bool migrate_copy_is_highpri(unsigned int asked)
{
	return asked & MIGRATE_HIGHPRI ||
	       READ_ONCE(migrate_copy_priority) == MIGRATE_COPY_HIGH;
}

/**
 * __migrate_copy_asked() - What MPOL_MF_MOVE_MT asks migrate_pages() for.
 *
 * The flag overrides the administrator's settings only if the caller may change
 * priorities at will. If such a caller has a priority above that of all
 * ordinary tasks, so do its helpers. A raised RLIMIT_NICE is not enough: it
 * ranks tasks within a cgroup, whose weight does not bind helpers.
 *
 * Context: Process context.
 * Return: Flags to be added to the migrate_mode.
 */
unsigned int __migrate_copy_asked(void)
{
	if (!ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE))
		return 0;
	if (task_nice(current) < 0 || rt_or_dl_task_policy(current))
		return MIGRATE_MT | MIGRATE_HIGHPRI;
	return MIGRATE_MT;
}

/**
 * migrate_copy_helpers_for() - How many helpers pay off?
 * @nr_folios: The folios that they move; 0 if they only copy.
 * @nr_pages: Their base pages.
 * @max_helpers: The most that may be woken.
 *
 * Context: Any.
 * Return: 0 to @max_helpers.
 */
unsigned int migrate_copy_helpers_for(unsigned long nr_folios,
				      unsigned long nr_pages,
				      unsigned int max_helpers)
{
	if (READ_ONCE(migrate_copy_mt_page_copy) == MIGRATE_COPY_MT_ALWAYS)
		return max_helpers;
	return migrate_copy_best_helpers(nr_folios, nr_pages, max_helpers);
}
