// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teams: several CPUs that take whole batches of one migrate_pages() request,
 * each through unmap, flush, copy and move.
 *
 * A helper migrates as the caller would: it allocates in the same memalloc
 * scopes and from the nodes that the caller's cpuset allows. Which callbacks
 * can bear to be called by other CPUs, at the same time, only those who pass
 * them know: they say so by MIGRATE_ANY_CPU.
 *
 * Helpers attempt a batch in MIGRATE_ASYNC mode, so that they never wait for a
 * folio lock or for I/O on a folio. What they could not move they leave to the
 * caller, who waits for them at the end: a batch in the hands of a helper ends
 * as soon as its pages are migrated.
 */
#include <linux/cpuset.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "internal.h"

/* The scopes that change what an allocation may do. */
#define MEMALLOC_SCOPES	(PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO | PF_MEMALLOC_PIN)

/* A step of a helper: one batch, in the caller's context. */
static bool help_batch(struct migrate_copy_work *work)
{
	struct migrate_copy_team *team =
		container_of(work, struct migrate_copy_team, work);
	bool borrow = !nodes_equal(cpuset_current_mems_allowed,
				   team->mems_allowed);
	unsigned int scopes;
	bool more;

	if (borrow)
		set_mems_allowed(team->mems_allowed);
	scopes = memalloc_flags_save(team->flags);

	more = team->next_batch(team);

	memalloc_flags_restore(scopes);
	if (borrow)
		set_mems_allowed(cpuset_mems_allowed(current));

	if (more)
		migrate_copy_stat_add(MIGRATE_COPY_TEAM_BATCHES, 1);
	return more;
}

/**
 * migrate_copy_team_size() - How many helpers may take batches of a request.
 * @reason: The migrate_reason of the request.
 * @asked: Whether the request asks for several CPUs.
 *
 * Context: Process context.
 * Return: The most helpers to ask for; 0 when the feature is off or not for
 * this request, and in reclaim, which must not wait for the allocations of
 * others.
 */
unsigned int migrate_copy_team_size(int reason, bool asked)
{
	if (!migrate_copy_enabled() ||
	    !READ_ONCE(migrate_copy_parallel_batches) ||
	    (current->flags & PF_MEMALLOC) ||
	    !migrate_copy_may_share(reason, asked))
		return 0;
	return READ_ONCE(migrate_copy_max_helpers);
}

/**
 * migrate_copy_team_start() - Let helpers take batches of a request.
 * @team: The team; must be brought back with migrate_copy_team_end().
 * @next_batch: Migrates the next batch, with locks of its own; called by
 *	several helpers at the same time, and may sleep. Returns false when there
 *	is none.
 * @nid: The node whose CPUs are asked first; NUMA_NO_NODE for none.
 * @max_helpers: The most helpers to ask.
 *
 * Context: Process context. Takes no lock that reclaim may hold, allocates
 * nothing.
 */
void migrate_copy_team_start(struct migrate_copy_team *team,
			     bool (*next_batch)(struct migrate_copy_team *team),
			     int nid, unsigned int max_helpers)
{
	unsigned int cookie, woken;

	migrate_copy_work_init(&team->work, help_batch, true);
	team->next_batch = next_batch;
	team->flags = current->flags & MEMALLOC_SCOPES;
	do {
		cookie = read_mems_allowed_begin();
		team->mems_allowed = cpuset_current_mems_allowed;
	} while (read_mems_allowed_retry(cookie));

	woken = migrate_copy_helpers_wake(&team->work, nid, max_helpers);
	migrate_copy_stat_add(MIGRATE_COPY_TEAMS, 1);
	migrate_copy_stat_add(MIGRATE_COPY_TEAM_HELPERS, woken);
}

/**
 * migrate_copy_team_end() - Bring a team back.
 * @team: The team. No batch may be left to take.
 *
 * Context: Process context, may sleep until the batches in flight have ended.
 * What the helpers did is visible when it returns.
 */
void migrate_copy_team_end(struct migrate_copy_team *team)
{
	migrate_copy_helpers_retract(&team->work);
}
