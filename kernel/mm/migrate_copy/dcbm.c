// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm, the DMA core batch migrator: a copy engine made of DMA channels.
 *
 * It takes any channels that copy memory to memory (DMA_MEMCPY), as many and of
 * those devices that the administrator says. Each channel claims chunks for
 * itself, as long as it has room: first when a job starts, then whenever a
 * transfer completes, in turn from all the jobs there are.
 *
 * Tickets
 * -------
 *
 * A chunk has up to 32 ranges, each of them a DMA descriptor. What the callback
 * of a descriptor gets is no pointer but a ticket: channel, chunk and range, and
 * a number that no other chunk of the channel has had. So a completion that is
 * reported twice, or after its channel was reset, finds nothing that it could
 * harm, and is counted.
 *
 * When something goes wrong
 * -------------------------
 *
 * A descriptor that fails, or that the channel does not take though it is empty,
 * fails its chunk. The rest of the chunk is not submitted, what is in flight of
 * it completes, and then the CPU copies it. In the second case something is short,
 * which may pass: the channel gets nothing for a while, twice as long each time.
 *
 * When chunks are late the channel is reset, in a work item, since that may
 * sleep: dmaengine_terminate_sync() makes sure that nothing is transferred any
 * more, and everything that the channel had is returned as failed. If the
 * channel cannot be terminated, or that takes too long, its chunks are lost, see
 * engine.c, and remain so until the transfer is reported after all or the channel
 * is terminated, which is tried again and again. Releasing a channel would not do:
 * there are drivers that stop nothing then.
 *
 * A channel that cannot be terminated, fails several times in a row, or takes
 * nothing for seconds, is released as soon as it has nothing in flight; the module
 * cannot go before that. Its place keeps its name, so that it is not requested
 * again, until the administrator asks for channels.
 *
 * Locks
 * -----
 *
 * A channel's lock protects its state and chunks; the lock of the shares protects
 * their list; then comes that of the job, in engine.c. All are spinlocks with
 * interrupts off, for callbacks come in any context. The channel's mutex serializes
 * reset and release; the engine's mutex the acquisition. No migration waits for
 * either of them.
 *
 * The driver of a channel is called in process context, without any of these locks:
 * there are drivers that disable bottom halves when they prepare or submit, which
 * must not be done with interrupts off, and some that sleep. One task at a time
 * submits to a channel; others leave it to him. So a callback calls no driver,
 * whose locks may be held. It claims the next chunk, and leaves the rest to a work
 * item, or to a caller that polls. Reset and release wait for who submits.
 */
#define pr_fmt(fmt) "dcbm: " fmt

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/cleanup.h>
#include <linux/cpufeature.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#define MAX_CHANNELS	64

/* Chunks that a channel can have at a time. */
#define MAX_DEPTH	4

/* One more is claimed while another one ends. */
#define NR_DESCS	(MAX_DEPTH + 1)

/* Failed chunks, or resets, in a row after which a channel is given up. */
#define MAX_FAILED	8
#define MAX_RESETS	3

/*
 * An empty channel that takes nothing is left alone for 2, 4, ... ms. After so many
 * times in a row, 4 seconds, it is given up, if it is the channel that refuses.
 */
#define MAX_SHORTAGES	11

/* Of so many descriptors, one interrupts in any case: others may wait for room. */
#define INTERRUPT_EVERY	8

/* How long channels are kept after the last job or request, unless they are held. */
#define IDLE_DELAY	HZ

/* How long a channel may take for what it has, before it is terminated. */
#define DRAIN_MS	100
#define DRAIN_SLEEP_US	20

/* How long the hardware may go on with what is said to be terminated. */
#define GRACE_MS	10

/* When to try again to terminate a channel. */
#define RETRY_DELAY	(HZ / 2)

#define DEVICES_SIZE	256

/* Room for the name of a channel: dma<number>chan<number>. */
#define LABEL_SIZE	32

static_assert(MIGRATE_COPY_CHUNK_RANGES <= 32);

enum chan_state { CHAN_CLOSED, CHAN_LIVE, CHAN_RESETTING, CHAN_BROKEN };

static const char * const state_names[] = {
	[CHAN_CLOSED]	 = "closed",
	[CHAN_LIVE]	 = "live",
	[CHAN_RESETTING] = "resetting",
	[CHAN_BROKEN]	 = "broken",
};

enum chan_stat {
	CHAN_CHUNKS,
	CHAN_BYTES,
	CHAN_FAILED,
	CHAN_REJECTED,
	CHAN_TIMEOUTS,
	CHAN_LOST,
	CHAN_SPURIOUS,
	CHAN_RETIRED,
	CHAN_NR_STATS,
};

static const char * const stat_names[] = {
	[CHAN_CHUNKS]	= "chunks",
	[CHAN_BYTES]	= "bytes",
	[CHAN_FAILED]	= "failed",
	[CHAN_REJECTED]	= "rejected",
	[CHAN_TIMEOUTS]	= "timeouts",
	[CHAN_LOST]	= "lost",
	[CHAN_SPURIOUS]	= "spurious",
	[CHAN_RETIRED]	= "retired",
};

static_assert(ARRAY_SIZE(stat_names) == CHAN_NR_STATS);

/* Files of a channel that are no counters. */
enum { CHAN_NAME = CHAN_NR_STATS, CHAN_NODE, CHAN_STATE, CHAN_NR_FILES };

/**
 * struct dcbm_desc - a chunk that a channel works on
 * @chunk: What to copy.
 * @share: Whose it is; NULL if it was given up as lost.
 * @used: Whether all this means anything.
 * @error: It has failed; nothing more of it is submitted.
 * @shortage: That is not for what the channel has done with it.
 * @interrupts: Each of its ranges raises an interrupt, and it is never polled.
 * @polled: It raises no interrupt.
 * @submitting: The next range is being handed to the channel, without the lock.
 * @submitted: Ranges that were handed to the channel, with that one.
 * @waiting: One bit for each of them that the channel has not reported.
 * @number: What makes its tickets unique.
 * @cookie: Of the last range that was submitted; 0 before the first.
 * @dst: DMA addresses of the ranges.
 * @src: DMA addresses of the ranges.
 */
struct dcbm_desc {
	struct migrate_copy_chunk chunk;
	struct migrate_copy_share *share;
	bool used;
	bool error;
	bool shortage;
	bool interrupts;
	bool polled;
	bool submitting;
	unsigned int submitted;
	u32 waiting;
	u64 number;
	dma_cookie_t cookie;
	dma_addr_t dst[MIGRATE_COPY_CHUNK_RANGES];
	dma_addr_t src[MIGRATE_COPY_CHUNK_RANGES];
};

/**
 * struct dcbm_file - a file of a channel in sysfs
 * @attr: The attribute.
 * @dchan: Whose.
 * @nr: Which: an enum chan_stat, or one of those that follow.
 */
struct dcbm_file {
	struct kobj_attribute attr;
	struct dcbm_chan *dchan;
	unsigned int nr;
};

/**
 * struct dcbm_chan - a place for a channel
 * @slot: Its number.
 * @mutex: Serializes reset and release.
 * @work: Resets or releases it, and ends quarantines.
 * @pump_work: Gives it more to do, after a callback.
 * @lock: Protects what follows.
 * @state: What it can be used for.
 * @chan: The channel, or NULL.
 * @label: The name of that. The channel's own goes with its device, which can be
 *	unbound while we have the channel.
 * @retired: The channel of that name was given up, and is not to be used.
 * @dev: The device that does its transfers.
 * @nid: The node of that.
 * @max_pages: Most base pages of a range.
 * @no_order: Transfers complete in any order.
 * @outstanding: Descriptors that were submitted and not reported.
 * @number: Of the last chunk.
 * @failed: Failed chunks in a row.
 * @resets: Resets in a row.
 * @shortages: How often in a row it took nothing though it was empty.
 * @resume: In jiffies, when to try again, after that.
 * @polling: Who looks at the channel without the lock.
 * @submitting: Somebody submits to the channel, partly without the lock.
 * @again: There may be something to submit.
 * @filling: The chunk that is not submitted to its end, or NULL.
 * @descs: Its chunks.
 * @stats: Counters.
 * @name: The name of its directory.
 * @files: Its files.
 * @attrs: The same, for sysfs.
 * @group: The same, for sysfs.
 */
struct dcbm_chan {
	unsigned int slot;
	struct mutex mutex;	/* Serializes reset and release */
	struct delayed_work work;
	struct work_struct pump_work;

	spinlock_t lock;	/* Protects what follows */
	enum chan_state state;
	struct dma_chan *chan;
	char label[LABEL_SIZE];
	bool retired;
	struct device *dev;
	int nid;
	unsigned int max_pages;
	bool no_order;
	unsigned int outstanding;
	u64 number;
	unsigned int failed;
	unsigned int resets;
	unsigned int shortages;
	unsigned long resume;
	unsigned int polling;
	bool submitting;
	bool again;
	struct dcbm_desc *filling;
	struct dcbm_desc descs[NR_DESCS];
	unsigned long stats[CHAN_NR_STATS];

	char name[16];
	struct dcbm_file files[CHAN_NR_FILES];
	struct attribute *attrs[CHAN_NR_FILES + 1];
	struct attribute_group group;
};

/* Made when first needed, and kept: a late callback always finds one. */
static struct dcbm_chan *chans[MAX_CHANNELS];
static unsigned int nr_chans;

/* Channels that can be used, and those of a node. */
static atomic_t nr_live;
static atomic_t nr_live_on[MAX_NUMNODES];

/* Protects the list of all shares. */
static DEFINE_SPINLOCK(shares_lock);
static LIST_HEAD(shares);

/* Serializes acquisition; protects wanted, devices and leaving. */
static DEFINE_MUTEX(dcbm_mutex);
static unsigned int wanted;
static char devices[DEVICES_SIZE] = "any";
static bool leaving;

static unsigned int near_only = 1;
static unsigned int hold = 1;
static unsigned int depth = 2;
static unsigned int descriptors = 32;
static unsigned int poll_kb = 64;

static struct migrate_copy_engine *engine;
static struct workqueue_struct *dcbm_wq;
static struct workqueue_struct *pump_wq;

/*
 * Tickets
 */

#define TICKET_RANGE	GENMASK_ULL(7, 0)
#define TICKET_DESC	GENMASK_ULL(15, 8)
#define TICKET_SLOT	GENMASK_ULL(23, 16)
#define TICKET_NUMBER	GENMASK_ULL(63, 24)

static void *make_ticket(const struct dcbm_chan *dchan,
			 const struct dcbm_desc *desc, unsigned int range)
{
	return (void *)(unsigned long)(FIELD_PREP(TICKET_RANGE, range) |
				       FIELD_PREP(TICKET_DESC, desc - dchan->descs) |
				       FIELD_PREP(TICKET_SLOT, dchan->slot) |
				       FIELD_PREP(TICKET_NUMBER, desc->number));
}

/* The chunk of a ticket, if it still waits for that range. */
static struct dcbm_desc *find_desc(struct dcbm_chan *dchan, u64 ticket)
{
	struct dcbm_desc *desc = &dchan->descs[FIELD_GET(TICKET_DESC, ticket)];

	if (!desc->used || desc->number != FIELD_GET(TICKET_NUMBER, ticket) ||
	    !(desc->waiting & BIT(FIELD_GET(TICKET_RANGE, ticket))))
		return NULL;
	return desc;
}

/*
 * Channels at work; all with the channel's lock held
 */

static void set_state(struct dcbm_chan *dchan, enum chan_state state)
{
	int change = (state == CHAN_LIVE) - (dchan->state == CHAN_LIVE);

	lockdep_assert_held(&dchan->lock);
	WRITE_ONCE(dchan->state, state);
	atomic_add(change, &nr_live);
	if (dchan->nid != NUMA_NO_NODE)
		atomic_add(change, &nr_live_on[dchan->nid]);
}

/* Give the channel up, after too much has gone wrong. */
static void retire(struct dcbm_chan *dchan, const char *why)
{
	if (dchan->state == CHAN_CLOSED || dchan->state == CHAN_BROKEN)
		return;
	pr_warn_ratelimited("%s: %s, not used any more\n", dchan->label, why);
	dchan->stats[CHAN_RETIRED]++;
	WRITE_ONCE(dchan->retired, true);
	set_state(dchan, CHAN_BROKEN);
	mod_delayed_work(dcbm_wq, &dchan->work, 0);
}

static void unmap(struct dcbm_chan *dchan, struct dcbm_desc *desc,
		  unsigned int range)
{
	size_t len = desc->chunk.ranges[range].nr * PAGE_SIZE;

	dma_unmap_page(dchan->dev, desc->src[range], len, DMA_TO_DEVICE);
	dma_unmap_page(dchan->dev, desc->dst[range], len, DMA_FROM_DEVICE);
}

static bool map(struct dcbm_chan *dchan, struct dcbm_desc *desc,
		unsigned int nr)
{
	struct migrate_copy_range *range = &desc->chunk.ranges[nr];
	size_t len = range->nr * PAGE_SIZE;

	desc->src[nr] = dma_map_page(dchan->dev, range->src, 0, len,
				     DMA_TO_DEVICE);
	if (dma_mapping_error(dchan->dev, desc->src[nr]))
		return false;
	desc->dst[nr] = dma_map_page(dchan->dev, range->dst, 0, len,
				     DMA_FROM_DEVICE);
	if (dma_mapping_error(dchan->dev, desc->dst[nr])) {
		dma_unmap_page(dchan->dev, desc->src[nr], len, DMA_TO_DEVICE);
		return false;
	}
	return true;
}

/*
 * Nothing of the chunk is in flight, and nothing will be. A lost one is left to
 * the work item, which ends its quarantine.
 */
static void finish(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	bool ok = !desc->error;

	if (dchan->filling == desc)
		dchan->filling = NULL;
	if (!desc->share) {
		mod_delayed_work(dcbm_wq, &dchan->work, 0);
		return;
	}
	desc->used = false;
	if (ok) {
		dchan->stats[CHAN_CHUNKS]++;
		dchan->stats[CHAN_BYTES] += desc->chunk.nr_pages * PAGE_SIZE;
		dchan->failed = 0;
		dchan->resets = 0;
	} else {
		dchan->stats[CHAN_FAILED]++;
		if (!desc->shortage && ++dchan->failed == MAX_FAILED)
			retire(dchan, "too many failed transfers in a row");
	}
	migrate_copy_chunk_return(&desc->chunk, ok);
}

static bool is_over(const struct dcbm_desc *desc)
{
	return !desc->waiting && !desc->submitting &&
	       (desc->error || desc->submitted == desc->chunk.nr_ranges);
}

static void not_in_flight(struct dcbm_chan *dchan, struct dcbm_desc *desc,
			  unsigned int nr)
{
	desc->waiting &= ~BIT(nr);
	WARN_ON_ONCE(!dchan->outstanding--);
}

static void dcbm_done(void *param, const struct dmaengine_result *result);

/* Map a range and submit it. Without the lock: it may complete before we return. */
static int hand_over(struct dcbm_chan *dchan, struct dcbm_desc *desc,
		     unsigned int nr, unsigned long flags, dma_cookie_t *cookie)
{
	struct dma_async_tx_descriptor *tx;

	if (!map(dchan, desc, nr))
		return -ENOMEM;
	tx = dmaengine_prep_dma_memcpy(dchan->chan, desc->dst[nr],
				       desc->src[nr],
				       desc->chunk.ranges[nr].nr * PAGE_SIZE,
				       flags);
	if (!tx) {
		unmap(dchan, desc, nr);
		return -EBUSY;
	}
	tx->callback_result = dcbm_done;
	tx->callback_param = make_ticket(dchan, desc, nr);
	*cookie = dmaengine_submit(tx);
	return dma_submit_error(*cookie) ? -EIO : 0;
}

/*
 * Hand the next range to the channel. Returns -EAGAIN if it has no room for it
 * now, and another error if the chunk fails: -ENOMEM or -EBUSY if something is
 * short, at the DMA API or at the channel. The chunk may have failed, or been lost,
 * for another reason meanwhile.
 */
static int submit(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	unsigned int nr = desc->submitted, max = READ_ONCE(descriptors);
	unsigned long flags = DMA_CTRL_ACK;
	bool empty = !dchan->outstanding;
	dma_cookie_t cookie;
	int err;

	lockdep_assert_held(&dchan->lock);
	if (dchan->outstanding >= max)
		return -EAGAIN;
	if (desc->interrupts || nr % INTERRUPT_EVERY == INTERRUPT_EVERY - 1 ||
	    dchan->outstanding + 1 >= max ||
	    (!desc->polled && nr == desc->chunk.nr_ranges - 1))
		flags |= DMA_PREP_INTERRUPT;

	/* For all others it is in flight from here on. */
	desc->submitting = true;
	desc->waiting |= BIT(nr);
	desc->submitted++;
	dchan->outstanding++;
	spin_unlock_irq(&dchan->lock);
	err = hand_over(dchan, desc, nr, flags, &cookie);
	spin_lock_irq(&dchan->lock);
	desc->submitting = false;
	if (!err) {
		desc->cookie = cookie;
		dchan->shortages = 0;
		return 0;
	}

	desc->submitted--;
	/* There are drivers that have called back as well (idxd). */
	if (desc->waiting & BIT(nr)) {
		not_in_flight(dchan, desc, nr);
		if (err == -EIO)
			unmap(dchan, desc, nr);
	}
	/* If it has become empty by now, we were told that, and try again. */
	return err == -EIO || empty ? err : -EAGAIN;
}

/* Room for a chunk; not counted are those that are about to end. */
static struct dcbm_desc *free_desc(struct dcbm_chan *dchan, unsigned int ending)
{
	unsigned int i, used = 0, max = READ_ONCE(depth) + ending;
	struct dcbm_desc *desc = NULL;

	for (i = 0; i < NR_DESCS; i++) {
		if (dchan->descs[i].used)
			used++;
		else
			desc = &dchan->descs[i];
	}
	return used < max ? desc : NULL;
}

/* Is there a channel that is nearer to the destination? */
static bool too_far(const struct dcbm_chan *dchan,
		    const struct migrate_copy_share *share)
{
	int nid = migrate_copy_share_info(share)->dst_nid;

	return READ_ONCE(near_only) && dchan->nid != nid &&
	       atomic_read(&nr_live_on[nid]);
}

/* Claim a chunk, of another job than the last one if there are several. */
static bool claim(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	struct migrate_copy_share *share;
	bool claimed = false;

	spin_lock(&shares_lock);
	list_for_each_entry(share, &shares, node) {
		claimed = !too_far(dchan, share) &&
			  migrate_copy_chunk_claim(share, &desc->chunk,
						   dchan->max_pages);
		if (claimed) {
			list_move_tail(&share->node, &shares);
			desc->share = share;
			break;
		}
	}
	spin_unlock(&shares_lock);
	return claimed;
}

static struct dcbm_desc *next_desc(struct dcbm_chan *dchan, unsigned int ending)
{
	struct dcbm_desc *desc = free_desc(dchan, ending);

	if (!desc || !claim(dchan, desc))
		return NULL;
	desc->used = true;
	desc->error = false;
	desc->shortage = false;
	desc->interrupts = dchan->no_order || !READ_ONCE(poll_kb);
	desc->polled = !desc->interrupts && desc->chunk.nr_pages * PAGE_SIZE <=
					    READ_ONCE(poll_kb) * SZ_1K;
	desc->submitting = false;
	desc->submitted = 0;
	desc->waiting = 0;
	desc->cookie = 0;
	desc->number = ++dchan->number & FIELD_MAX(TICKET_NUMBER);
	return desc;
}

/* Leave an empty channel alone that cannot take anything. */
static void back_off(struct dcbm_chan *dchan, int err)
{
	if (dchan->shortages < MAX_SHORTAGES)
		dchan->shortages++;
	else if (err == -EBUSY)
		retire(dchan, "takes nothing");
	dchan->resume = jiffies + msecs_to_jiffies(BIT(dchan->shortages));
}

static bool ready(const struct dcbm_chan *dchan)
{
	return dchan->state == CHAN_LIVE &&
	       (!dchan->shortages || time_after_eq(jiffies, dchan->resume));
}

/*
 * What is in flight of a chunk may come back without an interrupt, and the caller
 * may sleep: see that somebody polls.
 */
static void have_polled(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	if (desc->polled && desc->waiting && desc->share)
		migrate_copy_share_kick(desc->share);
}

/* A chunk has failed: nothing more of it is submitted. */
static void fail(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	desc->error = true;
	if (dchan->filling != desc)
		return;
	dchan->filling = NULL;
	/* What it has need not interrupt: its last one would. */
	desc->polled = !desc->interrupts;
	have_polled(dchan, desc);
}

/* A range was submitted, or not, for that reason. */
static void submitted(struct dcbm_chan *dchan, struct dcbm_desc *desc, int err)
{
	bool mine = dchan->filling == desc;

	if (err == -EAGAIN) {
		/* It has less room than we thought: none may interrupt. */
		if (mine)
			desc->polled = !desc->interrupts;
	} else if (err) {
		dchan->stats[CHAN_REJECTED]++;
		pr_warn_ratelimited("%s: descriptor not taken (%d)\n",
				    dchan->label, err);
		desc->shortage = err == -ENOMEM || err == -EBUSY;
		if (desc->shortage)
			back_off(dchan, err);
		fail(dchan, desc);
	} else if (mine && desc->submitted == desc->chunk.nr_ranges) {
		dchan->filling = NULL;
	}
	/* All of it, or all that will be: what comes now may not interrupt. */
	if (err == -EAGAIN || dchan->filling != desc)
		have_polled(dchan, desc);
	if (is_over(desc))
		finish(dchan, desc);
}

/*
 * Give the channel as much to do as it can hold. Drops the lock meanwhile. One
 * that begins at once may never be full, and who fills it has folios of his own
 * to wait for: after some chunks somebody else goes on.
 */
static void fill(struct dcbm_chan *dchan)
{
	unsigned int chunks = 0;
	bool issue = false;
	int err = 0;

	while (err != -EAGAIN && ready(dchan)) {
		struct dcbm_desc *desc = dchan->filling;

		if (!desc && chunks++ == NR_DESCS) {
			WRITE_ONCE(dchan->again, true);
			break;
		}
		if (!desc)
			desc = next_desc(dchan, 0);
		if (!desc)
			break;
		dchan->filling = desc;

		err = submit(dchan, desc);
		issue |= !err;
		submitted(dchan, desc, err);
	}
	if (!issue)
		return;
	/* Also if it is broken now: it may complete before it is terminated. */
	spin_unlock_irq(&dchan->lock);
	dma_async_issue_pending(dchan->chan);
	spin_lock_irq(&dchan->lock);
}

/* Fill the channel, or have it filled by who does so already. */
static void pump(struct dcbm_chan *dchan)
{
	spin_lock_irq(&dchan->lock);
	WRITE_ONCE(dchan->again, true);
	if (!dchan->submitting) {
		WRITE_ONCE(dchan->submitting, true);
		WRITE_ONCE(dchan->again, false);
		fill(dchan);
		WRITE_ONCE(dchan->submitting, false);
		/* Whoever we are, we have done our part. */
		if (dchan->again)
			queue_work(pump_wq, &dchan->pump_work);
	}
	spin_unlock_irq(&dchan->lock);
}

static void pump_work_fn(struct work_struct *work)
{
	struct dcbm_chan *dchan = container_of(work, struct dcbm_chan,
					       pump_work);

	if (READ_ONCE(dchan->again))
		pump(dchan);
}

/* Wait for who submits to a channel that takes nothing more. */
static void wait_for_submitter(struct dcbm_chan *dchan)
{
	while (READ_ONCE(dchan->submitting))
		usleep_range(DRAIN_SLEEP_US, 2 * DRAIN_SLEEP_US);
	/* Let him leave. */
	spin_lock_irq(&dchan->lock);
	spin_unlock_irq(&dchan->lock);
}

/*
 * Claim the next chunk, in a callback, and have it submitted. Not counted are
 * chunks that are about to end.
 */
static void claim_next(struct dcbm_chan *dchan, unsigned int ending)
{
	if (!ready(dchan))
		return;
	if (!dchan->filling)
		dchan->filling = next_desc(dchan, ending);
	if (!dchan->filling)
		return;
	WRITE_ONCE(dchan->again, true);
	if (!dchan->submitting)
		queue_work(pump_wq, &dchan->pump_work);
}

/* The callback of a descriptor, in whatever context, maybe late or once more. */
static void dcbm_done(void *param, const struct dmaengine_result *result)
{
	u64 ticket = (unsigned long)param;
	struct dcbm_chan *dchan = chans[FIELD_GET(TICKET_SLOT, ticket)];
	unsigned int range = FIELD_GET(TICKET_RANGE, ticket);
	struct dcbm_desc *desc;
	unsigned long flags;

	spin_lock_irqsave(&dchan->lock, flags);
	desc = find_desc(dchan, ticket);
	if (!desc) {
		dchan->stats[CHAN_SPURIOUS]++;
		goto unlock;
	}
	not_in_flight(dchan, desc, range);
	unmap(dchan, desc, range);
	if (result && result->result != DMA_TRANS_NOERROR) {
		pr_warn_ratelimited("%s: transfer failed (%d)\n", dchan->label,
				    result->result);
		fail(dchan, desc);
	}
	if (is_over(desc)) {
		/*
		 * Claim first: in between nothing might be in flight, and the
		 * caller would take that for the end.
		 */
		if (!desc->error)
			claim_next(dchan, 1);
		finish(dchan, desc);
	}
	claim_next(dchan, 0);
unlock:
	spin_unlock_irqrestore(&dchan->lock, flags);
}

/*
 * Reset and release
 */

/*
 * Nothing is transferred any more, and no callback is running: return what the
 * channel had. Those that were lost are left for end_quarantine().
 */
static void drop_all(struct dcbm_chan *dchan)
{
	unsigned int i;
	unsigned long nr;

	lockdep_assert_held(&dchan->lock);
	for (i = 0; i < NR_DESCS; i++) {
		struct dcbm_desc *desc = &dchan->descs[i];
		unsigned long waiting = desc->waiting;

		if (!desc->used)
			continue;
		for_each_set_bit(nr, &waiting, MIGRATE_COPY_CHUNK_RANGES)
			unmap(dchan, desc, nr);
		desc->waiting = 0;
		desc->error = true;
		finish(dchan, desc);
	}
	dchan->outstanding = 0;
}

/* Give up a chunk of which something may be in flight. */
static void lose(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	lockdep_assert_held(&dchan->lock);
	desc->error = true;
	if (dchan->filling == desc)
		dchan->filling = NULL;
	if (is_over(desc)) {
		finish(dchan, desc);
		return;
	}
	dchan->stats[CHAN_LOST]++;
	desc->share = NULL;
	migrate_copy_chunk_lost(&desc->chunk);
}

static void lose_all(struct dcbm_chan *dchan)
{
	unsigned int i;

	for (i = 0; i < NR_DESCS; i++) {
		if (dchan->descs[i].used && dchan->descs[i].share)
			lose(dchan, &dchan->descs[i]);
	}
}

/* Chunks that were lost, but are over by now. */
static void end_quarantine(struct dcbm_chan *dchan)
{
	unsigned int i;

	for (i = 0; i < NR_DESCS; i++) {
		struct dcbm_desc *desc = &dchan->descs[i];
		bool over;

		spin_lock_irq(&dchan->lock);
		over = desc->used && !desc->share && is_over(desc);
		spin_unlock_irq(&dchan->lock);
		if (!over)
			continue;
		/* Nobody else touches it: it is used, and waits for nothing. */
		migrate_copy_chunk_stopped(&desc->chunk);
		spin_lock_irq(&dchan->lock);
		desc->used = false;
		spin_unlock_irq(&dchan->lock);
		pump(dchan);
	}
}

/*
 * There are drivers that say that they have terminated everything, but do not stop
 * the hardware (zynqmp_dma, ptdma). What was late may well be slow, not dead: let
 * it end before somebody else gets its destination.
 */
static int terminate(struct dcbm_chan *dchan)
{
	int err = dmaengine_terminate_sync(dchan->chan);

	if (!err && READ_ONCE(dchan->outstanding))
		msleep(GRACE_MS);
	return err;
}

static void reset(struct dcbm_chan *dchan)
{
	int err;

	wait_for_submitter(dchan);
	err = terminate(dchan);
	spin_lock_irq(&dchan->lock);
	if (err) {
		retire(dchan, "cannot be terminated");
		lose_all(dchan);
	} else {
		drop_all(dchan);
		if (++dchan->resets == MAX_RESETS)
			retire(dchan, "too many time-outs in a row");
	}
	/* The chunks that were dropped may have been too many, too. */
	if (dchan->state == CHAN_RESETTING)
		set_state(dchan, CHAN_LIVE);
	spin_unlock_irq(&dchan->lock);
	pump(dchan);
}

/*
 * Have the driver look, and call back for what is done. Some take locks of their
 * tasklet as they are then (plx_dma).
 */
static void look(struct dcbm_chan *dchan, dma_cookie_t cookie)
{
	local_bh_disable();
	dma_async_is_tx_complete(dchan->chan, cookie, NULL, NULL);
	local_bh_enable();
}

/*
 * The cookie of something that the channel has not reported, and need not report
 * by itself; 0 if there is none.
 */
static dma_cookie_t pending_cookie(const struct dcbm_chan *dchan)
{
	unsigned int i;

	for (i = 0; i < NR_DESCS; i++) {
		const struct dcbm_desc *desc = &dchan->descs[i];

		if (desc->used && desc->waiting && !desc->interrupts)
			return desc->cookie;
	}
	return 0;
}

/*
 * Let a channel that works, and gets nothing more, complete what it has: then none
 * of it has to be copied again. There are drivers, too, that do not bear to be
 * terminated while they report (zynqmp_dma goes round in circles): after a time-out
 * that cannot be avoided. A caller whose chunks are late does not wait for this.
 */
static void drain(struct dcbm_chan *dchan, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);
	unsigned long timeouts;
	dma_cookie_t cookie;

	spin_lock_irq(&dchan->lock);
	timeouts = dchan->stats[CHAN_TIMEOUTS];
	while (dchan->polling ||
	       (dchan->outstanding && time_before(jiffies, end) &&
		dchan->stats[CHAN_TIMEOUTS] == timeouts)) {
		cookie = pending_cookie(dchan);
		spin_unlock_irq(&dchan->lock);
		/* What raises no interrupt is reported when somebody asks. */
		if (cookie)
			look(dchan, cookie);
		usleep_range(DRAIN_SLEEP_US, 2 * DRAIN_SLEEP_US);
		spin_lock_irq(&dchan->lock);
	}
	spin_unlock_irq(&dchan->lock);
}

/*
 * Release the channel, whatever it is doing; later, if it can neither be
 * terminated nor has reported everything. The mutex is held.
 */
static void close(struct dcbm_chan *dchan)
{
	bool works, busy;
	int err;

	spin_lock_irq(&dchan->lock);
	works = dchan->state != CHAN_RESETTING;
	set_state(dchan, CHAN_BROKEN);
	spin_unlock_irq(&dchan->lock);
	wait_for_submitter(dchan);
	drain(dchan, works ? DRAIN_MS : 0);

	err = terminate(dchan);
	spin_lock_irq(&dchan->lock);
	if (err)
		lose_all(dchan);
	else
		drop_all(dchan);
	busy = dchan->outstanding;
	spin_unlock_irq(&dchan->lock);
	if (busy) {
		mod_delayed_work(dcbm_wq, &dchan->work, RETRY_DELAY);
		return;
	}

	dma_release_channel(dchan->chan);
	spin_lock_irq(&dchan->lock);
	WRITE_ONCE(dchan->chan, NULL);
	set_state(dchan, CHAN_CLOSED);
	spin_unlock_irq(&dchan->lock);
	put_device(dchan->dev);
}

static void chan_work(struct work_struct *work)
{
	struct dcbm_chan *dchan = container_of(work, struct dcbm_chan,
					       work.work);

	guard(mutex)(&dchan->mutex);
	if (READ_ONCE(dchan->state) == CHAN_RESETTING)
		reset(dchan);
	if (READ_ONCE(dchan->state) == CHAN_BROKEN)
		close(dchan);
	end_quarantine(dchan);
}

static void close_channel(struct dcbm_chan *dchan)
{
	guard(mutex)(&dchan->mutex);
	if (dchan->chan)
		close(dchan);
	end_quarantine(dchan);
}

/*
 * Acquisition; all with dcbm_mutex held
 */

/* Is the device of a channel one of those to use? */
static bool device_listed(const struct dma_chan *chan)
{
	const char *name = dev_name(chan->device->dev), *word = devices;
	size_t len;

	if (!strcmp(devices, "any"))
		return true;
	for (; *word; word += len + strspn(word + len, " ,")) {
		len = strcspn(word, " ,");
		if (len == strlen(name) && !strncmp(word, name, len))
			return true;
	}
	return false;
}

/* The device that does the transfers, for the DMA API. */
static struct device *transfer_device(struct dma_chan *chan)
{
	return chan->device->dev;
}

static unsigned int range_limit(struct dma_chan *chan)
{
	struct device *dev = transfer_device(chan);
	size_t max = min_t(size_t, dma_get_max_seg_size(dev),
			   dma_max_mapping_size(dev));

	return min_t(size_t, max / PAGE_SIZE, UINT_MAX);
}

/*
 * A device that was unregistered can be found for as long as somebody has one of
 * its channels. The others are of no use, and have no name any more. Those that
 * are registered are counted.
 */
static bool registered(const struct dma_chan *chan)
{
	return list_count_nodes(&chan->device->channels) ==
	       chan->device->chancnt;
}

/* Was a channel given up? */
static bool was_retired(struct dma_chan *chan)
{
	unsigned int i;

	for (i = 0; i < nr_chans; i++) {
		if (READ_ONCE(chans[i]->retired) &&
		    !strcmp(chans[i]->label, dma_chan_name(chan)))
			return true;
	}
	return false;
}

/**
 * struct search - what channel to look for
 * @nid: On which node, or NUMA_NO_NODE for any.
 * @label: The name of the last one that suits, which is the one that is found.
 */
struct search {
	int nid;
	char label[LABEL_SIZE];
};

/* Under the lock of dmaengine: the name is there, and will not be for long. */
static bool suits(struct dma_chan *chan, void *data)
{
	struct search *search = data;

	if (!registered(chan) || !device_listed(chan) || !range_limit(chan) ||
	    chan->device->copy_align > PAGE_SHIFT || was_retired(chan))
		return false;
	if (search->nid != NUMA_NO_NODE &&
	    search->nid != dev_to_node(transfer_device(chan)))
		return false;
	strscpy(search->label, dma_chan_name(chan));
	return true;
}

static ssize_t file_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct dcbm_file *file = container_of(attr, struct dcbm_file, attr);
	struct dcbm_chan *dchan = file->dchan;
	ssize_t len;

	spin_lock_irq(&dchan->lock);
	switch (file->nr) {
	case CHAN_NAME:
		len = sysfs_emit(buf, "%s\n",
				 dchan->chan ? dchan->label : "none");
		break;
	case CHAN_NODE:
		len = sysfs_emit(buf, "%d\n", dchan->nid);
		break;
	case CHAN_STATE:
		len = sysfs_emit(buf, "%s\n", state_names[dchan->state]);
		break;
	default:
		len = sysfs_emit(buf, "%lu\n", dchan->stats[file->nr]);
	}
	spin_unlock_irq(&dchan->lock);
	return len;
}

static const char *file_name(unsigned int nr)
{
	switch (nr) {
	case CHAN_NAME:
		return "name";
	case CHAN_NODE:
		return "node";
	case CHAN_STATE:
		return "state";
	}
	return stat_names[nr];
}

static int add_files(struct dcbm_chan *dchan)
{
	unsigned int i;

	for (i = 0; i < CHAN_NR_FILES; i++) {
		struct dcbm_file *file = &dchan->files[i];

		sysfs_attr_init(&file->attr.attr);
		file->attr.attr.name = file_name(i);
		file->attr.attr.mode = 0444;
		file->attr.show = file_show;
		file->dchan = dchan;
		file->nr = i;
		dchan->attrs[i] = &file->attr.attr;
	}
	snprintf(dchan->name, sizeof(dchan->name), "channel%u", dchan->slot);
	dchan->group.name = dchan->name;
	dchan->group.attrs = dchan->attrs;
	return sysfs_create_group(migrate_copy_engine_kobj(engine),
				  &dchan->group);
}

/* A place without a channel; a new one if need be. */
static struct dcbm_chan *free_slot(void)
{
	struct dcbm_chan *dchan;
	unsigned int i;

	for (i = 0; i < nr_chans; i++) {
		if (!READ_ONCE(chans[i]->chan) && !READ_ONCE(chans[i]->retired))
			return chans[i];
	}
	if (i == MAX_CHANNELS)
		return NULL;

	dchan = kvzalloc_obj(*dchan);
	if (!dchan)
		return NULL;
	dchan->slot = i;
	dchan->nid = NUMA_NO_NODE;
	mutex_init(&dchan->mutex);
	spin_lock_init(&dchan->lock);
	INIT_DELAYED_WORK(&dchan->work, chan_work);
	INIT_WORK(&dchan->pump_work, pump_work_fn);
	if (add_files(dchan)) {
		kvfree(dchan);
		return NULL;
	}
	chans[i] = dchan;
	/* Who sees the number must see what is there. */
	smp_store_release(&nr_chans, i + 1);
	return dchan;
}

static void open_channel(struct dcbm_chan *dchan, struct dma_chan *chan,
			 const char *label)
{
	guard(mutex)(&dchan->mutex);
	spin_lock_irq(&dchan->lock);
	WRITE_ONCE(dchan->chan, chan);
	strscpy(dchan->label, label);
	dchan->dev = get_device(transfer_device(chan));
	dchan->nid = dev_to_node(dchan->dev);
	dchan->max_pages = range_limit(chan);
	dchan->no_order = dma_has_cap(DMA_COMPLETION_NO_ORDER,
				      chan->device->cap_mask);
	dchan->failed = 0;
	dchan->resets = 0;
	dchan->shortages = 0;
	set_state(dchan, CHAN_LIVE);
	spin_unlock_irq(&dchan->lock);
}

/* One channel more, on the node if there is one; false if there is none. */
static bool acquire_one(int nid)
{
	struct dcbm_chan *dchan = free_slot();
	struct search search = { .nid = nid };
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	if (!dchan)
		return false;
	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	chan = dma_request_channel(mask, suits, &search);
	if (!chan) {
		search.nid = NUMA_NO_NODE;
		chan = dma_request_channel(mask, suits, &search);
	}
	if (!chan)
		return false;
	open_channel(dchan, chan, search.label);
	return true;
}

/* Channels that are there, with or without those that are broken. */
static unsigned int count_open(bool broken)
{
	unsigned int i, nr = 0;

	for (i = 0; i < nr_chans; i++) {
		enum chan_state state = READ_ONCE(chans[i]->state);

		nr += state == CHAN_LIVE || state == CHAN_RESETTING ||
		      (broken && state == CHAN_BROKEN);
	}
	return nr;
}

/* Somebody asks for channels: those that were given up may be used again. */
static void forgive_all(void)
{
	unsigned int i;

	for (i = 0; i < nr_chans; i++)
		WRITE_ONCE(chans[i]->retired, false);
}

/* Have as many channels as are wanted, or all there are, of all nodes in turn. */
static void adjust(void)
{
	unsigned int i, have = count_open(false);
	int nid = first_online_node;

	for (i = nr_chans; i-- && have > wanted;) {
		enum chan_state state = READ_ONCE(chans[i]->state);

		if (state != CHAN_LIVE && state != CHAN_RESETTING)
			continue;
		close_channel(chans[i]);
		have--;
	}
	while (have < wanted && !leaving && acquire_one(nid)) {
		have++;
		nid = next_online_node(nid);
		if (nid == MAX_NUMNODES)
			nid = first_online_node;
	}
}

static void close_all(void)
{
	unsigned int i;

	for (i = 0; i < nr_chans; i++)
		close_channel(chans[i]);
}

static void idle_work_fn(struct work_struct *work)
{
	guard(mutex)(&dcbm_mutex);
	if (!READ_ONCE(hold) && list_empty(&shares))
		close_all();
}

static DECLARE_DELAYED_WORK(idle_work, idle_work_fn);

/*
 * Channels may be idle from now on: after the last job, and after they were
 * requested, for no job need follow.
 */
static void may_be_idle(void)
{
	if (!READ_ONCE(hold))
		mod_delayed_work(system_unbound_wq, &idle_work, IDLE_DELAY);
}

static void acquire_work_fn(struct work_struct *work)
{
	guard(mutex)(&dcbm_mutex);
	/* It may be asked for as soon as it is registered, before we know it. */
	if (engine) {
		adjust();
		may_be_idle();
	}
}

static DECLARE_WORK(acquire_work, acquire_work_fn);

/*
 * Operations of the engine
 */

static bool dcbm_can_copy(void *priv, const struct migrate_copy_info *info)
{
	if (atomic_read(&nr_live))
		return true;
	/* Not for this job, but for those that follow. */
	if (!READ_ONCE(hold) && READ_ONCE(wanted))
		queue_work(system_unbound_wq, &acquire_work);
	return false;
}

static unsigned int slots(void)
{
	/* Pairs with the release in free_slot(): the places are there. */
	return smp_load_acquire(&nr_chans);
}

static void pump_all(void)
{
	unsigned int i, nr = slots();

	for (i = 0; i < nr; i++)
		pump(chans[i]);
}

static bool dcbm_start(void *priv, struct migrate_copy_share *share)
{
	spin_lock_irq(&shares_lock);
	list_add_tail(&share->node, &shares);
	spin_unlock_irq(&shares_lock);
	pump_all();
	return true;
}

/* What to ask a channel for, if it has a chunk that raises no interrupt. */
static bool polled_cookie(struct dcbm_chan *dchan,
			  const struct migrate_copy_share *share,
			  dma_cookie_t *cookie)
{
	unsigned int i;
	bool found = false;

	spin_lock_irq(&dchan->lock);
	for (i = 0; i < NR_DESCS && dchan->state == CHAN_LIVE; i++) {
		struct dcbm_desc *desc = &dchan->descs[i];

		if (desc->used && desc->polled && desc->share == share &&
		    desc->waiting && desc->cookie) {
			*cookie = desc->cookie;
			dchan->polling++;
			found = true;
			break;
		}
	}
	spin_unlock_irq(&dchan->lock);
	return found;
}

static bool dcbm_poll(void *priv, struct migrate_copy_share *share)
{
	unsigned int i, nr = slots();
	bool any = false;

	for (i = 0; i < nr; i++) {
		struct dcbm_chan *dchan = chans[i];
		dma_cookie_t cookie;

		if (polled_cookie(dchan, share, &cookie)) {
			look(dchan, cookie);
			spin_lock_irq(&dchan->lock);
			dchan->polling--;
			spin_unlock_irq(&dchan->lock);
			any = true;
		}
		/* We are here before the work item, and need not wait for it. */
		if (READ_ONCE(dchan->again))
			pump(dchan);
	}
	return any;
}

static bool has_chunk_of(const struct dcbm_chan *dchan,
			 const struct migrate_copy_share *share)
{
	unsigned int i;

	for (i = 0; i < NR_DESCS; i++) {
		if (dchan->descs[i].used && dchan->descs[i].share == share)
			return true;
	}
	return false;
}

/* A chunk is late: have the channel reset. */
static void time_out(struct dcbm_chan *dchan)
{
	lockdep_assert_held(&dchan->lock);
	dchan->stats[CHAN_TIMEOUTS]++;
	if (dchan->state != CHAN_LIVE)
		return;
	pr_warn_ratelimited("%s: transfer timed out\n", dchan->label);
	set_state(dchan, CHAN_RESETTING);
	mod_delayed_work(dcbm_wq, &dchan->work, 0);
}

static void dcbm_stop(void *priv, struct migrate_copy_share *share)
{
	unsigned int i, nr = slots();

	for (i = 0; i < nr; i++) {
		spin_lock_irq(&chans[i]->lock);
		if (has_chunk_of(chans[i], share))
			time_out(chans[i]);
		spin_unlock_irq(&chans[i]->lock);
	}
}

static void dcbm_end(void *priv, struct migrate_copy_share *share)
{
	unsigned int c, i, nr = slots();
	bool idle;

	spin_lock_irq(&shares_lock);
	list_del(&share->node);
	idle = list_empty(&shares);
	spin_unlock_irq(&shares_lock);

	for (c = 0; c < nr; c++) {
		struct dcbm_chan *dchan = chans[c];

		spin_lock_irq(&dchan->lock);
		for (i = 0; i < NR_DESCS; i++) {
			if (dchan->descs[i].used &&
			    dchan->descs[i].share == share)
				lose(dchan, &dchan->descs[i]);
		}
		spin_unlock_irq(&dchan->lock);
	}
	if (idle)
		may_be_idle();
}

static const struct migrate_copy_engine_ops dcbm_ops = {
	.can_copy = dcbm_can_copy,
	.start = dcbm_start,
	.poll = dcbm_poll,
	.stop = dcbm_stop,
	.end = dcbm_end,
};

/*
 * Knobs
 */

static ssize_t channels_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(wanted));
}

static ssize_t channels_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *buf, size_t count)
{
	unsigned int value;

	if (kstrtouint(buf, 10, &value) || value > MAX_CHANNELS)
		return -EINVAL;
	guard(mutex)(&dcbm_mutex);
	WRITE_ONCE(wanted, value);
	if (engine) {
		forgive_all();
		adjust();
		may_be_idle();
	}
	return count;
}

static struct kobj_attribute channels_attr = __ATTR_RW(channels);

static ssize_t channels_live_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&nr_live));
}

static struct kobj_attribute channels_live_attr = __ATTR_RO(channels_live);

static ssize_t devices_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	guard(mutex)(&dcbm_mutex);
	return sysfs_emit(buf, "%s\n", devices);
}

static ssize_t devices_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	size_t start = strspn(buf, " ,\n"), len = count - start, i;

	if (!buf[start] || len >= DEVICES_SIZE)
		return -EINVAL;
	/* No device has such a name, and what was written is shown again. */
	for (i = 0; i < count; i++) {
		if (buf[i] != '\n' && (!isascii(buf[i]) || !isprint(buf[i])))
			return -EINVAL;
	}
	guard(mutex)(&dcbm_mutex);
	strscpy(devices, buf + start);
	strim(devices);
	if (engine) {
		close_all();
		forgive_all();
		adjust();
		may_be_idle();
	}
	return count;
}

static struct kobj_attribute devices_attr = __ATTR_RW(devices);

/**
 * struct dcbm_knob - a number that can be set
 * @attr: Its attribute.
 * @value: Where it is.
 * @min: Its smallest value.
 * @max: Its largest value.
 */
struct dcbm_knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
};

static ssize_t knob_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct dcbm_knob *knob = container_of(attr, struct dcbm_knob, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*knob->value));
}

static ssize_t knob_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	struct dcbm_knob *knob = container_of(attr, struct dcbm_knob, attr);
	unsigned int value;

	if (kstrtouint(buf, 10, &value) || value < knob->min ||
	    value > knob->max)
		return -EINVAL;
	WRITE_ONCE(*knob->value, value);
	return count;
}

static ssize_t hold_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	ssize_t ret = knob_store(kobj, attr, buf, count);

	guard(mutex)(&dcbm_mutex);
	if (engine && ret > 0)
		may_be_idle();
	return ret;
}

static struct dcbm_knob near_knob = {
	.attr = __ATTR(near_only, 0644, knob_show, knob_store),
	.value = &near_only,
	.max = 1,
};

static struct dcbm_knob hold_knob = {
	.attr = __ATTR(hold, 0644, knob_show, hold_store),
	.value = &hold,
	.max = 1,
};

static struct dcbm_knob depth_knob = {
	.attr = __ATTR(depth, 0644, knob_show, knob_store),
	.value = &depth,
	.min = 1,
	.max = MAX_DEPTH,
};

static struct dcbm_knob descriptors_knob = {
	.attr = __ATTR(descriptors, 0644, knob_show, knob_store),
	.value = &descriptors,
	.min = 1,
	.max = MAX_DEPTH * MIGRATE_COPY_CHUNK_RANGES,
};

static struct dcbm_knob poll_knob = {
	.attr = __ATTR(poll_kb, 0644, knob_show, knob_store),
	.value = &poll_kb,
	.max = UINT_MAX / SZ_1K,
};

static struct attribute *dcbm_attrs[] = {
	&channels_attr.attr,
	&channels_live_attr.attr,
	&devices_attr.attr,
	&near_knob.attr.attr,
	&hold_knob.attr.attr,
	&depth_knob.attr.attr,
	&descriptors_knob.attr.attr,
	&poll_knob.attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(dcbm);

static const struct migrate_copy_engine_desc dcbm_desc = {
	.name = "dcbm",
	.ops = &dcbm_ops,
	.groups = dcbm_groups,
};

static bool copies_everything(void)
{
#ifdef CONFIG_ARM64_MTE
	/* The tags of pages are no part of what DMA copies. */
	return !system_supports_mte();
#else
	return true;
#endif
}

static int __init dcbm_init(void)
{
	struct migrate_copy_engine *registered;

	if (!copies_everything())
		return -EOPNOTSUPP;
	dcbm_wq = alloc_workqueue("dcbm", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!dcbm_wq)
		return -ENOMEM;
	/* Jobs wait for these, and those above may sleep for long. */
	pump_wq = alloc_workqueue("dcbm-pump",
				  WQ_MEM_RECLAIM | WQ_UNBOUND | WQ_HIGHPRI, 0);
	if (!pump_wq) {
		destroy_workqueue(dcbm_wq);
		return -ENOMEM;
	}

	registered = migrate_copy_engine_register(&dcbm_desc, NULL);
	if (IS_ERR(registered)) {
		destroy_workqueue(pump_wq);
		destroy_workqueue(dcbm_wq);
		return PTR_ERR(registered);
	}
	guard(mutex)(&dcbm_mutex);
	engine = registered;
	adjust();
	return 0;
}
late_initcall_sync(dcbm_init);

static void __exit dcbm_exit(void)
{
	unsigned int i;

	scoped_guard(mutex, &dcbm_mutex) {
		leaving = true;
		close_all();
	}
	/* From now on no channel is acquired. */
	while (count_open(true)) {
		pr_warn_ratelimited("waiting for transfers that cannot be terminated\n");
		msleep(100);
	}
	migrate_copy_engine_unregister(engine);
	cancel_work_sync(&acquire_work);
	cancel_delayed_work_sync(&idle_work);
	for (i = 0; i < nr_chans; i++) {
		cancel_delayed_work_sync(&chans[i]->work);
		cancel_work_sync(&chans[i]->pump_work);
	}
	destroy_workqueue(pump_wq);
	destroy_workqueue(dcbm_wq);
	for (i = 0; i < nr_chans; i++)
		kvfree(chans[i]);
}
module_exit(dcbm_exit);

MODULE_AUTHOR("Pagehaul developers");
MODULE_DESCRIPTION("Copies folios by DMA channels for page migration");
MODULE_LICENSE("GPL");
