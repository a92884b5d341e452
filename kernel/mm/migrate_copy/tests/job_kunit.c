// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the copy job: every page is claimed once and copied right,
 * however the job is cut and whoever helps; a failure stays with its folio.
 */
#include <kunit/test.h>

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <uapi/linux/sched/types.h>

#include "../internal.h"
#include "kunit_folios.h"

/* Folio orders of the standard job: small and large, in no tidy sequence. */
static const unsigned int mixed_orders[] = { 0, 2, 0, 4, 9, 1, 0, 3, 5, 0 };

/* Orders of a job large enough that helpers have time to come. */
static const unsigned int large_orders[] = { 9, 9, 9, 9 };

/* Chunk sizes in pages: the smallest, odd ones, a folio, more than a job. */
static const unsigned int chunk_sizes[] = { 1, 3, 7, 32, 512, 5000 };

/* Chunks that overlap would add up to more than the job. */
static bool claimed_once(const struct folio_set *set,
			 const struct migrate_copy_job *job)
{
	return job->caller_pages + atomic_long_read(&job->helper_pages) ==
	       set->pages;
}

static void run_with_helpers(struct migrate_copy_job *job,
			     unsigned int max_helpers)
{
	struct migrate_copy_team team = {};

	migrate_copy_job_run(job, &team, 0, max_helpers);
	migrate_copy_team_end(&team);
}

static void expect_all_copied(struct kunit *test, const struct folio_set *set,
			      const struct migrate_copy_job *job)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, job->failed);
	KUNIT_EXPECT_TRUE(test, claimed_once(set, job));
	for (i = 0; i < set->nr; i++)
		KUNIT_EXPECT_TRUE_MSG(test, copy_test_same(&set->pairs[i]),
				      "pair %u of %u, chunks of %u pages", i,
				      set->nr, job->chunk_pages);
}

/* Chunks have the size asked for, add up to the job, and end. */
static void claims_cover_job(struct kunit *test)
{
	struct folio_set *set = copy_test_alloc(test, mixed_orders,
						ARRAY_SIZE(mixed_orders));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(chunk_sizes); i++) {
		unsigned long left = set->pages;
		struct migrate_copy_job job;

		copy_test_fill(set, i);
		migrate_copy_job_init(&job, set->pairs, set->nr, chunk_sizes[i],
				      i % 2);
		while (left) {
			unsigned long want = min_t(unsigned long, left,
						   chunk_sizes[i]);
			unsigned long nr;

			preempt_disable();
			nr = migrate_copy_job_chunk(&job);
			preempt_enable();
			KUNIT_ASSERT_EQ(test, want, nr);
			job.caller_pages += nr;
			left -= nr;
		}
		preempt_disable();
		left = migrate_copy_job_chunk(&job);
		preempt_enable();
		KUNIT_EXPECT_EQ(test, 0, left);
		expect_all_copied(test, set, &job);
	}
}

static void zero_helpers(struct kunit *test)
{
	struct folio_set *set = copy_test_alloc(test, mixed_orders,
						ARRAY_SIZE(mixed_orders));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(chunk_sizes); i++) {
		struct migrate_copy_job job;
		unsigned long woken;

		copy_test_fill(set, i);
		migrate_copy_job_init(&job, set->pairs, set->nr, chunk_sizes[i],
				      i % 2);
		woken = migrate_copy_job_run(&job, NULL, NUMA_NO_NODE, 0);
		KUNIT_EXPECT_EQ(test, 0, woken);
		KUNIT_EXPECT_EQ(test, 0, atomic_long_read(&job.helper_pages));
		expect_all_copied(test, set, &job);
	}
}

/* Helpers come and do part of the work, sooner or later. */
static void helpers_take_part(struct kunit *test)
{
	struct folio_set *set = copy_test_alloc(test, large_orders,
						ARRAY_SIZE(large_orders));
	unsigned long helped = 0;
	unsigned int i;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");

	for (i = 0; i < 200 && !helped; i++) {
		struct migrate_copy_job job;

		copy_test_fill(set, i);
		migrate_copy_job_init(&job, set->pairs, set->nr, 4, true);
		run_with_helpers(&job, num_possible_cpus());
		expect_all_copied(test, set, &job);
		helped = atomic_long_read(&job.helper_pages);
		KUNIT_EXPECT_LE(test, helped, set->pages);
		/* Let the other CPUs go idle. */
		schedule_timeout_uninterruptible(1);
	}
	KUNIT_EXPECT_GT(test, helped, 0);
}

/* A job of one page has one chunk; every other helper finds none. */
static void more_helpers_than_chunks(struct kunit *test)
{
	static const unsigned int orders[] = { 0 };
	struct folio_set *set = copy_test_alloc(test, orders, 1);
	unsigned int i;

	for (i = 0; i < 500; i++) {
		struct migrate_copy_job job;

		copy_test_fill(set, i);
		migrate_copy_job_init(&job, set->pairs, set->nr, 1, false);
		run_with_helpers(&job, num_possible_cpus());
		expect_all_copied(test, set, &job);
		KUNIT_EXPECT_LE(test, atomic_long_read(&job.helper_pages), 1);
		KUNIT_EXPECT_EQ(test, 0, atomic_read(&job.users));
	}
}

static void reset_hooks(void *unused)
{
	WRITE_ONCE(migrate_copy_test.fail_page, NULL);
	WRITE_ONCE(migrate_copy_test.any_cpu, false);
	WRITE_ONCE(migrate_copy_test.no_spin, false);
}

/* Until the test is over any CPU but the test's own may help, idle or not. */
static void need_any_cpu(struct kunit *test)
{
	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, reset_hooks, NULL));
	WRITE_ONCE(migrate_copy_test.any_cpu, true);
}

/* One page fails: its folio is marked, all others are complete. */
static void failing_chunk(struct kunit *test)
{
	struct folio_set *set = copy_test_alloc(test, mixed_orders,
						ARRAY_SIZE(mixed_orders));
	unsigned int victim, i, helpers;

	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, reset_hooks, NULL));

	for (helpers = 0; helpers <= num_possible_cpus();
	     helpers += num_possible_cpus()) {
		for (victim = 0; victim < set->nr; victim++) {
			struct folio *src = set->pairs[victim].src;
			struct migrate_copy_job job;

			copy_test_fill(set, victim);
			WRITE_ONCE(migrate_copy_test.fail_page,
				   folio_page(src, folio_nr_pages(src) / 2));
			migrate_copy_job_init(&job, set->pairs, set->nr, 3,
					      false);
			run_with_helpers(&job, helpers);

			KUNIT_EXPECT_EQ(test, BIT(victim), job.failed);
			for (i = 0; i < set->nr; i++)
				KUNIT_EXPECT_EQ_MSG(test, i != victim,
						    copy_test_same(&set->pairs[i]),
						    "pair %u, victim %u", i,
						    victim);
		}
	}
}

struct racer {
	struct folio_set *set;
	struct completion done;
	unsigned long wrong;
	unsigned long helped;
};

static int race(void *data)
{
	struct racer *racer = data;
	struct folio_set *set = racer->set;
	unsigned int round, i;

	for (round = 0; round < 100; round++) {
		/* Gone after the round: KASAN sees a helper that is late. */
		struct migrate_copy_job *job = kzalloc(sizeof(*job), GFP_KERNEL);

		if (!job) {
			racer->wrong++;
			break;
		}
		copy_test_fill(set, round);
		migrate_copy_job_init(job, set->pairs, set->nr, 1 + round % 9,
				      round % 2);
		run_with_helpers(job, num_possible_cpus());
		racer->wrong += !!job->failed + !claimed_once(set, job);
		racer->helped += atomic_long_read(&job->helper_pages);
		kfree(job);
		for (i = 0; i < set->nr; i++)
			racer->wrong += !copy_test_same(&set->pairs[i]);
	}
	complete(&racer->done);
	return 0;
}

/*
 * Jobs of several callers compete for the same helpers, which get the CPUs late
 * and lose them early; the callers sleep where they would spin.
 */
static void concurrent_jobs(struct kunit *test)
{
	struct racer *racers;
	unsigned int nr = min(num_online_cpus() + 1, 8), i;
	unsigned long helped = 0;

	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, reset_hooks, NULL));
	WRITE_ONCE(migrate_copy_test.any_cpu, true);
	WRITE_ONCE(migrate_copy_test.no_spin, true);

	racers = kunit_kcalloc(test, nr, sizeof(*racers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, racers);
	for (i = 0; i < nr; i++) {
		racers[i].set = copy_test_alloc(test, mixed_orders,
						ARRAY_SIZE(mixed_orders));
		init_completion(&racers[i].done);
	}

	for (i = 0; i < nr; i++) {
		struct task_struct *task;

		task = kthread_run(race, &racers[i], "copy-race/%u", i);
		if (IS_ERR(task)) {
			KUNIT_FAIL(test, "no thread %u: %pe", i, task);
			complete(&racers[i].done);
		}
	}
	for (i = 0; i < nr; i++) {
		wait_for_completion(&racers[i].done);
		KUNIT_EXPECT_EQ(test, 0, racers[i].wrong);
		helped += racers[i].helped;
	}
	if (num_online_cpus() > 1)
		KUNIT_EXPECT_GT(test, helped, 0);
}

/* More steps than anybody waits for. */
#define LONG_STEPS	400

struct long_work {
	struct migrate_copy_work work;
	atomic_t begun;
};

static bool long_step(struct migrate_copy_work *work)
{
	struct long_work *lw = container_of(work, struct long_work, work);

	if (atomic_inc_return(&lw->begun) > LONG_STEPS)
		return false;
	usleep_range(2000, 3000);
	return true;
}

/* Work that is taken back before it is done costs the steps in flight, no more. */
static void taken_back_early(struct kunit *test)
{
	struct long_work lw = { .begun = ATOMIC_INIT(0) };
	unsigned int woken, before, after, i;

	need_any_cpu(test);
	WRITE_ONCE(migrate_copy_test.no_spin, true);

	migrate_copy_work_init(&lw.work, long_step);
	woken = migrate_copy_helpers_wake(&lw.work, NUMA_NO_NODE,
					  num_possible_cpus());
	KUNIT_EXPECT_GT(test, woken, 0);
	for (i = 0; i < 1000 && !atomic_read(&lw.begun); i++)
		usleep_range(1000, 2000);
	before = atomic_read(&lw.begun);
	migrate_copy_helpers_retract(&lw.work);
	after = atomic_read(&lw.begun);
	KUNIT_EXPECT_GT(test, before, 0);
	/* One that has looked before has begun a step since then. */
	KUNIT_EXPECT_LE(test, after, before + woken);
	usleep_range(10000, 11000);
	KUNIT_EXPECT_EQ(test, after, atomic_read(&lw.begun));
}

struct short_work {
	struct migrate_copy_work work;
	atomic_t steps;
};

static bool short_step(struct migrate_copy_work *work)
{
	struct short_work *sw = container_of(work, struct short_work, work);

	atomic_inc(&sw->steps);
	return false;
}

static void wait_for_steps(struct kunit *test, struct short_work *sw, int nr)
{
	unsigned int i;

	for (i = 0; i < 1000 && atomic_read(&sw->work.busy) > 1; i++)
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&sw->work.busy));
	KUNIT_EXPECT_EQ(test, nr, atomic_read(&sw->steps));
}

/*
 * A helper that finds no step leaves, and its CPU can help others, while its caller
 * goes on; it can be asked again.
 */
static void left_and_asked_again(struct kunit *test)
{
	struct short_work first = { .steps = ATOMIC_INIT(0) };
	struct short_work second = { .steps = ATOMIC_INIT(0) };
	unsigned int woken;

	need_any_cpu(test);

	/* On another CPU it would find other ones, this one among them. */
	migrate_disable();
	migrate_copy_work_init(&first.work, short_step);
	woken = migrate_copy_helpers_wake(&first.work, NUMA_NO_NODE,
					  num_possible_cpus());
	KUNIT_EXPECT_GT(test, woken, 0);
	wait_for_steps(test, &first, woken);

	migrate_copy_work_init(&second.work, short_step);
	KUNIT_EXPECT_EQ(test, woken,
			migrate_copy_helpers_wake(&second.work, NUMA_NO_NODE,
						  num_possible_cpus()));
	wait_for_steps(test, &second, woken);
	migrate_copy_helpers_retract(&second.work);

	migrate_copy_helpers_wake_again(&first.work);
	wait_for_steps(test, &first, woken + 1);
	migrate_copy_helpers_retract(&first.work);
	migrate_enable();
}

/* A CPU that has left, and is asked again, is one CPU: others can still be asked. */
static void listed_once(struct kunit *test)
{
	struct short_work sw = { .steps = ATOMIC_INIT(0) };
	unsigned int round, i, j;

	need_any_cpu(test);

	migrate_copy_work_init(&sw.work, short_step);
	for (round = 1; round <= 4; round++) {
		KUNIT_EXPECT_EQ(test, 1,
				migrate_copy_helpers_wake(&sw.work,
							  NUMA_NO_NODE, 1));
		wait_for_steps(test, &sw, round);
	}
	for (i = 0; i < sw.work.nr_cpus; i++) {
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_NE(test, sw.work.cpus[i], sw.work.cpus[j]);
	}
	migrate_copy_helpers_retract(&sw.work);
}

struct policy_work {
	struct migrate_copy_work work;
	struct task_struct *task;
	bool begun, stop;
	unsigned int policy, raised_policy;
	int raised_nice;
};

/* Sleeps until it has been raised, or told to stop. */
static bool policy_step(struct migrate_copy_work *work)
{
	struct policy_work *pw = container_of(work, struct policy_work, work);
	unsigned int i;

	if (pw->task)
		return false;
	pw->task = get_task_struct(current);
	pw->policy = READ_ONCE(current->policy);
	/* Pairs with policy_of_helper(): there is a task, and its policy. */
	smp_store_release(&pw->begun, true);
	/* Longer than two ticks: those who sleep less are not raised. */
	for (i = 0; i < 100 && !READ_ONCE(pw->stop) &&
	     READ_ONCE(current->policy) == SCHED_IDLE; i++)
		msleep(30);
	pw->raised_policy = READ_ONCE(current->policy);
	pw->raised_nice = task_nice(current);
	return false;
}

static struct policy_work policy_of_helper(struct kunit *test, bool highpri)
{
	struct policy_work pw = {};
	unsigned int i;

	migrate_copy_work_init(&pw.work, policy_step);
	pw.work.highpri = highpri;
	KUNIT_EXPECT_EQ(test, 1,
			migrate_copy_helpers_wake(&pw.work, NUMA_NO_NODE, 1));
	/* Pairs with policy_step(). */
	for (i = 0; i < 1000 && !smp_load_acquire(&pw.begun); i++)
		usleep_range(1000, 2000);
	/* So long it stays what it is, if nobody raises it. */
	for (i = 0; i < 100 && atomic_read(&pw.work.busy) > 1; i++)
		usleep_range(1000, 2000);
	WRITE_ONCE(pw.stop, true);
	migrate_copy_helpers_retract(&pw.work);
	KUNIT_ASSERT_NOT_NULL(test, pw.task);
	/* It is itself again. */
	KUNIT_EXPECT_EQ(test, SCHED_NORMAL, pw.task->policy);
	KUNIT_EXPECT_EQ(test, highpri ? MIN_NICE : 0, task_nice(pw.task));
	put_task_struct(pw.task);
	return pw;
}

/*
 * A helper is SCHED_IDLE until it has not run for a tick, and then has the
 * priority of its caller; with high priority it never is.
 */
static void helpers_are_idle(struct kunit *test)
{
	static const struct {
		int nice, raised;
	} callers[] = {
		{ 5, 5 }, { -5, 0 },
	};
	struct policy_work pw;
	unsigned int i;

	need_any_cpu(test);

	for (i = 0; i < ARRAY_SIZE(callers); i++) {
		set_user_nice(current, callers[i].nice);
		pw = policy_of_helper(test, false);
		set_user_nice(current, 0);
		KUNIT_EXPECT_EQ(test, SCHED_IDLE, pw.policy);
		KUNIT_EXPECT_EQ(test, SCHED_NORMAL, pw.raised_policy);
		KUNIT_EXPECT_EQ(test, callers[i].raised, pw.raised_nice);
	}

	sched_setscheduler_nocheck(current, SCHED_IDLE, &(struct sched_param){});
	pw = policy_of_helper(test, false);
	sched_set_normal(current, 0);
	KUNIT_EXPECT_EQ(test, SCHED_IDLE, pw.raised_policy);

	pw = policy_of_helper(test, true);
	KUNIT_EXPECT_EQ(test, SCHED_NORMAL, pw.policy);
	KUNIT_EXPECT_EQ(test, MIN_NICE, pw.raised_nice);
}

static struct kunit_case job_cases[] = {
	KUNIT_CASE(claims_cover_job),
	KUNIT_CASE(zero_helpers),
	KUNIT_CASE(helpers_take_part),
	KUNIT_CASE(more_helpers_than_chunks),
	KUNIT_CASE(failing_chunk),
	KUNIT_CASE(taken_back_early),
	KUNIT_CASE(left_and_asked_again),
	KUNIT_CASE(listed_once),
	KUNIT_CASE(helpers_are_idle),
	KUNIT_CASE_SLOW(concurrent_jobs),
	{}
};

static struct kunit_suite job_suite = {
	.name = "migrate_copy_job",
	.test_cases = job_cases,
};

kunit_test_suite(job_suite);
