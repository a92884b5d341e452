// SPDX-License-Identifier: GPL-2.0-only
/*
 * The copy job: pairs of folios, copied in chunks that the caller and its
 * helpers pull from one atomic cursor until nothing is left.
 *
 * Pulling is what makes a job safe on a busy machine. Nothing is handed out in
 * advance, so a helper that never got a CPU holds nothing that anybody waits
 * for: the caller copies its share too. What the caller does wait for is a
 * chunk that a helper has claimed, and such a chunk is small and copied with
 * preemption disabled.
 */
#include <linux/bitops.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "internal.h"

#ifdef CONFIG_MIGRATE_COPY_KUNIT_TEST
struct migrate_copy_test migrate_copy_test;
#endif

static bool job_test_fails(const struct page *src)
{
	return IS_ENABLED(CONFIG_MIGRATE_COPY_KUNIT_TEST) &&
	       unlikely(src == READ_ONCE(migrate_copy_test.fail_page));
}

/**
 * migrate_copy_job_init() - Prepare a job.
 * @job: The job; usually on the caller's stack.
 * @pairs: What to copy. Must stay until the job has run.
 * @nr: Number of @pairs, at least 1. Who has more than MIGRATE_COPY_SET sets
 *	job->failed, to a bitmap as long.
 * @chunk_pages: Most base pages that one claim takes, at least 1.
 * @nontemporal: Whether the copies shall bypass the caches.
 *
 * Context: Any.
 */
void migrate_copy_job_init(struct migrate_copy_job *job,
			   const struct migrate_copy_pair *pairs,
			   unsigned int nr, unsigned int chunk_pages,
			   bool nontemporal)
{
	memset(job, 0, sizeof(*job));
	job->pairs = pairs;
	job->nr = nr;
	job->chunk_pages = chunk_pages;
	job->nr_cpus = 1;
	job->nontemporal = nontemporal;
	job->failed = &job->own_failed;
}

/*
 * How many pages to take next: towards the end less, so that nobody waits for long
 * for the last one. What is left is known well enough by the next folio.
 */
static unsigned int job_chunk_size(const struct migrate_copy_job *job,
				   unsigned int pair, unsigned int page)
{
	unsigned long left;

	if (job->nr_cpus <= 1 || pair >= job->nr)
		return job->chunk_pages;
	left = (job->nr - pair) * folio_nr_pages(job->pairs[pair].src) - page;
	return clamp(left / (2 * job->nr_cpus), min(job->chunk_pages, 4U),
		     job->chunk_pages);
}

/*
 * Take the next chunk: up to job->chunk_pages, of one large folio or of
 * several small ones in a row. Returns the number of pages; *first is where
 * they start.
 */
static unsigned long job_claim(struct migrate_copy_job *job, u64 *first)
{
	s64 cursor = atomic64_read(&job->cursor);
	unsigned int pair, page, size;
	unsigned long left, want;

	do {
		pair = CURSOR_PAIR(cursor);
		page = CURSOR_PAGE(cursor);
		size = job_chunk_size(job, pair, page);
		want = size;
		while (want && pair < job->nr) {
			left = folio_nr_pages(job->pairs[pair].src) - page;
			if (left > want) {
				page += want;
				want = 0;
			} else {
				want -= left;
				page = 0;
				pair++;
			}
		}
		if (want == size)
			return 0;
	} while (!atomic64_try_cmpxchg(&job->cursor, &cursor,
				       CURSOR(pair, page)));

	*first = cursor;
	return size - want;
}

/*
 * Copy a part of one folio. After a machine check, here or in another chunk of
 * it, the rest is left out: the folio is lost for this job.
 */
static void job_copy_part(struct migrate_copy_job *job, unsigned int pair,
			  unsigned int page, unsigned long nr)
{
	struct folio *dst = job->pairs[pair].dst;
	struct folio *src = job->pairs[pair].src;

	if (unlikely(test_bit(pair, job->failed)))
		return;

	for (; nr; nr--, page++) {
		struct page *from = folio_page(src, page);

		if (job_test_fails(from) ||
		    migrate_copy_job_page(job, folio_page(dst, page), from)) {
			set_bit(pair, job->failed);
			return;
		}
	}
}

/**
 * migrate_copy_job_copy() - Copy pages of a job that are the caller's to copy.
 * @job: The job.
 * @first: The cursor of the first page.
 * @nr: How many base pages, in the order of the job.
 *
 * Context: Process context. Does not sleep.
 */
void migrate_copy_job_copy(struct migrate_copy_job *job, u64 first,
			   unsigned long nr)
{
	unsigned int pair = CURSOR_PAIR(first);
	unsigned int page = CURSOR_PAGE(first);
	unsigned long part;

	for (; nr; nr -= part) {
		part = folio_nr_pages(job->pairs[pair].src) - page;
		part = min(nr, part);
		job_copy_part(job, pair, page, part);
		page = 0;
		pair++;
	}
	if (job->nontemporal)
		migrate_copy_nontemporal_done();
}

/**
 * migrate_copy_job_chunk() - Claim one chunk of a job and copy it.
 * @job: The job.
 *
 * Context: Process context. Does not sleep; a helper calls it with preemption
 * disabled, so that the caller, if it waits for the chunk, waits for the copy
 * alone.
 * Return: The number of base pages claimed; 0 when none is left to claim.
 */
unsigned long migrate_copy_job_chunk(struct migrate_copy_job *job)
{
	unsigned long nr;
	u64 first;

	nr = job_claim(job, &first);
	if (nr)
		migrate_copy_job_copy(job, first, nr);
	return nr;
}

/**
 * migrate_copy_job_run() - Copy everything in a job.
 * @job: The job, freshly prepared.
 * @team: Who may help, see migrate_copy_job_share(); or NULL.
 * @nid: The node next to which helpers are looked for.
 * @max_helpers: Most helper CPUs to wake for it.
 *
 * When this returns, every page of every pair has been copied, and all of it
 * is visible to this CPU, except in the folios whose bit in @job->failed is
 * set. Those may hold anything. No helper will touch the job any more.
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing: safe from memory reclaim, with any number of
 * folios locked.
 * Return: How many helper CPUs were woken for it.
 */
unsigned int migrate_copy_job_run(struct migrate_copy_job *job,
				  struct migrate_copy_team *team, int nid,
				  unsigned int max_helpers)
{
	unsigned int woken = 0;
	unsigned long nr;

	if (team)
		woken = migrate_copy_job_share(job, team, nid, max_helpers);
	do {
		nr = migrate_copy_job_chunk(job);
		job->caller_pages += nr;
		cond_resched();
	} while (nr);
	if (team)
		migrate_copy_job_unshare(job, team);
	return woken;
}
