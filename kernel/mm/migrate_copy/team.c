// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teams: several CPUs that take whole batches of one migrate_pages() request,
 * each through unmap, flush, copy and move.
 *
 * A helper allocates from the nodes that the caller's cpuset allows at that time,
 * and in its memalloc scopes. Which callbacks can bear to be called by other
 * CPUs, at the same time, only those who pass them know: they say so by
 * MIGRATE_ANY_CPU.
 *
 * Helpers attempt a batch in MIGRATE_ASYNC mode and without I/O, so that they
 * never wait for a folio lock, for a folio's I/O, or for others to put back what
 * they have isolated: a kernel thread could not be killed out of that. What they
 * could not move, or found no memory for, they leave to the caller, who waits
 * for them at the end: a batch in the hands of a helper ends as soon as its
 * pages are migrated.
 *
 * Real-time tasks have no team: ordinary tasks never delay what they do, but a
 * helper is one, and may lose its CPU in the middle of a batch. It does not lose
 * it in the middle of a chunk, so that copies are shared with them, too.
 */
#include <linux/cpuset.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/rt.h>

#include "internal.h"

/*
 * The scopes that change what an allocation may do, as they are when the request
 * begins: later on, its task may reclaim memory for a while, which must not give
 * the reserves to its helpers. A helper for reclaim does not begin another
 * reclaim, which the caller would wait for.
 */
#define MEMALLOC_SCOPES	(PF_MEMALLOC | PF_MEMALLOC_NOFS | \
			 PF_MEMALLOC_NOIO | PF_MEMALLOC_PIN)

#ifdef CONFIG_CPUSETS
/* Allow the nodes that the caller's cpuset allows; says if others were before. */
static bool borrow_mems(struct task_struct *caller)
{
	nodemask_t mems;
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&caller->mems_allowed_seq);
		mems = caller->mems_allowed;
	} while (read_seqcount_retry(&caller->mems_allowed_seq, seq));

	if (nodes_equal(mems, current->mems_allowed))
		return false;
	set_mems_allowed(mems);
	return true;
}

/* Back to the nodes of our own cpuset, which hot-plug may change meanwhile. */
static void return_mems(void)
{
	nodemask_t mems, now = cpuset_mems_allowed(current);

	do {
		mems = now;
		set_mems_allowed(mems);
		now = cpuset_mems_allowed(current);
	} while (!nodes_equal(mems, now));
}
#else
static bool borrow_mems(struct task_struct *caller)
{
	return false;
}

static void return_mems(void)
{
}
#endif

/* A step of a helper: one batch, in the caller's context. */
static bool help_batch(struct migrate_copy_work *work)
{
	struct migrate_copy_team *team =
		container_of(work, struct migrate_copy_team, work);
	bool borrowed = borrow_mems(work->caller);
	unsigned int scopes;
	bool more;

	scopes = memalloc_flags_save(team->scopes | PF_MEMALLOC_NOIO);
	more = team->next_batch(team);
	memalloc_flags_restore(scopes);

	if (borrowed)
		return_mems();
	if (more)
		migrate_copy_stat_add(MIGRATE_COPY_TEAM_BATCHES, 1);
	return more;
}

/**
 * migrate_copy_team_size() - How many helpers may take batches of a request.
 * @reason: The migrate_reason of the request.
 * @asked: What the request asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * Context: Process context.
 * Return: The most helpers to ask for; 0 when the feature is off or not for
 * this request, or not for this task.
 */
unsigned int migrate_copy_team_size(int reason, unsigned int asked)
{
	if (!migrate_copy_enabled() ||
	    !READ_ONCE(migrate_copy_parallel_batches) ||
	    rt_or_dl_task(current) ||
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
 * @nr_folios: The folios of the request, as far as they are known.
 * @nr_pages: Their base pages.
 * @max_helpers: The most helpers to ask; less if so many are not worth it.
 * @asked: What the request asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 * Return: The number of helpers that were asked, 0 to @max_helpers.
 */
unsigned int
migrate_copy_team_start(struct migrate_copy_team *team,
			bool (*next_batch)(struct migrate_copy_team *team),
			int nid, unsigned long nr_folios,
			unsigned long nr_pages, unsigned int max_helpers,
			unsigned int asked)
{
	unsigned int woken;

	migrate_copy_work_init(&team->work, help_batch, true);
	team->work.highpri = migrate_copy_is_highpri(asked);
	team->next_batch = next_batch;
	team->scopes = current->flags & MEMALLOC_SCOPES;

	max_helpers = migrate_copy_helpers_for(nr_folios, nr_pages, max_helpers);
	woken = migrate_copy_helpers_wake(&team->work, nid, max_helpers);
	if (woken) {
		migrate_copy_stat_add(MIGRATE_COPY_TEAMS, 1);
		migrate_copy_stat_add(MIGRATE_COPY_TEAM_HELPERS, woken);
	}
	return woken;
}

/**
 * migrate_copy_team_wake_again() - There is another batch to take.
 * @team: The team, started and not brought back.
 *
 * Context: Process context. Takes no lock that reclaim may hold, allocates
 * nothing.
 */
void migrate_copy_team_wake_again(struct migrate_copy_team *team)
{
	migrate_copy_helpers_wake_again(&team->work);
}

/**
 * migrate_copy_team_end() - Bring a team back.
 * @team: The team. Batches may be left to take.
 *
 * Context: Process context, may sleep until the batches in flight have ended.
 * What the helpers did is visible when it returns.
 */
void migrate_copy_team_end(struct migrate_copy_team *team)
{
	migrate_copy_helpers_retract(&team->work);
}
