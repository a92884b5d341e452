// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm: which channels to take.
 */
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "dcbm.h"

/* How long a channel may take for what it has, before it is terminated. */
#define LEAVE_DELAY	msecs_to_jiffies(100)

/* Channels that are being released; who waits for that waits for this to be 0. */
atomic_t dcbm_leaving;

/* Serializes acquisition; protects what follows. */
DEFINE_MUTEX(dcbm_mutex);
unsigned int dcbm_wanted;
char dcbm_devices[NAMES_SIZE] = "any";
char dcbm_terminate[NAMES_SIZE] = "none";
char dcbm_poll[NAMES_SIZE] = "none";

static bool word_in(const char *list, const char *name)
{
	size_t len;

	for (; *list; list += len + strspn(list + len, " ,")) {
		len = strcspn(list, " ,");
		if (len == strlen(name) && !strncmp(list, name, len))
			return true;
	}
	return false;
}

/* Does a list name a channel, its device, or the driver of that? */
static bool names(const char *list, const char *label, struct device *dev)
{
	return word_in(list, "any") || word_in(list, label) ||
	       word_in(list, dev_name(dev)) || word_in(list, dev_driver_string(dev));
}

/* Aligned as what an xarray can have. */
static const char bounces[] __aligned(4) = "needs bounce buffers";
static const char no_pages[] __aligned(4) = "takes no whole pages";

/*
 * Devices of which that turned out when we had a channel, by their number. (Of those
 * that are of no use before, no channel is requested to see if it is better.)
 */
static DEFINE_XARRAY(unfit_once_ours);

/* Why a device is of no use for transfers, or NULL. */
static const char *unfit(struct device *dev)
{
	/* It cannot access all of the memory by itself. */
	if (dma_addressing_limited(dev) || dma_max_mapping_size(dev) != SIZE_MAX)
		return bounces;
	if (dma_get_max_seg_size(dev) < PAGE_SIZE || dma_get_seg_boundary(dev) < PAGE_SIZE - 1)
		return no_pages;
	return NULL;
}

/*
 * Why a channel is of no use, or NULL. Under the lock of dmaengine: the channel has
 * a name, if its device is registered. One that is not can be found for as long as
 * somebody has one of its channels.
 */
static const char *unused_for(struct dma_chan *chan)
{
	if (!names(dcbm_devices, dma_chan_name(chan), chan->device->dev))
		return "not among the devices";
	if (chan->device->copy_align > PAGE_SHIFT)
		return no_pages;
	return xa_load(&unfit_once_ours, chan->device->dev_id) ?:
		unfit(dmaengine_get_dma_device(chan));
}

/* How many channels of a device we have. */
static unsigned int ours_of(const struct device *dev)
{
	unsigned int i, ours = 0, nr = dcbm_slots();

	for (i = 0; i < nr; i++)
		ours += READ_ONCE(dcbm_chans[i]->state) != CHAN_CLOSED &&
			dcbm_chans[i]->dev == dev;
	return ours;
}

/**
 * struct search - what channel to look for
 * @nid: On which node, or NUMA_NO_NODE for any.
 * @most: Of a device of which we have no more channels than this.
 * @more: Whether there is one of a device of which we have more.
 * @dchan: Learns what there is to know of the last one that suits, which is the one
 *	that is found; NULL to find none.
 * @buf: Where to write which are not used, and why, if none is to be found.
 * @len: What has been written.
 */
struct search {
	int nid;
	unsigned int most;
	bool more;
	struct dcbm_chan *dchan;
	char *buf;
	ssize_t len;
};

/*
 * Note what is to be known of a channel. As soon as dmaengine lets go of its lock, the
 * device may be unbound, and what is not ours may go.
 */
static void learn(struct dcbm_chan *dchan, struct dma_chan *chan)
{
	strscpy(dchan->label, dma_chan_name(chan));
	put_device(dchan->dev);
	put_device(dchan->own_dev);
	dchan->dev = get_device(chan->device->dev);
	dchan->own_dev = get_device(&chan->dev->device);
	WRITE_ONCE(dchan->nid, dev_to_node(chan->device->dev));
	dchan->stops = names(dcbm_terminate, dchan->label, chan->device->dev);
	dchan->asks = names(dcbm_poll, dchan->label, chan->device->dev);
}

/*
 * Note what the transfers of a channel that is ours by now can be. There are devices whose
 * channels have one of their own for that, as soon as somebody has them (k3-udma).
 * Returns why they are of no use, or NULL.
 */
static const char *learn_limits(struct dcbm_chan *dchan, struct dma_chan *chan)
{
	struct device *dev = dmaengine_get_dma_device(chan);

	dchan->dma_dev = dev;
	dchan->limits.range_pages = dma_get_max_seg_size(dev) / PAGE_SIZE;
	dchan->limits.boundary_pages = dma_get_seg_boundary_nr_pages(dev, PAGE_SHIFT);
	return unfit(dev);
}

static bool suits(struct dma_chan *chan, void *data)
{
	struct search *search = data;
	const char *why;

	/* Only those that are registered are counted. */
	if (list_count_nodes(&chan->device->channels) != chan->device->chancnt)
		return false;
	why = unused_for(chan);
	if (!search->dchan) {
		search->len += sysfs_emit_at(search->buf, search->len,
					     "%s of %s: %s\n", dma_chan_name(chan),
					     dev_name(chan->device->dev),
					     why ?: "not asked for");
		return false;
	}
	if (why || (search->nid != NUMA_NO_NODE &&
		    search->nid != dev_to_node(chan->device->dev)))
		return false;
	if (ours_of(chan->device->dev) > search->most) {
		search->more = true;
		return false;
	}
	learn(search->dchan, chan);
	return true;
}

static struct dma_chan *request(struct search *search)
{
	dma_cap_mask_t mask = {};

	dma_cap_set(DMA_MEMCPY, mask);
	return dma_request_channel(mask, suits, search);
}

/* Of the device of which we have the fewest. */
static struct dma_chan *request_evenly(struct search *search)
{
	struct dma_chan *chan;

	search->most = 0;
	do {
		search->more = false;
		chan = request(search);
		search->most++;
	} while (!chan && search->more);
	return chan;
}

/* One that is of use now that we have it. */
static struct dma_chan *request_fit(struct search *search)
{
	struct dma_chan *chan;
	const char *why;
	int err = 0;

	while (!err && (chan = request_evenly(search))) {
		why = learn_limits(search->dchan, chan);
		if (!why)
			return chan;
		err = xa_err(xa_store(&unfit_once_ours, chan->device->dev_id, (void *)why,
				      GFP_KERNEL));
		dma_release_channel(chan);
	}
	return NULL;
}

/**
 * dcbm_list_unused() - Say which channels are not used, and why.
 * @buf: A page that is shown in sysfs.
 * @len: What has been written to it.
 *
 * Those that somebody else uses are not among them.
 *
 * Context: Process context, may sleep.
 * Return: What has been written by then.
 */
ssize_t dcbm_list_unused(char *buf, ssize_t len)
{
	struct search search = { .buf = buf, .len = len };

	guard(mutex)(&dcbm_mutex);
	request(&search);
	return search.len;
}

/* A place without a channel; a new one if need be. */
static struct dcbm_chan *free_slot(void)
{
	unsigned int i, nr = dcbm_slots();
	struct dcbm_chan *dchan;

	for (i = 0; i < nr; i++)
		if (READ_ONCE(dcbm_chans[i]->state) == CHAN_CLOSED)
			return dcbm_chans[i];
	if (i == MAX_CHANNELS)
		return NULL;

	dchan = kvzalloc_obj(*dchan);
	if (!dchan)
		return NULL;
	dchan->pump = kthread_run_worker(0, "dcbm/%u", i);
	if (IS_ERR(dchan->pump)) {
		kvfree(dchan);
		return NULL;
	}
	/* Else it would wait for the CPU that copies what the channel is to copy. */
	sched_set_fifo_low(dchan->pump->task);
	dchan->slot = i;
	spin_lock_init(&dchan->lock);
	init_waitqueue_head(&dchan->wait);
	INIT_DELAYED_WORK(&dchan->work, dcbm_work);
	kthread_init_work(&dchan->pump_work, dcbm_pump);
	/* Pairs with the acquire in dcbm_slots(). */
	smp_store_release(&dcbm_chans[i], dchan);
	return dchan;
}

/* One channel more, on the node if there is one; false if there is none. */
static bool acquire_one(int nid)
{
	struct dcbm_chan *dchan = free_slot();
	struct search near = { .nid = nid, .dchan = dchan };
	struct search any = { .nid = NUMA_NO_NODE, .dchan = dchan };
	struct dma_chan *chan;

	if (!dchan)
		return false;
	dchan->dev = NULL;
	dchan->own_dev = NULL;
	chan = request_fit(&near) ?: request_fit(&any);
	if (!chan) {
		put_device(dchan->dev);
		put_device(dchan->own_dev);
		return false;
	}

	spin_lock_irq(&dchan->lock);
	WRITE_ONCE(dchan->chan, chan);
	dchan->bytes = 0;
	dchan->strikes = 0;
	WRITE_ONCE(dchan->state, CHAN_LIVE);
	spin_unlock_irq(&dchan->lock);
	return true;
}

/* Have a channel released. What is known of one that hangs may be new. */
static void leave(struct dcbm_chan *dchan)
{
	spin_lock_irq(&dchan->lock);
	if (dchan->chan) {
		dchan->stops |= names(dcbm_terminate, dchan->label, dchan->dev);
		dchan->asks |= names(dcbm_poll, dchan->label, dchan->dev);
	}
	if (dchan->state == CHAN_LIVE || dchan->state == CHAN_RESETTING) {
		WRITE_ONCE(dchan->state, CHAN_LEAVING);
		dchan->leave_by = jiffies + LEAVE_DELAY;
		atomic_inc(&dcbm_leaving);
		mod_delayed_work(dcbm_wq, &dchan->work, 0);
	}
	spin_unlock_irq(&dchan->lock);
}

/* For a short while: one that hangs is released later. Returns whether all are. */
static bool wait_left(void)
{
	return wait_var_event_timeout(&dcbm_leaving, !atomic_read(&dcbm_leaving), 2 * LEAVE_DELAY);
}

/**
 * dcbm_acquire() - Have as many channels as are wanted, or all there are.
 *
 * Of all nodes in turn, and of the devices of each.
 *
 * Context: Process context with dcbm_mutex, may sleep.
 */
void dcbm_acquire(void)
{
	unsigned int i, have = 0, nr = dcbm_slots();
	int nid = first_online_node;

	for (i = 0; i < nr; i++) {
		enum chan_state state = READ_ONCE(dcbm_chans[i]->state);

		if (have == dcbm_wanted)
			leave(dcbm_chans[i]);
		else if (state == CHAN_LIVE || state == CHAN_RESETTING)
			have++;
	}
	wait_left();
	xa_destroy(&unfit_once_ours);
	for (; have < dcbm_wanted && acquire_one(nid); have++)
		nid = next_node_in(nid, node_online_map);
}

/**
 * dcbm_close_all() - Have all channels released.
 *
 * Context: Process context with dcbm_mutex. Waits for a short while.
 * Return: true if they are.
 */
bool dcbm_close_all(void)
{
	unsigned int i, nr = dcbm_slots();

	for (i = 0; i < nr; i++)
		leave(dcbm_chans[i]);
	return wait_left();
}

/**
 * dcbm_free() - Forget the places of channels, which are all released.
 *
 * Context: Process context, may sleep.
 */
void dcbm_free(void)
{
	unsigned int i, nr = dcbm_slots();

	for (i = 0; i < nr; i++) {
		cancel_delayed_work_sync(&dcbm_chans[i]->work);
		kthread_destroy_worker(dcbm_chans[i]->pump);
		kvfree(dcbm_chans[i]);
	}
	xa_destroy(&unfit_once_ours);
}
