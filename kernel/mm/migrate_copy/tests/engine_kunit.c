// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the copy engines: whatever an engine does with its chunks, every
 * page is copied once, or known to be lost, and waiting is bounded.
 */
#include <kunit/test.h>

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "../../migrate.h"
#include "../internal.h"
#include "kunit_folios.h"

/* What the engine of a test can hold. */
#define MAX_CHUNKS	32
#define ORDER_256K	ilog2(SZ_256K / PAGE_SIZE)
#define ORDER_1M	ilog2(SZ_1M / PAGE_SIZE)

/* How long a job waits for an engine that does nothing. */
#define TIMEOUT_MS	20
#define TIMEOUT_NS	(TIMEOUT_MS * NSEC_PER_MSEC)
/* And for one that works, on a machine however slow. */
#define PATIENT_MS	10000

/* Folio orders of the standard job: small and large, in no tidy sequence. */
static const unsigned int mixed_orders[] = { 0, 2, 0, 4, 9, 1, 0, 3, 5, 0 };

/**
 * enum conduct - what the engine of a test does
 * @REFUSE: start() says no.
 * @IDLE: start() says yes, and claims nothing.
 * @COPY: copies everything it can claim in start().
 * @FAIL: spoils what it claims, and returns it as failed.
 * @LATE: holds what it claims until end(), and returns it as failed.
 * @LATE_COPY: as @LATE, but copies then.
 * @LOSE: loses what it claims.
 * @LOSE_BRIEFLY: as @LOSE, but the hardware stops at once.
 * @WORK: copies one chunk after the other in a work item.
 * @SLOW: as @WORK, but claims all chunks at once, and takes SLOW_MS for each.
 */
enum conduct { REFUSE, IDLE, COPY, FAIL, LATE, LATE_COPY, LOSE, LOSE_BRIEFLY, WORK, SLOW };

/* All chunks of a job take longer than the timeout, none does. */
#define SLOW_MS		80
#define SLOW_TIMEOUT_MS	250
#define SLOW_CHUNKS	4

struct fake {
	enum conduct conduct;
	unsigned long max_pages;
	unsigned long boundary_pages;
	unsigned int workers;
	u64 cpu_ns;
	struct migrate_copy_engine *engine;
	struct migrate_copy_engine_desc desc;
	struct migrate_copy_chunk chunks[MAX_CHUNKS];
	struct migrate_copy_offload *o;
	struct work_struct work;
	unsigned int held;
	unsigned int lost;
	unsigned int claims;
	unsigned int first_pages;
	unsigned int last_pages;
	unsigned int starts;
	unsigned int ends;
	unsigned int wrong;
};

static void spoil(struct migrate_copy_chunk *chunk)
{
	unsigned int i;

	for (i = 0; i < chunk->nr_ranges; i++)
		memset(page_address(chunk->ranges[i].dst), 0x5a,
		       chunk->ranges[i].nr * PAGE_SIZE);
}

static bool crosses(struct page *page, unsigned int nr, unsigned long boundary)
{
	return (page_to_pfn(page) & (boundary - 1)) + nr > boundary;
}

/* A chunk must be what was asked for, in ranges that are not empty. */
static bool proper(const struct fake *fake, const struct migrate_copy_chunk *chunk)
{
	unsigned int i, pages = 0;

	for (i = 0; i < chunk->nr_ranges; i++) {
		const struct migrate_copy_range *range = &chunk->ranges[i];

		if (!range->nr || crosses(range->dst, range->nr, fake->boundary_pages) ||
		    crosses(range->src, range->nr, fake->boundary_pages))
			return false;
		pages += range->nr;
	}
	return pages == chunk->nr_pages && pages && pages <= fake->max_pages &&
	       chunk->nr_ranges <= MIGRATE_COPY_CHUNK_RANGES;
}

static bool fake_claim(struct fake *fake, struct migrate_copy_offload *o)
{
	struct migrate_copy_chunk *chunk = &fake->chunks[fake->held];

	if (fake->held == MAX_CHUNKS ||
	    !migrate_copy_chunk_claim(o, chunk, fake->max_pages, fake->boundary_pages))
		return false;
	fake->held++;
	if (!fake->claims++)
		fake->first_pages = chunk->nr_pages;
	fake->last_pages = chunk->nr_pages;
	fake->wrong += !proper(fake, chunk);
	return true;
}

static void give_back(struct fake *fake, bool copy)
{
	struct migrate_copy_chunk *chunk = &fake->chunks[--fake->held];

	if (copy)
		migrate_copy_chunk_copy(chunk);
	else
		spoil(chunk);
	migrate_copy_chunk_return(chunk, copy);
}

static bool fake_start(void *priv, struct migrate_copy_offload *o)
{
	struct fake *fake = priv;

	fake->wrong += !o->pages || !o->folios;
	fake->starts++;
	fake->o = o;
	if (fake->conduct == REFUSE)
		return false;
	o->workers = fake->workers;
	atomic64_add(fake->cpu_ns, &o->cpu_ns);
	while (fake->conduct != IDLE && fake->conduct != WORK && fake_claim(fake, o)) {
		if (fake->conduct == COPY || fake->conduct == FAIL)
			give_back(fake, fake->conduct == COPY);
	}
	if (fake->conduct == WORK || fake->conduct == SLOW)
		schedule_work(&fake->work);
	return true;
}

static void fake_work(struct work_struct *work)
{
	struct fake *fake = container_of(work, struct fake, work);

	while (fake->conduct == SLOW ? fake->held : fake_claim(fake, fake->o)) {
		if (fake->conduct == SLOW)
			msleep(SLOW_MS);
		give_back(fake, true);
	}
}

/* The hardware of an engine that loses chunks has stopped. */
static void fake_halt(struct fake *fake)
{
	while (fake->held)
		migrate_copy_chunk_stopped(&fake->chunks[--fake->held]);
	fake->lost = 0;
}

static void fake_end(void *priv, struct migrate_copy_offload *o)
{
	struct fake *fake = priv;
	unsigned int i;

	fake->ends++;
	flush_work(&fake->work);
	while (fake->held && (fake->conduct == LATE || fake->conduct == LATE_COPY))
		give_back(fake, fake->conduct == LATE_COPY);
	/* Those of earlier jobs are lost already. */
	for (i = fake->lost; i < fake->held; i++)
		migrate_copy_chunk_lost(&fake->chunks[i]);
	fake->lost = fake->held;
	if (fake->conduct == LOSE_BRIEFLY)
		fake_halt(fake);
}

static void fake_free(void *data)
{
	struct fake *fake = data;

	fake_halt(fake);
	if (!IS_ERR_OR_NULL(fake->engine))
		migrate_copy_engine_unregister(fake->engine);
}

static struct fake *fake_alloc(struct kunit *test, const char *name, enum conduct conduct,
			       unsigned int timeout_ms)
{
	struct fake *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	fake->conduct = conduct;
	fake->max_pages = 32;
	fake->boundary_pages = MAX_FOLIO_NR_PAGES;
	fake->workers = 1;
	INIT_WORK(&fake->work, fake_work);
	fake->desc.name = name;
	fake->desc.start = fake_start;
	fake->desc.end = fake_end;
	fake->engine = migrate_copy_engine_register(&fake->desc, fake);
	KUNIT_ASSERT_FALSE(test, IS_ERR(fake->engine));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, fake_free, fake));
	migrate_copy_engine_tune(fake->engine, true, timeout_ms, ULONG_MAX);
	migrate_copy_engine_ready(fake->engine, true);
	return fake;
}

struct result {
	unsigned long failed;
	unsigned int woken;
	unsigned long engine_pages;
	unsigned long lost_pages;
	unsigned long caller_pages;
	unsigned long helper_pages;
	u64 ns;
	u64 jiffies_ns;		/* The same by jiffies, which timeouts are counted in */
};

static struct result run_job(struct folio_set *set, bool share, unsigned int max_helpers)
{
	struct migrate_copy_team team = {};
	struct migrate_copy_job job;
	struct result result;
	unsigned long began = jiffies;
	u64 start = ktime_get_ns();

	migrate_copy_job_init(&job, set->pairs, set->nr, 8, true);
	result.woken = migrate_copy_offload_run(&job, set->pages, MR_SYSCALL, share, &team,
						max_helpers);
	if (team.started)
		migrate_copy_team_end(&team);
	result.ns = ktime_get_ns() - start;
	result.jiffies_ns = jiffies_to_nsecs(jiffies - began);
	result.failed = job.failed;
	result.engine_pages = job.engine_pages;
	result.lost_pages = job.lost_pages;
	result.caller_pages = job.caller_pages;
	result.helper_pages = atomic_long_read(&job.helper_pages);
	return result;
}

static struct folio_set *standard_set(struct kunit *test)
{
	return copy_test_alloc(test, mixed_orders, ARRAY_SIZE(mixed_orders));
}

static void expect_copied(struct kunit *test, const struct folio_set *set,
			  const struct result *result)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, result->failed);
	KUNIT_EXPECT_EQ(test, 0, result->lost_pages);
	for (i = 0; i < set->nr; i++)
		KUNIT_EXPECT_TRUE_MSG(test, copy_test_same(&set->pairs[i]), "pair %u", i);
}

/* While an engine has nothing to copy with, migration does not know of it. */
static void not_ready(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY, PATIENT_MS);
	struct result result;

	KUNIT_EXPECT_TRUE(test, migrate_copy_may_offload(MR_SYSCALL));
	migrate_copy_engine_ready(fake->engine, false);
	KUNIT_EXPECT_FALSE(test, migrate_copy_may_offload(MR_SYSCALL));
	copy_test_fill(set, 1);
	result = run_job(set, true, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 0, fake->starts);

	migrate_copy_engine_unregister(fake->engine);
	fake->engine = migrate_copy_engine_register(&fake->desc, fake);
	KUNIT_ASSERT_FALSE(test, IS_ERR(fake->engine));
	migrate_copy_engine_ready(fake->engine, true);
	KUNIT_EXPECT_FALSE(test, migrate_copy_may_offload(MR_SYSCALL));
}

/* An engine gets nothing of requests that it is not used for, or of jobs that it declines. */
static void refusals(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", REFUSE, PATIENT_MS);
	struct fake *other = fake_alloc(test, "kunit-other", COPY, PATIENT_MS);
	struct result result;

	copy_test_fill(set, 1);
	result = run_job(set, true, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 1, fake->starts);
	KUNIT_EXPECT_EQ(test, 0, fake->ends);
	KUNIT_EXPECT_GT(test, other->claims, 0);
	KUNIT_EXPECT_EQ(test, 1, other->ends);

	migrate_copy_engine_tune(other->engine, true, PATIENT_MS, ~BIT(MR_SYSCALL));
	migrate_copy_engine_tune(fake->engine, true, PATIENT_MS, BIT(MR_DEMOTION));
	KUNIT_EXPECT_FALSE(test, migrate_copy_may_offload(MR_SYSCALL));
	KUNIT_EXPECT_TRUE(test, migrate_copy_may_offload(MR_DEMOTION));
	copy_test_fill(set, 2);
	result = run_job(set, true, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
	KUNIT_EXPECT_EQ(test, set->pages, result.caller_pages);
	KUNIT_EXPECT_EQ(test, 1, fake->starts);
	KUNIT_EXPECT_EQ(test, 1, other->starts);
}

/* Every page is claimed once, by the engine or by the caller, or by helpers. */
static void engine_copies(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY, PATIENT_MS);
	unsigned int max, round = 0;

	for (max = 1; max <= 1024; max = max * 2 + 1) {
		bool helpers = round % 2;
		struct result result;

		fake->max_pages = max;
		copy_test_fill(set, round++);
		result = run_job(set, true, helpers ? num_possible_cpus() : 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_GT(test, result.engine_pages, 0);
		KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages + result.caller_pages +
				result.helper_pages);
		KUNIT_EXPECT_EQ(test, round, fake->ends);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* More folios than a chunk has ranges; and ranges that end at boundaries. */
static void ranges(struct kunit *test)
{
	static const unsigned long boundaries[] = { 1, 16, 128, MAX_FOLIO_NR_PAGES };
	static const unsigned int orders[MIGRATE_COPY_SET];
	struct folio_set *small = copy_test_alloc(test, orders, ARRAY_SIZE(orders));
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY, PATIENT_MS);
	struct result result;
	unsigned int i;

	fake->max_pages = 1024;
	for (i = 0; i < ARRAY_SIZE(boundaries); i++) {
		fake->boundary_pages = boundaries[i];
		copy_test_fill(small, i);
		result = run_job(small, false, 0);
		expect_copied(test, small, &result);
		KUNIT_EXPECT_EQ(test, small->pages, result.engine_pages);

		copy_test_fill(set, i);
		result = run_job(set, false, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* A job is divided among all who copy, and chunks get smaller towards its end. */
static void fair_chunks(struct kunit *test)
{
	static const unsigned int order[] = { ORDER_1M };
	struct folio_set *set = copy_test_alloc(test, order, 1);
	struct fake *fake = fake_alloc(test, "kunit", COPY, PATIENT_MS);

	fake->max_pages = 1024;
	fake->workers = 4;
	run_job(set, false, 0);
	KUNIT_EXPECT_EQ(test, fake->first_pages, SZ_256K / PAGE_SIZE);
	KUNIT_EXPECT_LE(test, fake->last_pages, max(SZ_64K / PAGE_SIZE, 1));
	fake->claims = 0;
	fake->workers = 7;
	run_job(set, true, 0);
	KUNIT_EXPECT_EQ(test, fake->first_pages, SZ_128K / PAGE_SIZE);
}

/* What an engine spoils is copied again. */
static void failed_chunks(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", FAIL, PATIENT_MS);
	unsigned int max, round = 0;

	for (max = 1; max <= 1024; max = max * 4 + 1) {
		struct result result;

		fake->claims = 0;
		fake->max_pages = max;
		copy_test_fill(set, round++);
		result = run_job(set, round % 2, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
		KUNIT_EXPECT_GT(test, fake->claims, 0);
		KUNIT_EXPECT_LT(test, result.ns, PATIENT_MS * NSEC_PER_MSEC);
	}
}

/* A machine check in a failed chunk is that of its folio alone. */
static void failed_folio(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", FAIL, PATIENT_MS);
	struct result result;
	unsigned int i;

	copy_test_fill(set, 1);
	fake->max_pages = 1024;
	WRITE_ONCE(migrate_copy_test.fail_page, &set->pairs[0].src->page);
	result = run_job(set, true, 0);
	WRITE_ONCE(migrate_copy_test.fail_page, NULL);
	KUNIT_EXPECT_EQ(test, BIT(0), result.failed);
	for (i = 0; i < set->nr; i++)
		KUNIT_EXPECT_EQ(test, i > 0, copy_test_same(&set->pairs[i]));
}

static void late_chunks(struct kunit *test)
{
	static const enum conduct conducts[] = { LATE, LATE_COPY, IDLE };
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", LATE, TIMEOUT_MS);
	unsigned int round;

	for (round = 0; round < 2 * ARRAY_SIZE(conducts); round++) {
		bool share = round % 2;
		struct result result;

		fake->conduct = conducts[round / 2];
		copy_test_fill(set, round);
		result = run_job(set, share, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, round + 1, fake->ends);
		KUNIT_EXPECT_EQ(test, fake->conduct == LATE_COPY, result.engine_pages > 0);
		/* Nobody waits for one that has not begun, where CPUs copy as well. */
		if (fake->conduct != IDLE || !share)
			KUNIT_EXPECT_GE(test, result.jiffies_ns, TIMEOUT_NS);
		KUNIT_EXPECT_LT(test, result.ns, NSEC_PER_SEC);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* The timeout begins again with each chunk that is returned. */
static void progress(struct kunit *test)
{
	static const unsigned int orders[] = { ORDER_256K, ORDER_256K, ORDER_256K, ORDER_256K };
	struct folio_set *set = copy_test_alloc(test, orders, SLOW_CHUNKS);
	struct fake *fake = fake_alloc(test, "kunit", SLOW, SLOW_TIMEOUT_MS);
	struct result result;

	fake->max_pages = SZ_256K / PAGE_SIZE;
	copy_test_fill(set, 1);
	result = run_job(set, true, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);
	KUNIT_EXPECT_GE(test, fake->claims, SLOW_CHUNKS);
	KUNIT_EXPECT_GE(test, result.ns, SLOW_TIMEOUT_MS * NSEC_PER_MSEC);
}

/* A lost page is in quarantine, and kept from being freed, until it is safe. */
static void lost_chunks(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", LOSE, TIMEOUT_MS);
	struct result result;
	unsigned int i;

	fake->max_pages = 8;
	copy_test_fill(set, 1);
	result = run_job(set, true, 0);
	KUNIT_EXPECT_EQ(test, 1, fake->ends);
	KUNIT_EXPECT_GE(test, result.jiffies_ns, TIMEOUT_NS);
	KUNIT_EXPECT_LT(test, result.ns, NSEC_PER_SEC);
	KUNIT_EXPECT_GT(test, fake->held, 0);
	KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
	KUNIT_EXPECT_GT(test, result.lost_pages, 0);
	KUNIT_EXPECT_NE(test, 0, result.failed);

	for (i = 0; i < set->nr; i++) {
		bool is_lost = result.failed & BIT(i);

		KUNIT_EXPECT_EQ(test, is_lost, migrate_copy_quarantined(set->pairs[i].dst));
		KUNIT_EXPECT_FALSE(test, migrate_copy_quarantined(set->pairs[i].src));
		if (!is_lost)
			KUNIT_EXPECT_TRUE(test, copy_test_same(&set->pairs[i]));
	}
	fake_halt(fake);
	for (i = 0; i < set->nr; i++)
		KUNIT_EXPECT_EQ(test, 1, folio_ref_count(set->pairs[i].dst));
}

/* hugetlb folios are never in quarantine, so that pools are counted correctly. */
static void hugetlb(struct kunit *test)
{
	static const unsigned int orders[] = { ORDER_256K };
	struct folio_set *set = copy_test_alloc(test, orders, 1);
	struct fake *fake = fake_alloc(test, "kunit", LOSE, TIMEOUT_MS);
	struct migrate_copy_team team = {};
	const struct migrate_aid aid = { .team = &team, .asked = MIGRATE_MT };

	copy_test_fill(set, 1);
	KUNIT_EXPECT_TRUE(test, migrate_copy_hugetlb(set->pairs[0].dst, set->pairs[0].src,
						     MR_SYSCALL, &aid));
	KUNIT_EXPECT_TRUE(test, copy_test_same(&set->pairs[0]));
	KUNIT_EXPECT_EQ(test, 0, fake->starts);
	if (team.started)
		migrate_copy_team_end(&team);
}

/* Where CPUs may not share a copy, the engine has all of it as long as it goes on. */
static void alone(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", WORK, PATIENT_MS);
	struct result result;

	copy_test_fill(set, 1);
	result = run_job(set, false, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);
	KUNIT_EXPECT_EQ(test, 0, result.caller_pages);
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* Base pages of a batch of 2 MB. */
#define BATCH_PAGES	(SZ_2M / PAGE_SIZE)

static void free_list(struct list_head *list)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, list, lru) {
		list_del(&folio->lru);
		folio->private = NULL;
		folio_put(folio);
	}
}

/* Copy a batch of base pages twice, as two passes do. Returns how many are not copied. */
static unsigned int run_batch(struct kunit *test)
{
	LIST_HEAD(sources);
	LIST_HEAD(destinations);
	struct migrate_copy_team team = {};
	const struct migrate_aid aid = { .team = &team };
	unsigned int i, missing = 0;
	struct folio *src, *dst;

	for (i = 0; i < BATCH_PAGES; i++) {
		src = folio_alloc(GFP_KERNEL | __GFP_ZERO, 0);
		dst = folio_alloc(GFP_KERNEL, 0);
		if (src)
			list_add_tail(&src->lru, &sources);
		if (dst)
			list_add_tail(&dst->lru, &destinations);
		if (!src || !dst) {
			KUNIT_FAIL(test, "no memory");
			goto free;
		}
		dst->migrate_info = 0;
		*(unsigned int *)folio_address(src) = i;
	}
	for (i = 0; i < 2; i++)
		migrate_copy_batch(&sources, &destinations, MR_SYSCALL, &aid);
	if (team.started)
		migrate_copy_team_end(&team);

	dst = list_first_entry(&destinations, struct folio, lru);
	list_for_each_entry(src, &sources, lru) {
		if (!(dst->migrate_info & FOLIO_CONTENT_COPIED)) {
			KUNIT_EXPECT_TRUE(test, migrate_copy_quarantined(dst));
			missing++;
		} else {
			KUNIT_EXPECT_EQ(test, 0, memcmp(folio_address(src), folio_address(dst),
							PAGE_SIZE));
		}
		dst = list_next_entry(dst, lru);
	}
free:
	free_list(&sources);
	free_list(&destinations);
	return missing;
}

/* Base pages of a batch; what is lost is neither marked, nor copied in the next pass. */
static void whole_batch(struct kunit *test)
{
	struct fake *fake = fake_alloc(test, "kunit", COPY, TIMEOUT_MS);

	KUNIT_EXPECT_EQ(test, 0, run_batch(test));
	KUNIT_EXPECT_GT(test, fake->claims, 0);
	fake->conduct = FAIL;
	KUNIT_EXPECT_EQ(test, 0, run_batch(test));
	fake->conduct = LOSE;
	KUNIT_EXPECT_GT(test, run_batch(test), 0);
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/**
 * struct late_team - a team whose helper begins a copy when the caller is through
 * @team: The team.
 * @set: What the helper copies.
 * @begun: The helper is there.
 */
struct late_team {
	struct migrate_copy_team team;
	struct folio_set *set;
	struct completion begun;
};

static bool late_batch(struct migrate_copy_team *team)
{
	struct late_team *late = container_of(team, struct late_team, team);
	struct migrate_copy_job job;

	complete(&late->begun);
	while (!READ_ONCE(team->work.ends))
		fsleep(USEC_PER_MSEC);
	migrate_copy_job_init(&job, late->set->pairs, late->set->nr, 8, false);
	migrate_copy_offload_run(&job, late->set->pages, MR_SYSCALL, true, team, 0);
	return false;
}

/* What an engine takes for a helper is charged to the task that it helps, however late. */
static void charged_late(struct kunit *test)
{
	struct late_team *late = kunit_kzalloc(test, sizeof(*late), GFP_KERNEL);
	struct fake *fake = fake_alloc(test, "kunit", COPY, PATIENT_MS);

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	KUNIT_ASSERT_NOT_NULL(test, late);
	fake->cpu_ns = NSEC_PER_SEC;
	late->set = standard_set(test);
	init_completion(&late->begun);
	WRITE_ONCE(migrate_copy_test.any_cpu, true);
	migrate_copy_team_start(&late->team, late_batch, NUMA_NO_NODE, 1, 0);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&late->begun, 30 * HZ));
	migrate_copy_team_end(&late->team);
	WRITE_ONCE(migrate_copy_test.any_cpu, false);
	KUNIT_EXPECT_EQ(test, 1, fake->ends);
	KUNIT_EXPECT_GE(test, atomic64_read(&late->team.work.helper_ns), NSEC_PER_SEC);
}

/* An engine that several jobs use at the same time, without a state of its own. */
static bool plain_start(void *priv, struct migrate_copy_offload *o)
{
	struct migrate_copy_chunk chunk;

	while (migrate_copy_chunk_claim(o, &chunk, 16, MAX_FOLIO_NR_PAGES))
		migrate_copy_chunk_return(&chunk, !migrate_copy_chunk_copy(&chunk));
	return true;
}

static void plain_end(void *priv, struct migrate_copy_offload *o)
{
}

struct mover {
	struct folio_set *set;
	struct completion done;
	bool stop;
	unsigned long rounds;
	unsigned long wrong;
	unsigned long offloaded;
};

static int move(void *data)
{
	struct mover *mover = data;
	unsigned int i;

	while (!READ_ONCE(mover->stop)) {
		struct result result;

		copy_test_fill(mover->set, mover->rounds++);
		result = run_job(mover->set, mover->rounds % 2, num_possible_cpus());
		mover->wrong += !!result.failed;
		mover->offloaded += result.engine_pages;
		for (i = 0; i < mover->set->nr; i++)
			mover->wrong += !copy_test_same(&mover->set->pairs[i]);
		cond_resched();
	}
	complete(&mover->done);
	return 0;
}

/*
 * How often an engine comes and goes: each time it waits for the jobs that run, which
 * may take a second where emulated CPUs outnumber those of the host.
 */
#define MOST_CYCLES	200
#define LEAST_CYCLES	20
#define CYCLES_S	30

/* An engine comes and goes while jobs run on all CPUs. */
static void comes_and_goes(struct kunit *test)
{
	static const struct migrate_copy_engine_desc desc = {
		.name = "kunit-plain",
		.start = plain_start,
		.end = plain_end,
	};
	unsigned int nr = min(num_online_cpus(), 8), cycle, i;
	unsigned long offloaded = 0, enough;
	struct mover *movers;

	movers = kunit_kcalloc(test, nr, sizeof(*movers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, movers);
	for (i = 0; i < nr; i++) {
		struct task_struct *task;

		movers[i].set = standard_set(test);
		init_completion(&movers[i].done);
		task = kthread_run(move, &movers[i], "copy-move/%u", i);
		if (IS_ERR(task)) {
			KUNIT_FAIL(test, "no thread %u: %pe", i, task);
			complete(&movers[i].done);
		}
	}

	enough = jiffies + CYCLES_S * HZ;
	for (cycle = 0; cycle < MOST_CYCLES; cycle++) {
		struct migrate_copy_engine *engine;

		engine = migrate_copy_engine_register(&desc, NULL);
		if (IS_ERR(engine)) {
			KUNIT_FAIL(test, "cycle %u: %pe", cycle, engine);
			break;
		}
		migrate_copy_engine_tune(engine, true, PATIENT_MS, ULONG_MAX);
		migrate_copy_engine_ready(engine, true);
		if (cycle % 8 == 0)
			fsleep(USEC_PER_MSEC);
		migrate_copy_engine_unregister(engine);
		if (cycle >= LEAST_CYCLES && time_after(jiffies, enough))
			break;
	}

	for (i = 0; i < nr; i++) {
		WRITE_ONCE(movers[i].stop, true);
		wait_for_completion(&movers[i].done);
		KUNIT_EXPECT_EQ(test, 0, movers[i].wrong);
		KUNIT_EXPECT_GT(test, movers[i].rounds, 0);
		offloaded += movers[i].offloaded;
	}
	KUNIT_EXPECT_GT(test, offloaded, 0);
}

static struct kunit_case engine_cases[] = {
	KUNIT_CASE(not_ready),
	KUNIT_CASE(refusals),
	KUNIT_CASE(engine_copies),
	KUNIT_CASE(ranges),
	KUNIT_CASE(fair_chunks),
	KUNIT_CASE(failed_chunks),
	KUNIT_CASE(failed_folio),
	KUNIT_CASE(late_chunks),
	KUNIT_CASE(progress),
	KUNIT_CASE(lost_chunks),
	KUNIT_CASE(hugetlb),
	KUNIT_CASE(alone),
	KUNIT_CASE(whole_batch),
	KUNIT_CASE(charged_late),
	KUNIT_CASE_SLOW(comes_and_goes),
	{}
};

static struct kunit_suite engine_suite = {
	.name = "migrate_copy_engine",
	.test_cases = engine_cases,
};

kunit_test_suite(engine_suite);
