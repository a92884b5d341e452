// SPDX-License-Identifier: GPL-2.0-only
/*
 * The copy job: pairs of folios, copied in chunks that the caller and its
 * helpers claim from one atomic cursor until nothing is left.
 *
 * Nothing is assigned in advance, which makes a job safe on a busy machine: the
 * caller copies what helpers that never got a CPU would have copied. It waits
 * only for chunks that helpers have claimed; these are small and copied with
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
 * @pairs: What to copy. Must stay valid until the job has run.
 * @nr: Number of @pairs, 1 to MIGRATE_COPY_SET.
 * @chunk_pages: The most base pages per claim, at least 1.
 * @nontemporal: Whether the copies bypass the caches.
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
}

/*
 * How many pages to claim next: fewer towards the end, so that the wait for the
 * last chunk is short. The size of the next folio is enough to estimate the rest.
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
 * Claim the next chunk: up to job->chunk_pages, of one large folio or of
 * several consecutive small ones. Returns the number of pages, and in *first
 * the cursor of the first one.
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
 * Copy a part of one folio. After a machine check in any chunk of the folio, the
 * rest is skipped: its copy has failed.
 */
static void job_copy_part(struct migrate_copy_job *job, unsigned int pair,
			  unsigned int page, unsigned long nr)
{
	struct folio *dst = job->pairs[pair].dst;
	struct folio *src = job->pairs[pair].src;

	if (unlikely(test_bit(pair, &job->failed)))
		return;

	for (; nr; nr--, page++) {
		struct page *from = folio_page(src, page);

		if (job_test_fails(from) ||
		    migrate_copy_job_page(job, folio_page(dst, page), from)) {
			set_bit(pair, &job->failed);
			return;
		}
	}
}

/**
 * migrate_copy_job_copy() - Copy claimed pages of a job.
 * @job: The job.
 * @first: The cursor of the first page.
 * @nr: The number of base pages, in the order of the job.
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
		wmb();	/* Before the release that reports them as complete */
}

/**
 * migrate_copy_job_chunk() - Claim one chunk of a job and copy it.
 * @job: The job.
 *
 * Context: Process context. Does not sleep. Helpers disable preemption, so that
 * a caller that waits for the chunk waits only for the copy.
 * Return: The number of base pages claimed; 0 when none is left.
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
 * @job: The job, freshly initialized.
 * @team: The team that may help, see migrate_copy_job_share(); or NULL.
 * @nid: The node whose CPUs are asked first.
 * @max_helpers: The most helpers to wake.
 *
 * When this returns, every page has been copied and is visible to this CPU,
 * except in folios whose bit in @job->failed is set: their content is undefined.
 * No helper touches the job any more.
 *
 * Context: Process context, may sleep. Takes no lock under which anybody may
 * sleep, and allocates nothing: safe from memory reclaim, with any number of
 * folios locked.
 * Return: The number of helpers woken.
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
