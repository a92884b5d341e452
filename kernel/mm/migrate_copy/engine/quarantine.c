// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lost chunks of copy engines.
 *
 * A page that something may still write to must not be given away, neither to
 * the owner of the migrated folio nor, should that not be migrated, to the page
 * allocator. So a lost chunk goes into quarantine, with a reference to each
 * folio of its destination. While it is there the folio is not moved to:
 * move_to_new_folio() fails with -EAGAIN, as it does for a folio that is in use,
 * and migration tries another destination or gives up. When the engine has seen
 * the hardware stop it ends the quarantine, and the last reference frees the
 * folio. What the late transfer reads is of no interest to anybody.
 */

#include "engine.h"

/* Protects the list below. */
static DEFINE_SPINLOCK(quarantine_lock);
static LIST_HEAD(quarantine);

/* Get or put each folio that a chunk writes to, once for each range. */
static void chunk_visit_dst(struct migrate_copy_chunk *chunk, void (*fn)(struct folio *folio))
{
	unsigned int i, page;

	for (i = 0; i < chunk->nr_ranges; i++) {
		struct migrate_copy_range *range = &chunk->ranges[i];

		for (page = 0; page < range->nr;) {
			struct page *first = range->dst + page;
			struct folio *folio = page_folio(first);

			page += folio_nr_pages(folio) - folio_page_idx(folio, first);
			fn(folio);
		}
	}
}

/**
 * migrate_copy_chunk_lost() - Give up a chunk that may still be written to.
 * @chunk: A chunk in flight. Its memory stays in use until
 *	migrate_copy_chunk_stopped().
 *
 * Context: Any.
 */
void migrate_copy_chunk_lost(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_offload *o = chunk->share->offload;
	unsigned int pair = CURSOR_PAIR(chunk->first);
	long left = chunk->nr_pages + CURSOR_PAGE(chunk->first);
	unsigned long flags;

	copy_engine_count(chunk->engine, ENGINE_LOST, 1);
	copy_engine_learn(chunk->engine, chunk, false);
	chunk_visit_dst(chunk, folio_get);
	copy_engine_count(chunk->engine, ENGINE_QUARANTINED, 1);
	scoped_guard(spinlock_irqsave, &quarantine_lock)
		list_add(&chunk->quarantine, &quarantine);

	spin_lock_irqsave(&o->lock, flags);
	o->job->lost_pages += chunk->nr_pages;
	for (; left > 0; pair++) {
		set_bit(pair, o->job->failed);
		left -= folio_nr_pages(o->job->pairs[pair].src);
	}
	copy_chunk_end(chunk);
	spin_unlock_irqrestore(&o->lock, flags);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_lost);

/**
 * migrate_copy_chunk_stopped() - End the quarantine of a lost chunk.
 * @chunk: The chunk. Nothing may write to its destination any more.
 *
 * Context: Process context. Frees what the quarantine alone has kept.
 */
void migrate_copy_chunk_stopped(struct migrate_copy_chunk *chunk)
{
	struct migrate_copy_engine *engine = chunk->engine;

	scoped_guard(spinlock_irq, &quarantine_lock)
		list_del(&chunk->quarantine);
	chunk_visit_dst(chunk, folio_put);
	/* The engine may go with the last one. */
	if (atomic_long_dec_and_test(&engine->stats[ENGINE_QUARANTINED]))
		wake_up_var(&engine->stats[ENGINE_QUARANTINED]);
}
EXPORT_SYMBOL_GPL(migrate_copy_chunk_stopped);

static bool chunk_writes_to(const struct migrate_copy_chunk *chunk, struct folio *dst)
{
	unsigned long first = folio_pfn(dst), end = first + folio_nr_pages(dst);
	unsigned int i;

	for (i = 0; i < chunk->nr_ranges; i++) {
		unsigned long pfn = page_to_pfn(chunk->ranges[i].dst);

		if (pfn < end && first < pfn + chunk->ranges[i].nr)
			return true;
	}
	return false;
}

/**
 * __migrate_copy_quarantined() - May something still write to a folio?
 * @dst: The destination of a migration.
 *
 * Context: Any.
 * Return: true if a part of it is in quarantine.
 */
bool __migrate_copy_quarantined(struct folio *dst)
{
	struct migrate_copy_chunk *chunk;

	if (list_empty(&quarantine))
		return false;

	scoped_guard(spinlock_irqsave, &quarantine_lock) {
		list_for_each_entry(chunk, &quarantine, quarantine) {
			if (chunk_writes_to(chunk, dst))
				return true;
		}
	}
	return false;
}
