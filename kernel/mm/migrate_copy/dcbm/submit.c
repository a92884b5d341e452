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
 * harm, and is counted. A descriptor is complete when its own callback says so:
 * that a later one is complete says nothing.
 *
 * There are drivers that look at the hardware when they are asked how far it is
 * (ioat, plx_dma), and some that must not be asked (ptdma). Which may be, the
 * administrator says by the parameter poll. These interrupt with the last descriptor
 * of a chunk alone. The thread asks them when it has submitted what there is room for,
 * then every millisecond as long as something is in flight, and sooner while there is
 * no room for the rest: where the last descriptor is never submitted, nothing else
 * would report the others. What the driver answers does not matter, it calls back for
 * what is complete. All others interrupt with each descriptor: a chunk can end before
 * its last one, and nothing would report the rest.
 *
 * Who calls the driver
 * --------------------
 *
 * Nobody who holds folios: there are drivers that wait for a free descriptor
 * when they prepare one, without end if their device has halted (idxd). Each
 * channel has a thread that submits what was claimed for it. A caller whose chunks
 * are late gives them up, whatever that thread waits for; and so a chunk whose
 * range is just being handed over is lost like one in flight.
 *
 * The thread is a real-time one, as those of interrupts are: it has a few
 * microseconds to do, and channels are idle until it has. As a work item it would
 * wait for up to a tick, where all near CPUs are busy, the caller's with the copy.
 *
 * Locks
 * -----
 *
 * A channel's lock protects its state and chunks; the lock of the shares protects
 * their list; then comes that of the job, in engine/. All are spinlocks with
 * interrupts off, for callbacks come in any context. The driver and the DMA API are
 * called without any of them: some drivers sleep, others disable bottom halves,
 * and to unmap may mean to flush an IOMMU.
 */
#include <linux/bitfield.h>

#include "dcbm.h"

static_assert(MIGRATE_COPY_CHUNK_RANGES <= 32);

/* Made when first needed, and kept: a late callback always finds one. */
struct dcbm_chan *dcbm_chans[MAX_CHANNELS];
struct workqueue_struct *dcbm_wq;
atomic_long_t dcbm_rejected;
atomic_long_t dcbm_spurious;

/* How often a channel is asked, and where it has no room for what there is. */
#define ASK_NS		NSEC_PER_MSEC
#define ASK_FULL_NS	(20 * NSEC_PER_USEC)

#define TICKET_RANGE	GENMASK_ULL(7, 0)
#define TICKET_DESC	GENMASK_ULL(15, 8)
#define TICKET_SLOT	GENMASK_ULL(23, 16)
#define TICKET_NUMBER	GENMASK_ULL(NUMBER_BITS + 23, 24)

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

/**
 * dcbm_unmap() - Take a range from the device.
 * @dchan: The channel.
 * @desc: The chunk.
 * @range: Which of its ranges.
 *
 * Context: Any, without the channel's lock.
 */
void dcbm_unmap(struct dcbm_chan *dchan, struct dcbm_desc *desc, unsigned int range)
{
	size_t len = desc->chunk.ranges[range].nr * PAGE_SIZE;

	dma_unmap_page(dchan->dma_dev, desc->src[range], len, DMA_TO_DEVICE);
	dma_unmap_page(dchan->dma_dev, desc->dst[range], len, DMA_FROM_DEVICE);
}

static bool crosses(const struct dcbm_chan *dchan, dma_addr_t addr, size_t len)
{
	unsigned long boundary = dma_get_seg_boundary(dchan->dma_dev);

	return (addr & boundary) + len - 1 > boundary;
}

static int map(struct dcbm_chan *dchan, struct dcbm_desc *desc, unsigned int nr)
{
	struct migrate_copy_range *range = &desc->chunk.ranges[nr];
	size_t len = range->nr * PAGE_SIZE;

	desc->src[nr] = dma_map_page(dchan->dma_dev, range->src, 0, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dchan->dma_dev, desc->src[nr]))
		return -ENOMEM;
	desc->dst[nr] = dma_map_page(dchan->dma_dev, range->dst, 0, len, DMA_FROM_DEVICE);
	if (dma_mapping_error(dchan->dma_dev, desc->dst[nr])) {
		dma_unmap_page(dchan->dma_dev, desc->src[nr], len, DMA_TO_DEVICE);
		return -ENOMEM;
	}
	if (crosses(dchan, desc->src[nr], len) || crosses(dchan, desc->dst[nr], len)) {
		dcbm_unmap(dchan, desc, nr);
		return -ERANGE;
	}
	return 0;
}

/**
 * dcbm_over() - Is nothing of a chunk in flight, and will nothing be?
 * @desc: The chunk. The channel's lock is held.
 *
 * Context: Any.
 * Return: true if so.
 */
bool dcbm_over(const struct dcbm_desc *desc)
{
	return !desc->mapped && !desc->submitting &&
	       (desc->error || desc->submitted == desc->chunk.nr_ranges);
}

/**
 * dcbm_finish() - Return a chunk that is over.
 * @dchan: The channel, whose lock is held.
 * @desc: The chunk. If it was lost, the work item ends its quarantine.
 *
 * Context: Any.
 */
void dcbm_finish(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	lockdep_assert_held(&dchan->lock);
	if (!desc->share) {
		mod_delayed_work(dcbm_wq, &dchan->work, 0);
		return;
	}
	desc->used = false;
	if (!desc->error) {
		dchan->bytes += desc->chunk.nr_pages * PAGE_SIZE;
		dchan->strikes = 0;
	}
	migrate_copy_chunk_return(&desc->chunk, !desc->error);
}

/* The first chunk that is not submitted to its end. */
static struct dcbm_desc *unsubmitted(struct dcbm_chan *dchan)
{
	struct dcbm_desc *desc, *first = NULL;

	for (desc = dchan->descs; desc < dchan->descs + NR_DESCS; desc++) {
		if (desc->used && !desc->error && desc->submitted < desc->chunk.nr_ranges &&
		    (!first || desc->number < first->number))
			first = desc;
	}
	return first;
}

/* The callback of a descriptor, in whatever context, maybe late or once more. */
static void dcbm_done(void *param, const struct dmaengine_result *result)
{
	u64 ticket = (unsigned long)param;
	struct dcbm_chan *dchan = dcbm_chans[FIELD_GET(TICKET_SLOT, ticket)];
	unsigned int range = FIELD_GET(TICKET_RANGE, ticket);
	struct dcbm_desc *desc;
	unsigned long flags;

	scoped_guard(spinlock_irqsave, &dchan->lock) {
		desc = find_desc(dchan, ticket);
		if (!desc) {
			atomic_long_inc(&dcbm_spurious);
			return;
		}
		/*
		 * There are drivers that report this before they stop (ioat), and
		 * others that refuse what is submitted with it (idxd). So it says
		 * nothing here: what was refused is taken back by not_taken().
		 */
		if (result && result->result == DMA_TRANS_ABORTED) {
			desc->error = true;
			return;
		}
		desc->waiting &= ~BIT(range);
	}
	/* As long as it is mapped, the chunk is not over. */
	dcbm_unmap(dchan, desc, range);

	spin_lock_irqsave(&dchan->lock, flags);
	desc->mapped &= ~BIT(range);
	dchan->outstanding--;
	if (result && result->result != DMA_TRANS_NOERROR && !desc->error) {
		desc->error = true;
		dcbm_strike(dchan, "transfer failed");
	}
	if (dcbm_over(desc)) {
		/*
		 * Claim first: in between nothing might be in flight, and the
		 * caller would take that for the end. But what has ended may be
		 * what there was no room for.
		 */
		bool claimed = !desc->error && dcbm_claim(dchan, 1);

		dcbm_finish(dchan, desc);
		if (!claimed)
			dcbm_claim(dchan, 0);
	}
	/* There is room for that. */
	if (unsubmitted(dchan))
		dcbm_kick(dchan);
	spin_unlock_irqrestore(&dchan->lock, flags);
}

/*
 * Map a range and submit it. Without the lock: it may complete before we return.
 * Returns -EAGAIN if the driver takes nothing now, -EIO if it has refused what it
 * had prepared, or why the range was not mapped.
 */
static int hand_over(struct dcbm_chan *dchan, struct dcbm_desc *desc,
		     unsigned int nr, unsigned long flags)
{
	struct dma_async_tx_descriptor *tx;
	dma_cookie_t cookie;
	int err = map(dchan, desc, nr);

	if (err)
		return err;
	tx = dmaengine_prep_dma_memcpy(dchan->chan, desc->dst[nr], desc->src[nr],
				       desc->chunk.ranges[nr].nr * PAGE_SIZE, flags);
	if (!tx)
		return -EAGAIN;
	tx->callback_result = dcbm_done;
	tx->callback_param = make_ticket(dchan, desc, nr);
	cookie = dmaengine_submit(tx);
	if (dma_submit_error(cookie))
		return -EIO;
	dchan->cookie = cookie;
	/* The next one may have to wait until this one is done. */
	dma_async_issue_pending(dchan->chan);
	return 0;
}

/*
 * A range was not submitted. Returns whether to go on: a channel that was not empty
 * has room when it reports the next one, which may be by now.
 */
static bool not_taken(struct dcbm_chan *dchan, struct dcbm_desc *desc,
		      unsigned int nr, int err, bool empty)
{
	/* Unless the driver has called back as well. */
	if (desc->waiting & BIT(nr)) {
		desc->waiting &= ~BIT(nr);
		if (err == -EIO || err == -EAGAIN) {
			spin_unlock_irq(&dchan->lock);
			dcbm_unmap(dchan, desc, nr);
			spin_lock_irq(&dchan->lock);
		}
		desc->mapped &= ~BIT(nr);
		dchan->outstanding--;
	}
	desc->submitted--;
	if (err == -EAGAIN && !desc->error && (!empty || !dchan->again)) {
		/* An empty one may be about to free what it has just reported. */
		dchan->again = empty;
		if (empty)
			mod_delayed_work(dcbm_wq, &dchan->work, LOOK_DELAY);
		/* What it had may have been reported while this was handed over. */
		return !empty && !dchan->outstanding;
	}
	dchan->again = false;
	atomic_long_inc(&dcbm_rejected);
	if (err == -EIO || (!desc->error && err != -ERANGE))
		dcbm_strike(dchan, "descriptor not taken");
	desc->error = true;
	return true;
}

/* Hand the next range to the channel. Returns false if there is nothing to do. */
static bool submit(struct dcbm_chan *dchan)
{
	struct dcbm_desc *desc = unsubmitted(dchan);
	unsigned long flags = DMA_CTRL_ACK;
	bool more = true, empty;
	unsigned int nr;
	int err;

	if (!desc)
		return dcbm_claim(dchan, 0);
	if (!dcbm_ready(dchan)) {
		desc->error = true;
		if (dcbm_over(desc))
			dcbm_finish(dchan, desc);
		return true;
	}

	/* For all others it is in flight from here on. */
	empty = !dchan->outstanding++;
	nr = desc->submitted++;
	desc->submitting = true;
	desc->waiting |= BIT(nr);
	desc->mapped |= BIT(nr);
	if (!dchan->asks || desc->submitted == desc->chunk.nr_ranges)
		flags |= DMA_PREP_INTERRUPT;
	spin_unlock_irq(&dchan->lock);
	err = hand_over(dchan, desc, nr, flags);
	migrate_copy_chunk_fed(&desc->chunk, &dchan->since);
	cond_resched();
	spin_lock_irq(&dchan->lock);
	if (err)
		more = not_taken(dchan, desc, nr, err, empty);
	else
		dchan->again = false;
	desc->submitting = false;
	if (dcbm_over(desc))
		dcbm_finish(dchan, desc);
	return more;
}

/**
 * dcbm_pump() - Give a channel as much to do as it can hold.
 * @work: What its thread does, which alone calls the driver to submit, and to ask.
 *
 * Context: Process context. May wait for the driver, without end.
 */
void dcbm_pump(struct kthread_work *work)
{
	struct dcbm_chan *dchan = container_of(work, struct dcbm_chan, pump_work);
	bool more = true;
	ktime_t ns;

	migrate_copy_chunk_fed(NULL, &dchan->since);
	spin_lock_irq(&dchan->lock);
	dchan->pumping = true;
	while (more) {
		WRITE_ONCE(dchan->kicked, false);
		while (submit(dchan))
			;
		if (!dchan->asks || !dchan->outstanding)
			break;
		more = dchan->state == CHAN_LIVE && !dchan->lost;
		ns = unsubmitted(dchan) ? ASK_FULL_NS : ASK_NS;
		spin_unlock_irq(&dchan->lock);
		/* It reports by callbacks; some wait for their own tasklet (plx_dma). */
		local_bh_disable();
		dma_async_is_tx_complete(dchan->chan, dchan->cookie, NULL, NULL);
		local_bh_enable();
		if (more)
			wait_event_hrtimeout(dchan->wait, READ_ONCE(dchan->kicked), ns);
		/* What this has taken is no price of what comes next. */
		migrate_copy_chunk_fed(NULL, &dchan->since);
		spin_lock_irq(&dchan->lock);
	}
	dchan->pumping = false;
	spin_unlock_irq(&dchan->lock);
}
