// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm: channels that fail, are late, or go.
 *
 * A channel that fails is left alone for 2, 4, ... ms, up to some seconds: it may be
 * all right one day, and what it spoils until then is one chunk each time. What it has
 * claimed and not begun is returned.
 *
 * What is late may still be written to. There are drivers that stop nothing when
 * they are told to terminate, or stop later, and free what the hardware uses (ptdma,
 * idxd, zynqmp_dma). So they are not told to: the chunk is lost, see
 * engine/quarantine.c, until the channel reports it, and the channel takes nothing
 * until then. Only where the administrator says, by the parameter terminate, that a
 * driver or a device does stop, dmaengine_terminate_sync() is called, and believed.
 *
 * A channel is released when it has reported everything, or was terminated: to
 * release it is no way to stop it. The module cannot go while chunks are lost, and
 * who asks for a channel to be released does not wait for one that hangs.
 *
 * All of this is done by one work item for each channel, and so never at the same
 * time for one of them.
 */
#define pr_fmt(fmt) "dcbm: " fmt

#include "dcbm.h"

/* Failures in a row after which it is not left alone for longer: for 4 seconds. */
#define MAX_STRIKES	12U

/* When to look again at one that is late. */
#define RETRY_DELAY	(HZ / 2)

/**
 * dcbm_strike() - Note that something has gone wrong.
 * @dchan: The channel, whose lock is held. It gets nothing for a while.
 * @why: What it was.
 *
 * Context: Any.
 */
void dcbm_strike(struct dcbm_chan *dchan, const char *why)
{
	lockdep_assert_held(&dchan->lock);
	pr_warn_ratelimited("%s: %s\n", dchan->label, why);
	dchan->strikes = min(dchan->strikes + 1, MAX_STRIKES);
	dchan->resume = jiffies + msecs_to_jiffies(BIT(dchan->strikes));
}

/**
 * dcbm_time_out() - A chunk is late.
 * @dchan: Its channel, whose lock is held.
 * @desc: The chunk.
 *
 * Context: Any.
 * Return: true if it may come back soon, since the channel is terminated or asked.
 */
bool dcbm_time_out(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	dcbm_strike(dchan, "transfer timed out");
	if (dchan->stops && dchan->state == CHAN_LIVE) {
		WRITE_ONCE(dchan->state, CHAN_RESETTING);
		mod_delayed_work(dcbm_wq, &dchan->work, 0);
	}
	dcbm_kick(dchan);
	return dchan->stops || dchan->asks;
}

/**
 * dcbm_lose() - Give up a chunk of which something may be in flight.
 * @dchan: Its channel, whose lock is held.
 * @desc: The chunk.
 *
 * Context: Any.
 * Return: true if it is lost; false if nothing was in flight.
 */
bool dcbm_lose(struct dcbm_chan *dchan, struct dcbm_desc *desc)
{
	lockdep_assert_held(&dchan->lock);
	desc->error = true;
	if (dcbm_over(desc)) {
		dcbm_finish(dchan, desc);
		return false;
	}
	desc->pins = try_module_get(THIS_MODULE);
	WRITE_ONCE(dchan->lost, dchan->lost + 1);
	desc->share = NULL;
	queue_delayed_work(dcbm_wq, &dchan->work, RETRY_DELAY);
	migrate_copy_chunk_lost(&desc->chunk);
	return true;
}

/* Chunks that were lost, but are over by now. */
static void end_quarantine(struct dcbm_chan *dchan)
{
	struct dcbm_desc *desc;

	for (desc = dchan->descs; desc < dchan->descs + NR_DESCS; desc++) {
		bool over;

		scoped_guard(spinlock_irq, &dchan->lock)
			over = desc->used && !desc->share && dcbm_over(desc);
		if (!over)
			continue;
		/* Nobody else touches it: it is used, and waits for nothing. */
		migrate_copy_chunk_stopped(&desc->chunk);
		if (desc->pins)
			module_put(THIS_MODULE);
		spin_lock_irq(&dchan->lock);
		desc->used = false;
		WRITE_ONCE(dchan->lost, dchan->lost - 1);
		spin_unlock_irq(&dchan->lock);
	}
}

/*
 * Nothing is transferred any more, and no callback is running: take back what the
 * channel had.
 */
static void drop_all(struct dcbm_chan *dchan)
{
	struct dcbm_desc *desc;
	unsigned long nr;

	spin_lock_irq(&dchan->lock);
	for (desc = dchan->descs; desc < dchan->descs + NR_DESCS; desc++) {
		unsigned long waiting = desc->waiting;

		if (!desc->used)
			continue;
		desc->waiting = 0;
		desc->error = true;
		spin_unlock_irq(&dchan->lock);
		for_each_set_bit(nr, &waiting, MIGRATE_COPY_CHUNK_RANGES)
			dcbm_unmap(dchan, desc, nr);
		spin_lock_irq(&dchan->lock);
		desc->mapped &= ~waiting;
		dchan->outstanding -= hweight_long(waiting);
		/* Its caller may have finished it when the lock was free. */
		if (desc->used && dcbm_over(desc))
			dcbm_finish(dchan, desc);
	}
	spin_unlock_irq(&dchan->lock);
}

/* Terminate a channel that gets nothing more; false if that may not be done now. */
static bool terminate(struct dcbm_chan *dchan)
{
	bool may;

	scoped_guard(spinlock_irq, &dchan->lock)
		may = dchan->stops && !dchan->pumping;
	if (!may || dmaengine_terminate_sync(dchan->chan))
		return false;
	drop_all(dchan);
	return true;
}

/* Has the channel nothing left? */
static bool is_empty(struct dcbm_chan *dchan)
{
	bool empty;
	unsigned int i;

	spin_lock_irq(&dchan->lock);
	empty = !dchan->pumping && !dchan->outstanding;
	for (i = 0; i < NR_DESCS; i++)
		empty &= !dchan->descs[i].used;
	spin_unlock_irq(&dchan->lock);
	return empty;
}

/* Release the channel, if it has nothing left; if not, look again later. */
static void release(struct dcbm_chan *dchan)
{
	bool late = time_after(jiffies, READ_ONCE(dchan->leave_by));
	struct device *dev, *own_dev;

	if (!is_empty(dchan) && late && terminate(dchan))
		end_quarantine(dchan);
	if (!is_empty(dchan)) {
		/* What was claimed, and not submitted, is returned by the pump. */
		dcbm_kick(dchan);
		mod_delayed_work(dcbm_wq, &dchan->work, late ? RETRY_DELAY : LOOK_DELAY);
		return;
	}
	dma_release_channel(dchan->chan);
	spin_lock_irq(&dchan->lock);
	/* Others know by the channel that these are there. */
	dev = dchan->dev;
	own_dev = dchan->own_dev;
	WRITE_ONCE(dchan->chan, NULL);
	WRITE_ONCE(dchan->state, CHAN_CLOSED);
	spin_unlock_irq(&dchan->lock);
	put_device(dev);
	put_device(own_dev);
	if (atomic_dec_and_test(&dcbm_leaving))
		wake_up_var(&dcbm_leaving);
}

/**
 * dcbm_work() - See to a channel that fails, is late, or goes.
 * @work: Its work item.
 *
 * Context: Process context. May wait for the driver.
 */
void dcbm_work(struct work_struct *work)
{
	struct dcbm_chan *dchan = container_of(work, struct dcbm_chan, work.work);

	/* What is lost may be known to have stopped by now. */
	if (READ_ONCE(dchan->state) == CHAN_RESETTING || READ_ONCE(dchan->lost))
		terminate(dchan);
	spin_lock_irq(&dchan->lock);
	/* The thread of one that is asked is about to let go of the driver. */
	if (dchan->state == CHAN_RESETTING && !dchan->pumping)
		WRITE_ONCE(dchan->state, CHAN_LIVE);
	spin_unlock_irq(&dchan->lock);
	end_quarantine(dchan);
	if (READ_ONCE(dchan->state) == CHAN_LEAVING)
		release(dchan);
	else if (READ_ONCE(dchan->lost))
		queue_delayed_work(dcbm_wq, &dchan->work, RETRY_DELAY);
	else if (READ_ONCE(dchan->state) == CHAN_RESETTING)
		queue_delayed_work(dcbm_wq, &dchan->work, LOOK_DELAY);
	dcbm_kick(dchan);
}
