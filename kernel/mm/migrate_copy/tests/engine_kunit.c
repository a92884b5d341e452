// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the copy engines: whatever an engine does with its chunks,
 * every page is copied once, or known to be lost, and nobody waits for ever.
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
#include "../engine/engine.h"
#include "kunit_folios.h"

/* As many chunks as a job lets engines have. */
#define MAX_CHUNKS	32

/* The base pages that an engine takes at a time, unless it is told otherwise. */
#define CHUNK_ORDER	ilog2(SZ_256K / PAGE_SIZE)
#define CHUNK_PAGES	BIT(CHUNK_ORDER)

/* How long a caller waits for a fake engine: most of it before it asks it to stop. */
#define TIMEOUT_MS	20
#define STOP_NS		(TIMEOUT_MS * NSEC_PER_MSEC * 3 / 4)

/* How long for one that works, on a machine however slow. */
#define PATIENT_MS	10000

/* Forgets how fast the engine is, too. */
static void engine_tune(struct migrate_copy_engine *engine, bool exclusive,
			unsigned int timeout_ms)
{
	WRITE_ONCE(engine->exclusive, exclusive);
	WRITE_ONCE(engine->timeout_ms, timeout_ms);
	copy_engine_forget(engine);
}

/* Folio orders of the standard job: small and large, in no tidy sequence. */
static const unsigned int mixed_orders[] = { 0, 2, 0, 4, 9, 1, 0, 3, 5, 0 };

/**
 * enum conduct - what the engine of a test does
 * @REFUSE: start() says no.
 * @COPY: copies everything it can claim in start().
 * @FAIL: spoils what it claims, and says that it has failed.
 * @LATE: holds what it claims until it is asked to stop.
 * @LATE_COPY: as @LATE, but copies then.
 * @LOSE: holds what it claims for ever, and says that waiting is in vain.
 * @LOSE_BRIEFLY: as @LOSE, but its hardware stops as soon as that is lost.
 * @WORK: copies one chunk after the other in a work item.
 */
enum conduct { REFUSE, COPY, FAIL, LATE, LATE_COPY, LOSE, LOSE_BRIEFLY, WORK };

struct fake {
	enum conduct conduct;
	struct migrate_copy_limits limits;
	u64 feed_ns;
	unsigned long job_pages;
	unsigned int largest;
	struct migrate_copy_engine *engine;
	struct migrate_copy_engine_use use;
	struct migrate_copy_engine_desc desc;
	struct migrate_copy_chunk chunks[MAX_CHUNKS];
	struct work_struct work;
	unsigned int held;
	unsigned int turn;
	unsigned int claims;
	unsigned int starts;
	unsigned int stops;
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
	return boundary && (page_to_pfn(page) & (boundary - 1)) + nr > boundary;
}

/* A chunk must be what was asked for, in ranges that are not empty. */
static bool proper(const struct migrate_copy_chunk *chunk,
		   const struct migrate_copy_limits *limits)
{
	unsigned int i, pages = 0;

	for (i = 0; i < chunk->nr_ranges; i++) {
		const struct migrate_copy_range *range = &chunk->ranges[i];

		if (!range->nr ||
		    (limits->range_pages && range->nr > limits->range_pages) ||
		    crosses(range->dst, range->nr, limits->boundary_pages) ||
		    crosses(range->src, range->nr, limits->boundary_pages))
			return false;
		pages += range->nr;
	}
	return pages == chunk->nr_pages && pages &&
	       (!limits->chunk_pages || pages <= limits->chunk_pages) &&
	       chunk->nr_ranges <= MIGRATE_COPY_CHUNK_RANGES;
}

static bool fake_claim_to(struct fake *fake, struct migrate_copy_share *share,
			  struct migrate_copy_chunk *chunk)
{
	if (!migrate_copy_chunk_claim(share, chunk, &fake->limits))
		return false;
	fake->claims++;
	chunk->feed_ns += fake->feed_ns;
	fake->largest = max(fake->largest, chunk->nr_pages);
	fake->wrong += !proper(chunk, &fake->limits);
	return true;
}

static bool fake_claim(struct fake *fake, struct migrate_copy_share *share)
{
	if (fake->held == MAX_CHUNKS ||
	    !fake_claim_to(fake, share, &fake->chunks[fake->held]))
		return false;
	fake->held++;
	return true;
}

static void give_back(struct fake *fake, bool copy)
{
	while (fake->held) {
		struct migrate_copy_chunk *chunk = &fake->chunks[--fake->held];

		if (copy)
			migrate_copy_chunk_copy(chunk);
		else
			spoil(chunk);
		migrate_copy_chunk_return(chunk, copy);
	}
}

static bool fake_start(void *priv, struct migrate_copy_share *share)
{
	const struct migrate_copy_info *info = share->info;
	struct fake *fake = priv;

	if (!info->pages || !info->folios)
		fake->wrong++;
	fake->job_pages = max(fake->job_pages, info->pages);
	fake->starts++;
	fake->turn = 0;
	if (fake->conduct == REFUSE)
		return false;

	while (fake_claim(fake, share)) {
		if (fake->conduct == WORK) {
			schedule_work(&fake->work);
			break;
		}
		if (fake->conduct == COPY || fake->conduct == FAIL)
			give_back(fake, fake->conduct == COPY);
	}
	return true;
}

static void fake_work(struct work_struct *work)
{
	struct fake *fake = container_of(work, struct fake, work);

	while (fake->held) {
		struct migrate_copy_chunk *chunk = &fake->chunks[fake->turn];

		/* Claim first: in between, nothing would be in flight. */
		fake->turn = !fake->turn;
		fake->held = fake_claim_to(fake, chunk->share,
					   &fake->chunks[fake->turn]);
		migrate_copy_chunk_copy(chunk);
		migrate_copy_chunk_return(chunk, true);
	}
}

static bool fake_stop(void *priv, struct migrate_copy_share *share)
{
	struct fake *fake = priv;

	fake->stops++;
	if (fake->conduct == LOSE || fake->conduct == LOSE_BRIEFLY)
		return false;
	if (fake->conduct != WORK)
		give_back(fake, fake->conduct == LATE_COPY);
	return true;
}

/* The hardware of an engine that loses chunks has stopped. */
static void fake_halt(struct fake *fake)
{
	while (fake->held)
		migrate_copy_chunk_stopped(&fake->chunks[--fake->held]);
}

static void fake_end(void *priv, struct migrate_copy_share *share)
{
	struct fake *fake = priv;
	unsigned int i;

	fake->ends++;
	flush_work(&fake->work);
	for (i = 0; i < fake->held; i++)
		migrate_copy_chunk_lost(&fake->chunks[i]);
	if (fake->conduct == LOSE_BRIEFLY)
		fake_halt(fake);
}

static const struct migrate_copy_engine_ops fake_ops = {
	.start = fake_start,
	.stop = fake_stop,
	.end = fake_end,
};

static void fake_free(void *data)
{
	struct fake *fake = data;

	fake_halt(fake);
	if (!IS_ERR_OR_NULL(fake->engine))
		migrate_copy_engine_unregister(fake->engine);
}

static struct fake *fake_alloc(struct kunit *test, const char *name,
			       enum conduct conduct)
{
	struct fake *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	fake->conduct = conduct;
	fake->limits.chunk_pages = 32;
	INIT_WORK(&fake->work, fake_work);
	fake->desc.name = name;
	fake->desc.ops = &fake_ops;
	fake->desc.use = &fake->use;
	fake->use.reasons = ULONG_MAX;
	fake->engine = migrate_copy_engine_register(&fake->desc, fake);
	KUNIT_ASSERT_FALSE(test, IS_ERR(fake->engine));
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, fake_free, fake));
	migrate_copy_engine_enable(fake->engine, true);
	engine_tune(fake->engine, false, TIMEOUT_MS);
	return fake;
}

struct result {
	unsigned long failed;
	unsigned int woken;
	unsigned long engine_pages;
	unsigned long caller_pages;
	unsigned long helper_pages;
	u64 ns;
};

static struct result run_job(struct folio_set *set, unsigned int max_helpers)
{
	struct migrate_copy_info info = {
		.pages = set->pages,
		.folios = set->nr,
		.reason = MR_SYSCALL,
	};
	struct migrate_copy_team team = {};
	struct migrate_copy_job job;
	struct result result;
	u64 start = ktime_get_ns();

	migrate_copy_job_init(&job, set->pairs, set->nr, 8, true);
	result.woken = migrate_copy_offload_run(&job, &info, &team, max_helpers,
						&result.engine_pages);
	if (team.started)
		migrate_copy_team_end(&team);
	result.ns = ktime_get_ns() - start;
	result.failed = *job.failed;
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
	for (i = 0; i < set->nr; i++)
		KUNIT_EXPECT_TRUE_MSG(test, copy_test_same(&set->pairs[i]),
				      "pair %u", i);
}

static void registration(struct kunit *test)
{
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	struct migrate_copy_engine_desc bad = fake->desc;
	struct migrate_copy_engine *engine;
	struct migrate_copy_engine_ops no_end = fake_ops;

	engine = migrate_copy_engine_register(&fake->desc, fake);
	KUNIT_EXPECT_EQ(test, -EEXIST, PTR_ERR_OR_ZERO(engine));

	bad.name = "a/b";
	engine = migrate_copy_engine_register(&bad, fake);
	KUNIT_EXPECT_EQ(test, -EINVAL, PTR_ERR_OR_ZERO(engine));
	bad.name = "";
	engine = migrate_copy_engine_register(&bad, fake);
	KUNIT_EXPECT_EQ(test, -EINVAL, PTR_ERR_OR_ZERO(engine));
	bad.name = "kunit-bad";
	no_end.end = NULL;
	bad.ops = &no_end;
	engine = migrate_copy_engine_register(&bad, fake);
	KUNIT_EXPECT_EQ(test, -EINVAL, PTR_ERR_OR_ZERO(engine));

	migrate_copy_engine_unregister(fake->engine);
	fake->engine = migrate_copy_engine_register(&fake->desc, fake);
	KUNIT_EXPECT_FALSE(test, IS_ERR(fake->engine));
}

/* What is registered but not enabled, or refuses, has nothing to do with jobs. */
static void refusals(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	struct result result;
	unsigned int round;

	for (round = 0; round < 3; round++) {
		migrate_copy_engine_enable(fake->engine, round);
		fake->conduct = REFUSE;
		copy_test_fill(set, round);
		result = run_job(set, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
		KUNIT_EXPECT_EQ(test, set->pages, result.caller_pages);
		KUNIT_EXPECT_EQ(test, round, fake->starts);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->ends);
	KUNIT_EXPECT_EQ(test, 0, fake->claims);
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* Every page is claimed once, by the engine or by the caller, or by helpers. */
static void engine_copies(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	unsigned int max, round = 0;

	for (max = 1; max <= 1024; max = max * 2 + 1) {
		bool helpers = round % 2;
		struct result result;

		fake->limits.chunk_pages = max;
		engine_tune(fake->engine, false, TIMEOUT_MS);
		copy_test_fill(set, round++);
		result = run_job(set, helpers ? num_possible_cpus() : 0);
		expect_copied(test, set, &result);
		/* Helpers may have been faster. */
		if (!helpers)
			KUNIT_EXPECT_GT(test, result.engine_pages, 0);
		KUNIT_EXPECT_EQ(test, set->pages,
				result.engine_pages + result.caller_pages +
				result.helper_pages);
		KUNIT_EXPECT_EQ(test, round, fake->ends);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->stops);
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* More folios than a chunk has ranges; and a large folio, which needs one. */
static void ranges(struct kunit *test)
{
	static const unsigned int orders[MIGRATE_COPY_SET];
	static const unsigned int one[] = { CHUNK_ORDER };
	struct folio_set *set = copy_test_alloc(test, orders, ARRAY_SIZE(orders));
	struct folio_set *large = copy_test_alloc(test, one, 1);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	struct result result;

	engine_tune(fake->engine, true, TIMEOUT_MS);
	fake->limits.chunk_pages = 1024;
	copy_test_fill(set, 1);
	result = run_job(set, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);

	fake->claims = 0;
	copy_test_fill(large, 2);
	result = run_job(large, 0);
	expect_copied(test, large, &result);
	KUNIT_EXPECT_EQ(test, 1, fake->claims);
	KUNIT_EXPECT_EQ(test, 1, fake->chunks[0].nr_ranges);
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* Folios that lie side by side in both places are one range. */
static void neighbours(struct kunit *test)
{
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	struct page *src = alloc_pages(GFP_KERNEL, CHUNK_ORDER);
	struct page *dst = alloc_pages(GFP_KERNEL, CHUNK_ORDER);
	struct folio_set *set;
	struct result result;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, src);
	KUNIT_ASSERT_NOT_NULL(test, dst);
	set = kunit_kzalloc(test, sizeof(*set), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, set);
	split_page(src, CHUNK_ORDER);
	split_page(dst, CHUNK_ORDER);
	for (i = 0; i < CHUNK_PAGES; i++) {
		set->pairs[i].src = page_folio(src + i);
		set->pairs[i].dst = page_folio(dst + i);
	}
	set->nr = CHUNK_PAGES;
	set->pages = CHUNK_PAGES;

	engine_tune(fake->engine, true, TIMEOUT_MS);
	fake->limits.chunk_pages = 1024;
	copy_test_fill(set, 3);
	result = run_job(set, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 1, fake->claims);
	KUNIT_EXPECT_EQ(test, 1, fake->chunks[0].nr_ranges);
	KUNIT_EXPECT_EQ(test, CHUNK_PAGES, fake->chunks[0].nr_pages);

	for (i = 0; i < CHUNK_PAGES; i++) {
		folio_put(set->pairs[i].src);
		folio_put(set->pairs[i].dst);
	}
}

/* What an engine spoils is copied again, and an engine that goes on is stopped. */
static void failed_chunks(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", FAIL);
	unsigned int max, round = 0;

	for (max = 1; max <= 1024; max = max * 4 + 1) {
		struct result result;

		fake->claims = 0;
		fake->limits.chunk_pages = max;
		engine_tune(fake->engine, false, TIMEOUT_MS);
		copy_test_fill(set, round++);
		result = run_job(set, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
		KUNIT_EXPECT_GT(test, fake->claims, 0);
		KUNIT_EXPECT_LE(test, fake->claims, MAX_CHUNKS);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->stops);
}

/* A machine check in a failed chunk is that of its folio alone. */
static void failed_folio(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", FAIL);
	struct result result;
	unsigned int i;

	copy_test_fill(set, 1);
	fake->limits.chunk_pages = 1024;
	WRITE_ONCE(migrate_copy_test.fail_page, &set->pairs[0].src->page);
	result = run_job(set, 0);
	WRITE_ONCE(migrate_copy_test.fail_page, NULL);
	KUNIT_EXPECT_EQ(test, BIT(0), result.failed);
	for (i = 0; i < set->nr; i++)
		KUNIT_EXPECT_EQ(test, i > 0, copy_test_same(&set->pairs[i]));
}

static void late_chunks(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", LATE);
	unsigned int round;

	for (round = 0; round < 2; round++) {
		struct result result;

		fake->conduct = round ? LATE_COPY : LATE;
		engine_tune(fake->engine, false, TIMEOUT_MS);
		copy_test_fill(set, round);
		result = run_job(set, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, round + 1, fake->stops);
		KUNIT_EXPECT_EQ(test, round + 1, fake->ends);
		KUNIT_EXPECT_EQ(test, round > 0, result.engine_pages > 0);
		KUNIT_EXPECT_GE(test, result.ns, STOP_NS);
		KUNIT_EXPECT_LT(test, result.ns, NSEC_PER_SEC);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* A lost page is in quarantine, and kept from being freed, until it is safe. */
static void lost_chunks(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", LOSE);
	struct result result;
	unsigned long lost;
	unsigned int i;

	fake->limits.chunk_pages = 8;
	copy_test_fill(set, 1);
	result = run_job(set, 0);

	KUNIT_EXPECT_EQ(test, 1, fake->stops);
	KUNIT_EXPECT_EQ(test, 1, fake->ends);
	KUNIT_EXPECT_GE(test, result.ns, STOP_NS);
	KUNIT_EXPECT_LT(test, result.ns, NSEC_PER_SEC);
	KUNIT_EXPECT_GT(test, fake->held, 0);
	KUNIT_EXPECT_EQ(test, 0, result.engine_pages);

	lost = result.failed;
	KUNIT_EXPECT_NE(test, 0, lost);
	for (i = 0; i < set->nr; i++) {
		struct folio *dst = set->pairs[i].dst;
		bool is_lost = lost & BIT(i);

		KUNIT_EXPECT_EQ(test, is_lost, migrate_copy_quarantined(dst));
		KUNIT_EXPECT_EQ(test, is_lost, folio_ref_count(dst) > 1);
		KUNIT_EXPECT_FALSE(test,
				   migrate_copy_quarantined(set->pairs[i].src));
		if (!is_lost)
			KUNIT_EXPECT_TRUE(test, copy_test_same(&set->pairs[i]));
	}

	fake_halt(fake);
	for (i = 0; i < set->nr; i++) {
		struct folio *dst = set->pairs[i].dst;

		KUNIT_EXPECT_FALSE(test, migrate_copy_quarantined(dst));
		KUNIT_EXPECT_EQ(test, 1, folio_ref_count(dst));
	}
}

/* Bytes that callers have copied, as /proc/vmstat has them. */
static unsigned long caller_bytes(struct kunit *test)
{
	unsigned long *events = kunit_kcalloc(test, NR_VM_EVENT_ITEMS,
					      sizeof(*events), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, events);
	all_vm_events(events);
	return events[MIGRATE_COPY_BYTES_CALLER];
}

/* That a page was lost is known after its quarantine, too: it is not complete. */
static void lost_hugetlb(struct kunit *test)
{
	static const unsigned int orders[] = { CHUNK_ORDER };
	struct folio_set *set = copy_test_alloc(test, orders, 1);
	struct fake *fake = fake_alloc(test, "kunit", LOSE_BRIEFLY);
	struct migrate_copy_pair *pair = &set->pairs[0];
	struct migrate_copy_team team = {};
	const struct migrate_aid aid = { .team = &team, .asked = MIGRATE_MT };
	unsigned long by_cpus = caller_bytes(test);

	engine_tune(fake->engine, true, TIMEOUT_MS);
	copy_test_fill(set, 1);
	KUNIT_EXPECT_FALSE(test, migrate_copy_hugetlb(pair->dst, pair->src,
						      MR_SYSCALL, &aid));
	KUNIT_EXPECT_GT(test, fake->claims, 0);
	KUNIT_EXPECT_FALSE(test, migrate_copy_quarantined(pair->dst));
	KUNIT_EXPECT_EQ(test, by_cpus, caller_bytes(test));

	fake->conduct = COPY;
	KUNIT_EXPECT_TRUE(test, migrate_copy_hugetlb(pair->dst, pair->src,
						     MR_SYSCALL, &aid));
	KUNIT_EXPECT_TRUE(test, copy_test_same(pair));
	if (team.started)
		migrate_copy_team_end(&team);
}

/* An engine that wants a job alone gets all of it, as long as it goes on. */
static void exclusive_engine(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", WORK);
	unsigned int round, starts;
	struct result result;

	engine_tune(fake->engine, true, PATIENT_MS);
	copy_test_fill(set, 1);
	result = run_job(set, num_possible_cpus());
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);
	KUNIT_EXPECT_EQ(test, 0, result.caller_pages);

	/* One that does not is left behind. */
	engine_tune(fake->engine, true, TIMEOUT_MS);
	fake->conduct = LATE;
	copy_test_fill(set, 2);
	result = run_job(set, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
	KUNIT_EXPECT_LT(test, result.ns, NSEC_PER_SEC);

	/* Nor is it waited for again, unless a CPU was away for as long. */
	starts = fake->starts;
	for (round = 0; round < 8; round++)
		run_job(set, 0);
	KUNIT_EXPECT_LT(test, fake->starts, starts + 4);

	/* Until somebody has mended it. */
	engine_tune(fake->engine, true, PATIENT_MS);
	fake->conduct = WORK;
	copy_test_fill(set, 3);
	result = run_job(set, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);
}

/* Where an engine that wants a job alone does not begin, CPUs are asked for help. */
static void exclusive_refuses(struct kunit *test)
{
	static const enum conduct conducts[] = { REFUSE, FAIL };
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", REFUSE);
	unsigned int i;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	engine_tune(fake->engine, true, TIMEOUT_MS);
	fake->limits.chunk_pages = 1;
	WRITE_ONCE(migrate_copy_test.any_cpu, true);
	for (i = 0; i < ARRAY_SIZE(conducts); i++) {
		struct result result;

		fake->conduct = conducts[i];
		copy_test_fill(set, i);
		result = run_job(set, num_possible_cpus());
		expect_copied(test, set, &result);
		KUNIT_EXPECT_GT(test, result.woken, 0);
		KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
	}
	WRITE_ONCE(migrate_copy_test.any_cpu, false);
}

/* A device that takes little at a time gets many ranges, not small chunks. */
static void limited_ranges(struct kunit *test)
{
	static const struct migrate_copy_limits limits[] = {
		{ .range_pages = SZ_64K / PAGE_SIZE },
		{ .boundary_pages = 16 },
		{ .range_pages = 24, .boundary_pages = 16 },
		{ .chunk_pages = 20, .range_pages = 3 },
		{ .chunk_pages = 40, .range_pages = 1 },
	};
	static const unsigned int one[] = { CHUNK_ORDER };
	struct folio_set *large = copy_test_alloc(test, one, 1);
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	struct result result;
	unsigned int i;

	engine_tune(fake->engine, true, TIMEOUT_MS);
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		fake->limits = limits[i];
		fake->claims = 0;
		copy_test_fill(large, i);
		result = run_job(large, 0);
		expect_copied(test, large, &result);
		KUNIT_EXPECT_EQ(test, large->pages, result.engine_pages);
		/* 64 KB at a time: a chunk has several of them. */
		if (!i) {
			KUNIT_EXPECT_EQ(test, 1, fake->claims);
			KUNIT_EXPECT_EQ(test, CHUNK_PAGES / limits->range_pages,
					fake->chunks[0].nr_ranges);
		}

		copy_test_fill(set, i);
		result = run_job(set, 0);
		expect_copied(test, set, &result);
		KUNIT_EXPECT_EQ(test, set->pages, result.engine_pages);
	}
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
}

/* A job is enough for all chunks that an engine can have, but these are not tiny. */
static void enough_for_all(struct kunit *test)
{
	static const unsigned int order[] = { ilog2(SZ_1M / PAGE_SIZE) };
	static const struct {
		unsigned int chunks;
		unsigned int bytes;
	} cases[] = { { 4, SZ_256K }, { 64, SZ_128K } };
	struct folio_set *set = copy_test_alloc(test, order, 1);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	unsigned int i;

	engine_tune(fake->engine, true, TIMEOUT_MS);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fake->limits = (struct migrate_copy_limits){
			.chunks = cases[i].chunks
		};
		fake->largest = 0;
		run_job(set, 0);
		KUNIT_EXPECT_EQ(test, fake->largest, cases[i].bytes / PAGE_SIZE);
	}
}

/* Who takes more CPU time to hand folios over than to copy them is not asked. */
static void costly_engine(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	unsigned int starts;

	fake->feed_ns = NSEC_PER_SEC;
	run_job(set, 0);
	starts = fake->starts;
	KUNIT_EXPECT_EQ(test, 1, starts);
	run_job(set, 0);
	KUNIT_EXPECT_EQ(test, starts, fake->starts);
	WRITE_ONCE(fake->engine->exclusive, true);
	run_job(set, 0);
	KUNIT_EXPECT_EQ(test, starts + 1, fake->starts);
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

/* Have the base pages of a batch copied by an engine. */
static void run_batch(struct kunit *test, bool expect_copies)
{
	LIST_HEAD(sources);
	LIST_HEAD(destinations);
	struct migrate_copy_team team = {};
	const struct migrate_aid aid = { .team = &team };
	struct folio *src, *dst;
	unsigned int i;

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
	migrate_copy_batch(&sources, &destinations, MR_SYSCALL, &aid);
	if (team.started)
		migrate_copy_team_end(&team);

	dst = list_first_entry(&destinations, struct folio, lru);
	list_for_each_entry(src, &sources, lru) {
		bool marked = dst->migrate_info & FOLIO_CONTENT_COPIED;
		bool same = !memcmp(folio_address(src), folio_address(dst),
				    PAGE_SIZE);

		KUNIT_EXPECT_EQ(test, expect_copies, marked);
		if (marked)
			KUNIT_EXPECT_TRUE(test, same);
		dst = list_next_entry(dst, lru);
	}
free:
	free_list(&sources);
	free_list(&destinations);
}

/* Engines get all base pages of a batch at once, and lost ones are found again. */
static void whole_batch(struct kunit *test)
{
	struct fake *fake = fake_alloc(test, "kunit", COPY);

	engine_tune(fake->engine, true, TIMEOUT_MS);
	fake->limits.chunk_pages = 0;
	run_batch(test, true);
	KUNIT_EXPECT_EQ(test, BATCH_PAGES, fake->job_pages);
	KUNIT_EXPECT_EQ(test, 0, fake->wrong);
	fake->conduct = FAIL;
	run_batch(test, true);
}

/* An engine gets nothing of requests for which it is not to be used. */
static void reasons(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	struct result result;

	WRITE_ONCE(fake->use.reasons, ~BIT(MR_SYSCALL));
	KUNIT_EXPECT_FALSE(test, migrate_copy_may_offload(MR_SYSCALL, NULL));
	KUNIT_EXPECT_TRUE(test, migrate_copy_may_offload(MR_DEMOTION, NULL));
	result = run_job(set, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 0, result.engine_pages);
	KUNIT_EXPECT_EQ(test, 0, fake->starts);
}

/* Of a new engine nobody waits for more than a small chunk. */
static void new_engine(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", LATE_COPY);
	unsigned int round, try;

	fake->limits.chunk_pages = 1024;
	copy_test_fill(set, 1);
	run_job(set, 0);
	KUNIT_EXPECT_EQ(test, 1, fake->claims);
	KUNIT_EXPECT_LE(test, fake->chunks[0].nr_pages,
			max(SZ_64K / PAGE_SIZE, 1));

	/*
	 * One that is known, and fast, gets more at a time. On a machine that is busy
	 * it may seem slow.
	 */
	fake->claims = 0;
	for (try = 0; try < 20 && fake->claims < 2; try++) {
		migrate_copy_engine_enable(fake->engine, false);
		migrate_copy_engine_enable(fake->engine, true);
		fake->conduct = COPY;
		for (round = 0; round < 100; round++)
			run_job(set, 0);
		fake->conduct = LATE_COPY;
		fake->claims = 0;
		run_job(set, 0);
	}
	KUNIT_EXPECT_GT(test, fake->claims, 1);
}

#ifdef CONFIG_MIGRATE_COPY_JUDGE
/* What a benchmark compares with: even a new engine gets chunks of chunk_kb. */
static void fixed_chunks(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *fake = fake_alloc(test, "kunit", LATE_COPY);

	fake->limits.chunk_pages = 1024;
	set_bit(MIGRATE_COPY_ENGINE_MODEL, &migrate_copy_left_out);
	run_job(set, 0);
	clear_bit(MIGRATE_COPY_ENGINE_MODEL, &migrate_copy_left_out);
	KUNIT_EXPECT_GT(test, fake->chunks[0].nr_pages,
			max(SZ_64K / PAGE_SIZE, 1));
}
#endif

/* An engine that is much slower than the CPU gets little, and holds up nobody. */
static void slow_engine(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	unsigned int round, late_rounds = 0;

	fake_alloc(test, "kunit", LATE_COPY);

	/* It takes 20 ms for whatever it claims, which is the time-out. */
	for (round = 0; round < 16; round++) {
		struct result result;

		copy_test_fill(set, round);
		result = run_job(set, 0);
		expect_copied(test, set, &result);
		if (!round)
			KUNIT_EXPECT_GT(test, result.engine_pages, 0);
		/* Once may be chance, but not eight times. */
		if (round >= 8)
			late_rounds += result.engine_pages > 0;
	}
	/* A CPU that is away for as long is slower still. */
	KUNIT_EXPECT_LT(test, late_rounds, 4);
}

/* Few pages, which a CPU has copied long before an engine is late. */
static struct folio_set *small_set(struct kunit *test)
{
	static const unsigned int orders[] = { CHUNK_ORDER };

	return copy_test_alloc(test, orders, ARRAY_SIZE(orders));
}

/* Waiting in vain for an engine is nothing that each job does again. */
static void hanging_engine(struct kunit *test)
{
	static const enum conduct conducts[] = { LATE, LOSE_BRIEFLY };
	struct folio_set *set = small_set(test);
	unsigned int i, claims;

	for (i = 0; i < ARRAY_SIZE(conducts); i++) {
		struct fake *fake = fake_alloc(test, i ? "kunit-lossy" : "kunit",
					       conducts[i]);

		run_job(set, 0);
		claims = fake->claims;
		KUNIT_EXPECT_GT(test, claims, 0);
		run_job(set, 0);
		KUNIT_EXPECT_EQ(test, claims, fake->claims);
		KUNIT_EXPECT_EQ(test, 1, fake->starts);
		migrate_copy_engine_enable(fake->engine, false);
	}
}

/* An engine that was slow once is tried again, though only after many jobs. */
static void tried_again(struct kunit *test)
{
	struct folio_set *set = small_set(test);
	struct fake *fake = fake_alloc(test, "kunit", COPY);
	unsigned int jobs, round;

	/*
	 * What keeps it out is its time, and how much that varies. A machine that
	 * is busy may find it slow to begin with.
	 */
	for (jobs = 0; jobs < 100 && !fake->stops; jobs++) {
		engine_tune(fake->engine, false, TIMEOUT_MS);
		fake->conduct = COPY;
		for (round = 0; round < 8; round++)
			run_job(set, 0);
		fake->conduct = LATE_COPY;
		run_job(set, 0);
	}
	KUNIT_ASSERT_EQ(test, 1, fake->stops);

	fake->conduct = COPY;
	fake->claims = 0;
	for (jobs = 0; jobs < 50000 && !fake->claims; jobs++)
		run_job(set, 0);
	KUNIT_EXPECT_GT(test, jobs, 1);
	KUNIT_EXPECT_GT(test, fake->claims, 0);
}

/* Two engines and the caller at the same job. */
static void several_engines(struct kunit *test)
{
	struct folio_set *set = standard_set(test);
	struct fake *one = fake_alloc(test, "kunit", WORK);
	struct fake *other = fake_alloc(test, "kunit-other", WORK);
	struct fake *none = fake_alloc(test, "kunit-none", REFUSE);
	struct fake *bad = fake_alloc(test, "kunit-bad", FAIL);
	struct result result;

	copy_test_fill(set, 1);
	result = run_job(set, 0);
	expect_copied(test, set, &result);
	KUNIT_EXPECT_EQ(test, 1, one->ends);
	KUNIT_EXPECT_EQ(test, 1, other->ends);
	KUNIT_EXPECT_EQ(test, 1, bad->ends);
	KUNIT_EXPECT_EQ(test, 1, none->starts);
	KUNIT_EXPECT_EQ(test, 0, none->ends);
	KUNIT_EXPECT_GT(test, one->claims, 0);
	KUNIT_EXPECT_GT(test, other->claims, 0);
	KUNIT_EXPECT_EQ(test, 0, one->wrong + other->wrong + bad->wrong);
}

/* An engine that several jobs use at the same time, without a state of its own. */
static bool plain_start(void *priv, struct migrate_copy_share *share)
{
	static const struct migrate_copy_limits limits = { .chunk_pages = 16 };
	struct migrate_copy_chunk chunk;

	while (migrate_copy_chunk_claim(share, &chunk, &limits))
		migrate_copy_chunk_return(&chunk,
					  !migrate_copy_chunk_copy(&chunk));
	return true;
}

static void plain_end(void *priv, struct migrate_copy_share *share)
{
}

static const struct migrate_copy_engine_ops plain_ops = {
	.start = plain_start,
	.end = plain_end,
};

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
		result = run_job(mover->set, num_possible_cpus());
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
		.ops = &plain_ops,
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
		migrate_copy_engine_enable(engine, true);
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
	KUNIT_CASE(registration),
	KUNIT_CASE(refusals),
	KUNIT_CASE(engine_copies),
	KUNIT_CASE(ranges),
	KUNIT_CASE(neighbours),
	KUNIT_CASE(failed_chunks),
	KUNIT_CASE(failed_folio),
	KUNIT_CASE(late_chunks),
	KUNIT_CASE(lost_chunks),
	KUNIT_CASE(lost_hugetlb),
	KUNIT_CASE(exclusive_engine),
	KUNIT_CASE(exclusive_refuses),
	KUNIT_CASE(limited_ranges),
	KUNIT_CASE(enough_for_all),
	KUNIT_CASE(costly_engine),
	KUNIT_CASE(whole_batch),
	KUNIT_CASE(reasons),
	KUNIT_CASE(new_engine),
#ifdef CONFIG_MIGRATE_COPY_JUDGE
	KUNIT_CASE(fixed_chunks),
#endif
	KUNIT_CASE(slow_engine),
	KUNIT_CASE(hanging_engine),
	KUNIT_CASE_SLOW(tried_again),
	KUNIT_CASE(several_engines),
	KUNIT_CASE_SLOW(comes_and_goes),
	{}
};

static struct kunit_suite engine_suite = {
	.name = "migrate_copy_engine",
	.test_cases = engine_cases,
};

kunit_test_suite(engine_suite);
