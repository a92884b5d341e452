// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm: which channel claims chunks of which job, and how jobs begin and end.
 */
#include "dcbm.h"

/* Protects the list of all shares. */
static DEFINE_SPINLOCK(shares_lock);
static LIST_HEAD(shares);

/* Whose turn it is to be the first. */
static atomic_t turn;

/**
 * dcbm_slots() - How many places for channels there are.
 *
 * Context: Any.
 * Return: Their number: so many of dcbm_chans can be used.
 */
unsigned int dcbm_slots(void)
{
	unsigned int nr = 0;

	/* Pairs with the release in free_slot(). */
	while (nr < MAX_CHANNELS && smp_load_acquire(&dcbm_chans[nr]))
		nr++;
	return nr;
}

/**
 * dcbm_ready() - Can a channel be given anything?
 * @dchan: The channel, whose lock is held.
 *
 * Context: Any.
 * Return: true if so: if it is there, nothing of it is lost, and it is not left
 * alone for a while.
 */
bool dcbm_ready(const struct dcbm_chan *dchan)
{
	return dchan->state == CHAN_LIVE && !dchan->lost &&
	       (!dchan->strikes || time_after_eq(jiffies, dchan->resume));
}

static int distance(const struct dcbm_chan *dchan, int nid)
{
	int from = READ_ONCE(dchan->nid);

	return from == NUMA_NO_NODE ? INT_MAX : node_distance(from, nid);
}

/*
 * How many channels are as near to the destination as this one; 0 if there is one that
 * is nearer.
 */
static unsigned int as_near(const struct dcbm_chan *dchan, const struct migrate_copy_share *share)
{
	int nid = share->info->dst_nid;
	int mine = distance(dchan, nid), other = mine;
	unsigned int i, as_near = 0, nr = dcbm_slots();

	for (i = 0; i < nr; i++) {
		if (READ_ONCE(dcbm_chans[i]->state) != CHAN_LIVE ||
		    READ_ONCE(dcbm_chans[i]->lost))
			continue;
		if (READ_ONCE(dcbm_near_only))
			other = distance(dcbm_chans[i], nid);
		if (other < mine)
			return 0;
		as_near += other == mine;
	}
	return as_near;
}

/* Room for a chunk; not counted are those that are about to end. */
static struct dcbm_desc *free_desc(struct dcbm_chan *dchan, unsigned int ending)
{
	unsigned int i, used = 0, max = READ_ONCE(dcbm_depth) + ending;
	struct dcbm_desc *desc = NULL;

	for (i = 0; i < NR_DESCS; i++) {
		if (dchan->descs[i].used)
			used++;
		else
			desc = &dchan->descs[i];
	}
	return used < max ? desc : NULL;
}

/*
 * Claim a chunk of a job; the rest is left to the pump. Returns -EBUSY if there is no
 * room for it, -ENODATA if there is none.
 */
static int claim_of(struct dcbm_chan *dchan, struct migrate_copy_share *share,
		    unsigned int ending)
{
	struct dcbm_desc *desc = free_desc(dchan, ending);
	struct migrate_copy_limits limits = dchan->limits;

	lockdep_assert_held(&dchan->lock);
	if (!desc || !dcbm_ready(dchan))
		return -EBUSY;
	limits.chunks = as_near(dchan, share) * READ_ONCE(dcbm_depth);
	if (!limits.chunks)
		return -EBUSY;
	if (!migrate_copy_chunk_claim(share, &desc->chunk, &limits))
		return -ENODATA;
	memset_startat(desc, 0, share);
	desc->share = share;
	desc->used = true;
	desc->number = ++dchan->number & GENMASK_ULL(NUMBER_BITS - 1, 0);
	return 0;
}

/**
 * dcbm_claim() - Claim a chunk, if there is room for it.
 * @dchan: The channel, whose lock is held.
 * @ending: How many of its chunks are about to end, and not counted.
 *
 * Of another job than the last one if there are several.
 *
 * Context: Any.
 * Return: true if there is a chunk that can be submitted.
 */
bool dcbm_claim(struct dcbm_chan *dchan, unsigned int ending)
{
	struct migrate_copy_share *share;

	scoped_guard(spinlock, &shares_lock) {
		list_for_each_entry(share, &shares, node) {
			if (!claim_of(dchan, share, ending)) {
				list_move_tail(&share->node, &shares);
				return true;
			}
		}
	}
	return false;
}

/* Each channel gets one chunk, then each a second one, and so on. */
static bool dcbm_start(void *priv, struct migrate_copy_share *share)
{
	unsigned int round, i, nr = dcbm_slots();
	unsigned int first = atomic_inc_return(&turn);
	bool any = false;
	int err = 0;

	for (round = 0; round < READ_ONCE(dcbm_depth); round++) {
		for (i = 0; i < nr && err != -ENODATA; i++) {
			struct dcbm_chan *dchan = dcbm_chans[(first + i) % nr];

			spin_lock_irq(&dchan->lock);
			err = claim_of(dchan, share, 0);
			if (!err) {
				dcbm_kick(dchan);
				spin_lock(&shares_lock);
				if (!any)
					list_add_tail(&share->node, &shares);
				spin_unlock(&shares_lock);
				any = true;
			}
			spin_unlock_irq(&dchan->lock);
		}
	}
	return any;
}

/* Do something with each chunk of a share; returns whether it is so for any. */
static bool each_chunk(struct migrate_copy_share *share,
		       bool (*fn)(struct dcbm_chan *dchan, struct dcbm_desc *desc))
{
	unsigned int c, i, nr = dcbm_slots();
	bool any = false;

	for (c = 0; c < nr; c++) {
		struct dcbm_chan *dchan = dcbm_chans[c];

		spin_lock_irq(&dchan->lock);
		for (i = 0; i < NR_DESCS; i++) {
			if (dchan->descs[i].used && dchan->descs[i].share == share)
				any |= fn(dchan, &dchan->descs[i]);
		}
		spin_unlock_irq(&dchan->lock);
	}
	return any;
}

static bool dcbm_stop(void *priv, struct migrate_copy_share *share)
{
	return each_chunk(share, dcbm_time_out);
}

static void dcbm_end(void *priv, struct migrate_copy_share *share)
{
	scoped_guard(spinlock_irq, &shares_lock)
		list_del(&share->node);
	each_chunk(share, dcbm_lose);
}

const struct migrate_copy_engine_ops dcbm_ops = {
	.start = dcbm_start,
	.stop = dcbm_stop,
	.end = dcbm_end,
};
