// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teams: several CPUs that work for one request. They take pieces of it (see
 * pieces.c) and share copies.
 *
 * A helper allocates from the nodes that the caller's cpuset allows at that
 * time, and within the caller's memalloc scopes.
 *
 * Helpers try a piece in MIGRATE_ASYNC mode and without I/O, so they never wait
 * for a folio lock, for a folio's I/O or for folios that others have isolated:
 * a kernel thread could not be killed out of such a wait. Folios that they
 * cannot move, or have no memory for, are left to the caller. The caller waits
 * for its helpers at the end, only until the pages of their pieces are migrated
 * or left to others.
 *
 * Real-time tasks have no team: a helper is an ordinary task that may lose its
 * CPU in the middle of a batch, and the real-time task would wait for it. It does
 * not lose the CPU in the middle of a chunk, but may before it leaves, so
 * real-time tasks share copies only on request.
 */
#include <linux/cleanup.h>
#include <linux/cpuset.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/sched/rt.h>

#include "internal.h"

/*
 * The scopes that helpers inherit, as they are when the request begins: if the
 * caller enters reclaim later on, its helpers must not get at the reserves. If
 * the request itself is part of reclaim, helpers do not start another reclaim,
 * which the caller would have to wait for.
 */
#define MEMALLOC_SCOPES	(PF_MEMALLOC | PF_MEMALLOC_NOFS | \
			 PF_MEMALLOC_NOIO | PF_MEMALLOC_PIN)

/**
 * migrate_copy_mems_of() - The nodes that a task may allocate from.
 * @task: The task, which must not go away.
 *
 * Context: Any but hard interrupts.
 * Return: The nodes that its cpuset allows.
 */
nodemask_t migrate_copy_mems_of(struct task_struct *task)
{
#ifdef CONFIG_CPUSETS
	unsigned int seq;
	nodemask_t mems;

	do {
		seq = raw_read_seqcount_begin(&task->mems_allowed_seq);
		mems = task->mems_allowed;
	} while (read_seqcount_retry(&task->mems_allowed_seq, seq));
	return mems;
#else
	return node_possible_map;
#endif
}

/* Adopt the caller's mems_allowed; returns whether that changed anything. */
static bool team_borrow_mems(struct task_struct *caller)
{
#ifdef CONFIG_CPUSETS
	nodemask_t mems;

	if (!cpusets_enabled())
		return false;
	mems = migrate_copy_mems_of(caller);
	if (nodes_equal(mems, cpuset_current_mems_allowed))
		return false;
	set_mems_allowed(mems);
	return true;
#else
	return false;
#endif
}

/* Return to the nodes of our own cpuset, which hotplug may have changed. */
static void team_return_mems(void)
{
	nodemask_t mems, now = cpuset_mems_allowed(current);

	do {
		mems = now;
		set_mems_allowed(mems);
		now = cpuset_mems_allowed(current);
	} while (!nodes_equal(mems, now));
}

/* Do a piece with the caller's allowed nodes and memalloc scopes. */
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
	return more;
}

/*
 * How long a helper waits for the next copy of a request before it leaves:
 * longer than unmapping and mapping the folios of one copy takes, too short to
 * be noticed on a CPU that is otherwise idle.
 */
#define COPY_WAIT_NS	(100 * NSEC_PER_USEC)

/* Find a job with pages left to copy, and become one of its users. */
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

/* Do part of a shared copy; false if there is nothing left to copy. */
static bool team_help_copy(struct migrate_copy_team *team)
{
	struct migrate_copy_job *job;
	unsigned long nr, sum = 0;

	/* Waiters for job->users must wait only for the copy. */
	guard(preempt)();
	job = team_join_job(team);
	if (!job)
		return false;
	do {
		nr = migrate_copy_job_chunk(job);
		sum += nr;
	} while (nr && sum < job->chunk_pages);
	atomic_long_add(sum, &job->helper_pages);
	/* Pairs with migrate_copy_job_unshare(): makes the copies visible. */
	atomic_dec_return_release(&job->users);
	return true;
}

/* Help with copies; false after a while without any. */
static bool team_help_others(struct migrate_copy_team *team)
{
	struct migrate_copy_work *work = &team->work;
	u64 since = local_clock();

	/* Without large copies there is nothing to wait for. */
	while (READ_ONCE(team->nr_jobs) && !READ_ONCE(work->ends) &&
	       migrate_copy_may_help(work)) {
		if (team_help_copy(team))
			return true;
		if (local_clock() - since > COPY_WAIT_NS)
			break;
		cpu_relax();
	}
	return false;
}

/* Do one step as a helper. */
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
	team->started = true;
}

/**
 * migrate_copy_job_share() - Let helpers take part in a job.
 * @job: The job, freshly initialized. Must be taken back with
 *	migrate_copy_job_unshare().
 * @team: The team of the request. Its helpers take part when they have no batch
 *	to do. If it has not been started, it gets helpers that only copy, and
 *	that stay for the next job if it follows soon.
 * @nid: The node near which helpers are searched.
 * @max_helpers: The most helpers to have, if they only copy.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 * Return: The number of helper CPUs woken.
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
 * @job: The job. Helpers that have not joined it no longer can.
 * @team: The team that it is shared with.
 *
 * Context: Process context. Waits for the copies in flight, which run with
 * preemption disabled. The helpers' copies are visible on return.
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
 * migrate_copy_team_size() - Limit the helpers that take batches of a request.
 * @reason: The migrate_reason of the request.
 * @asked: What the request asks for: MIGRATE_MT, MIGRATE_HIGHPRI.
 *
 * Context: Process context.
 * Return: The most helpers to ask for; 0 if the feature is off, or does not
 * apply to this request or this task.
 */
unsigned int migrate_copy_team_size(int reason, unsigned int asked)
{
	if (!migrate_copy_enabled() || !migrate_copy_may_cut() ||
	    rt_or_dl_task(current) || migrate_copy_is_helper() ||
	    !migrate_copy_may_share(reason, asked))
		return 0;
	return READ_ONCE(migrate_copy_max_helpers);
}

/**
 * migrate_copy_team_wake() - Ask the CPUs that a team still lacks.
 * @team: The team, started and not ended.
 *
 * CPUs that have become idle are asked if the team lacks any; otherwise a CPU
 * whose helper has left may be asked again.
 *
 * Context: Process context. Takes no lock under which anybody may sleep, and
 * allocates nothing.
 */
void migrate_copy_team_wake(struct migrate_copy_team *team)
{
	unsigned int asked = team->work.nr_cpus;

	if (asked >= team->max_helpers ||
	    !migrate_copy_helpers_wake(&team->work, team->nid, team->max_helpers - asked))
		migrate_copy_helpers_wake_again(&team->work);
}

/**
 * migrate_copy_team_start() - Let helpers take batches of a request.
 * @team: The team; must be ended with migrate_copy_team_end().
 * @next_batch: Migrates the next batch; does its own locking, as several
 *	helpers call it at the same time; may sleep. Returns false if there is
 *	none.
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
 * migrate_copy_team_end() - Stop the helpers of a team and wait for them.
 * @team: The team. Batches may be left.
 *
 * Context: Process context, may sleep until the batches in flight have ended.
 * The helpers' changes are visible on return.
 */
void migrate_copy_team_end(struct migrate_copy_team *team)
{
	migrate_copy_helpers_retract(&team->work);
	team->started = false;
}
