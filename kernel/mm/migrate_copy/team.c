// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teams: several CPUs that work for one request. They take pieces of it, see
 * pieces.c, and share copies.
 *
 * A helper allocates from the nodes that the caller's cpuset allows at that time,
 * and in its memalloc scopes.
 *
 * Helpers attempt a piece in MIGRATE_ASYNC mode and without I/O, so that they
 * never wait for a folio lock, for a folio's I/O, or for others to put back what
 * they have isolated: a kernel thread could not be killed out of that. What they
 * could not move, or found no memory for, they leave to the caller, who waits
 * for them at the end: a piece in the hands of a helper ends as soon as its
 * pages are migrated, or left to others.
 *
 * Real-time tasks have no team: ordinary tasks never delay what they do, but a
 * helper is one, and may lose its CPU in the middle of a batch. It does not lose
 * it in the middle of a chunk, but may before it leaves: such tasks share copies
 * only if that is asked for.
 */
#include <linux/cleanup.h>
#include <linux/cpuset.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/sched/rt.h>
#include <linux/vmstat.h>

#include "internal.h"

/*
 * The scopes that change what an allocation may do, as they are when the request
 * begins: later on, its task may reclaim memory for a while, which must not give
 * the reserves to its helpers. A helper for reclaim does not begin another
 * reclaim, which the caller would wait for.
 */
#define MEMALLOC_SCOPES	(PF_MEMALLOC | PF_MEMALLOC_NOFS | \
			 PF_MEMALLOC_NOIO | PF_MEMALLOC_PIN)

/* Allow the nodes that the caller's cpuset allows; says if others were before. */
static bool team_borrow_mems(struct task_struct *caller)
{
	nodemask_t mems;

	if (!cpusets_enabled())
		return false;
	mems = cpuset_mems_allowed(caller);
	if (nodes_equal(mems, cpuset_current_mems_allowed))
		return false;
	set_mems_allowed(mems);
	return true;
}

/* Back to the nodes of our own cpuset, which hot-plug may have changed. */
static void team_return_mems(void)
{
	nodemask_t mems, now = cpuset_mems_allowed(current);

	do {
		mems = now;
		set_mems_allowed(mems);
		now = cpuset_mems_allowed(current);
	} while (!nodes_equal(mems, now));
}

/* One piece, in the caller's context. */
static bool team_help_batch(struct migrate_copy_team *team)
{
	bool borrowed = team_borrow_mems(team->work.caller);
	unsigned int scopes;
	bool more;

	scopes = memalloc_flags_save(team->scopes | PF_MEMALLOC_NOIO);
	more = team->next_batch(team);
	memalloc_flags_restore(scopes);

	if (borrowed)
		team_return_mems();
	if (more)
		count_vm_event(MIGRATE_COPY_TEAM_BATCHES);
	return more;
}

/*
 * How long a helper waits for the next copy of a request before it leaves: longer
 * than it takes to unmap and to map what is copied at a time, less than anybody
 * would notice on a CPU that has nothing else to do.
 */
#define COPY_WAIT_NS	(100 * NSEC_PER_USEC)

/* Find a job with something left, and be counted as one of its users. */
static struct migrate_copy_job *team_join_job(struct migrate_copy_team *team)
{
	struct migrate_copy_job *job, *found = NULL;

	if (list_empty_careful(&team->jobs))
		return NULL;
	raw_spin_lock(&team->lock);
	list_for_each_entry(job, &team->jobs, node) {
		if (CURSOR_PAIR(atomic64_read(&job->cursor)) < job->nr) {
			atomic_inc(&job->users);
			found = job;
			break;
		}
	}
	raw_spin_unlock(&team->lock);
	return found;
}

/* Copy some of what is being copied; false if there is none left. */
static bool team_help_copy(struct migrate_copy_team *team)
{
	struct migrate_copy_job *job;
	unsigned long nr, sum = 0;

	/* Who waits for its users waits for the copy alone. */
	guard(preempt)();
	job = team_join_job(team);
	if (!job)
		return false;
	do {
		nr = migrate_copy_job_chunk(job);
		sum += nr;
	} while (nr && sum < job->chunk_pages);
	atomic_long_add(sum, &job->helper_pages);
	/* Pairs with migrate_copy_job_unshare(): what was copied is visible. */
	atomic_dec_return_release(&job->users);
	return true;
}

/* Put a folio that others have no time to put; false if there is none. */
static bool team_put_folio(struct migrate_copy_team *team)
{
	struct folio *folio = READ_ONCE(team->folio);

	if (!folio || cmpxchg(&team->folio, folio, NULL) != folio)
		return false;
	folio_put(folio);
	return true;
}

/* Do what can be done for others, until there has been nothing for a while. */
static bool team_help_others(struct migrate_copy_team *team)
{
	struct migrate_copy_work *work = &team->work;
	u64 since = local_clock();

	/* If nothing large is copied there will be nothing to do. */
	while (READ_ONCE(team->nr_jobs) && !READ_ONCE(work->ends) &&
	       migrate_copy_may_help(work)) {
		if (team_help_copy(team) || team_put_folio(team))
			return true;
		if (local_clock() - since > COPY_WAIT_NS)
			break;
		cpu_relax();
	}
	return false;
}

/* A step of a helper. */
static bool team_help(struct migrate_copy_work *work)
{
	struct migrate_copy_team *team =
		container_of(work, struct migrate_copy_team, work);

	return (team->next_batch && team_help_batch(team)) || team_help_others(team);
}

static void team_init(struct migrate_copy_team *team,
		      bool (*next_batch)(struct migrate_copy_team *team),
		      bool highpri)
{
	migrate_copy_work_init(&team->work, team_help);
	team->work.batches = next_batch;
	team->work.highpri = highpri;
	team->next_batch = next_batch;
	team->scopes = current->flags & MEMALLOC_SCOPES;
	team->nr_jobs = 0;
	raw_spin_lock_init(&team->lock);
	INIT_LIST_HEAD(&team->jobs);
	team->folio = NULL;
	team->started = true;
}

/**
 * migrate_copy_job_share() - Let helpers take part in a job.
 * @job: The job, freshly prepared. Must be taken back with
 *	migrate_copy_job_unshare().
 * @team: The team of the request. Its helpers take part when they have nothing
 *	better to do. If it has not been started, it gets helpers that only copy, and
 *	stay from one job to the next if that follows soon.
 * @nid: The node next to which helpers are looked for.
 * @max_helpers: Most helper CPUs to have, if they only copy.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 * Return: How many helper CPUs were woken.
 */
unsigned int migrate_copy_job_share(struct migrate_copy_job *job,
				    struct migrate_copy_team *team, int nid,
				    unsigned int max_helpers)
{
	unsigned int woken = 0;

	if (!team->started)
		team_init(team, NULL, job->highpri);
	job->nr_cpus = max_t(unsigned int, max_helpers + 1,
			     atomic_read(&team->work.busy));
	raw_spin_lock(&team->lock);
	list_add_tail(&job->node, &team->jobs);
	WRITE_ONCE(team->nr_jobs, team->nr_jobs + 1);
	raw_spin_unlock(&team->lock);
	if (team->next_batch)
		return 0;

	if (team->work.nr_cpus < max_helpers)
		woken = migrate_copy_helpers_wake(&team->work, nid, max_helpers -
						  team->work.nr_cpus);
	migrate_copy_helpers_wake_again(&team->work);
	return woken;
}

/**
 * migrate_copy_job_unshare() - Take a job back from helpers.
 * @job: The job. Of what is left of it helpers take nothing any more.
 * @team: The team that it is shared with.
 *
 * Context: Process context. Waits for the copies in flight, during which nobody is
 * preempted. What helpers have copied is visible when it returns.
 */
void migrate_copy_job_unshare(struct migrate_copy_job *job,
			      struct migrate_copy_team *team)
{
	scoped_guard(raw_spinlock, &team->lock)
		list_del(&job->node);
	while (atomic_read_acquire(&job->users))
		cpu_relax();
}

/**
 * __migrate_copy_team_put() - Let a helper that only copies put a large folio.
 * @team: The team, started.
 * @folio: The folio, in no list.
 *
 * Context: Process context.
 */
void __migrate_copy_team_put(struct migrate_copy_team *team,
			     struct folio *folio)
{
	/* Helpers take them one by one; if they are not quick, nobody waits for it. */
	if (team->next_batch || READ_ONCE(team->folio))
		folio_put(folio);
	else	/* Pairs with the full barrier in team_put_folio(). */
		smp_store_release(&team->folio, folio);
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
	    rt_or_dl_task(current) || migrate_copy_is_helper() ||
	    !migrate_copy_may_share(reason, asked))
		return 0;
	return READ_ONCE(migrate_copy_max_helpers);
}

/**
 * migrate_copy_team_wake() - Ask as many CPUs as are wanted yet.
 * @team: The team, started and not brought back.
 *
 * CPUs that were not idle before are asked now, if they are wanted, or one is asked
 * again.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 */
void migrate_copy_team_wake(struct migrate_copy_team *team)
{
	unsigned int before = team->work.nr_cpus, woken = 0;

	if (before < team->max_helpers)
		woken = migrate_copy_helpers_wake(&team->work, team->nid,
						  team->max_helpers - before);
	if (!woken) {
		migrate_copy_helpers_wake_again(&team->work);
		return;
	}
	if (!before)
		count_vm_event(MIGRATE_COPY_TEAMS);
	count_vm_events(MIGRATE_COPY_TEAM_HELPERS, woken);
}

/**
 * migrate_copy_team_start() - Let helpers take batches of a request.
 * @team: The team; must be brought back with migrate_copy_team_end().
 * @next_batch: Migrates the next batch, with locks of its own; called by
 *	several helpers at the same time, and may sleep. Returns false when there
 *	is none.
 * @nid: The node whose CPUs are asked first; NUMA_NO_NODE for none.
 * @max_helpers: The most helpers to ask.
 * @asked: What the request asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * Context: As for migrate_copy_team_wake().
 */
void migrate_copy_team_start(struct migrate_copy_team *team,
			     bool (*next_batch)(struct migrate_copy_team *team),
			     int nid, unsigned int max_helpers, unsigned int asked)
{
	team_init(team, next_batch, migrate_copy_is_highpri(asked));
	team->nid = nid;
	team->max_helpers = max_helpers;
	migrate_copy_team_wake(team);
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
	team_put_folio(team);
	team->started = false;
}
