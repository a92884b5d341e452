// SPDX-License-Identifier: GPL-2.0-only
/*
 * For which requests several CPUs may be used, and which: vm.mt_page_copy, and
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

/**
 * migrate_copy_may_share() - May several CPUs work for a request?
 * @reason: Its migrate_reason.
 * @asked: What it asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * A real-time task waits for no ordinary one, which a helper is: it has no help, but
 * where that is asked for. The caller of this is who would have it.
 *
 * Context: Process context.
 * Return: true if helpers may be woken, provided that it is worth it.
 */
bool migrate_copy_may_share(int reason, unsigned int asked)
{
	unsigned int mt = READ_ONCE(migrate_copy_mt_page_copy);

	return asked & MIGRATE_MT || mt == MIGRATE_COPY_MT_ALWAYS ||
	       (mt == MIGRATE_COPY_MT_AUTO && READ_ONCE(migrate_copy_reasons) & BIT(reason) &&
		!rt_or_dl_task(current));
}

/**
 * migrate_copy_is_highpri() - May busy CPUs be used for a request, too?
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
 * That the administrator allows no help is nothing that a flag can change, unless
 * the caller may change priorities at will. A caller with a priority above all
 * ordinary tasks then has it for its helpers, too. A raised RLIMIT_NICE is not
 * enough: it counts among the tasks of a cgroup, but helpers are not bound by the
 * weight of that cgroup.
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
 * migrate_copy_helpers_for() - How many helpers are worth it.
 * @nr_folios: The folios that they move; 0 if they only copy.
 * @nr_pages: The base pages of them.
 * @max_helpers: The most that may be woken.
 *
 * min_helper_kb is a bound for what is only copied, set by somebody who knows
 * better than the costs.
 *
 * Context: Any.
 * Return: 0 to @max_helpers.
 */
unsigned int migrate_copy_helpers_for(unsigned long nr_folios,
				      unsigned long nr_pages,
				      unsigned int max_helpers)
{
	unsigned int min_kb = READ_ONCE(migrate_copy_min_helper_kb);
	struct migrate_copy_costs costs;

	if (READ_ONCE(migrate_copy_mt_page_copy) == MIGRATE_COPY_MT_ALWAYS)
		return max_helpers;
	if (!nr_folios && min_kb != MIGRATE_COPY_AUTO)
		return nr_pages * (PAGE_SIZE / SZ_1K) < min_kb ? 0 : max_helpers;

	/* They may be measured again at the same time. */
	costs = data_race(migrate_copy_costs);
	return migrate_copy_best_helpers(&costs,
					 migrate_copy_cost(nr_folios, nr_pages),
					 max_helpers);
}
