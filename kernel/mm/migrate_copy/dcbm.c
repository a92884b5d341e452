// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbm, the DMA core batch migrator: a copy engine made of DMA channels.
 *
 * It uses any channels that copy memory to memory (DMA_MEMCPY), as many and of
 * those devices that the administrator says. A job is for the channels nearest to
 * its destination, each of which has one chunk at a time.
 *
 * A chunk has up to 32 ranges, each of them a DMA descriptor. The callback of a
 * descriptor gets a ticket instead of a pointer: channel, range, and a number that
 * no other chunk of the channel has had. So a completion that is reported twice,
 * or after its time, finds nothing that it could harm, and is counted. A descriptor
 * is complete when its own callback says so: some devices complete them out of
 * order (idxd).
 *
 * No task that holds folios calls the driver: some wait for a free descriptor
 * without end if their device has halted (idxd). Each channel has a thread for
 * that, and a chunk of which a range is just being submitted is lost like one
 * in flight. It is a real-time thread like those of interrupts: it has little to do,
 * and the channel is idle until it has done that.
 *
 * A late chunk is given up as lost. dmaengine_terminate_sync() does not help: some
 * drivers stop nothing, or later, and free what the hardware uses (ptdma, idxd,
 * zynqmp_dma). So a lost chunk stays in quarantine until the channel reports it, the
 * channel gets nothing more until then, and the module cannot be unloaded. Nor is a
 * channel released before it has reported everything.
 *
 * A channel's lock protects its state and chunks, jobs_lock the list of jobs, and
 * is taken under the former. The driver and the DMA API are called without locks:
 * some drivers sleep, others disable bottom halves, and unmapping may mean flushing
 * an IOMMU.
 */
#define pr_fmt(fmt) "dcbm: " fmt

#include <linux/bitfield.h>
#include <linux/cpufeature.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/kthread.h>
#include <linux/migrate_copy_engine.h>
#include <linux/module.h>
#include <linux/suspend.h>
#include <linux/wait_bit.h>

#define MAX_CHANNELS	64

/*
 * Submitting smaller folios takes more CPU time than copying them, so they are left
 * to CPUs that copy as well.
 */
#define MIN_FOLIO	SZ_64K

/* How long to wait for channels to be released, unless they hang. */
#define LEAVE_DELAY	msecs_to_jiffies(200)

/* A driver may free a descriptor only after it has reported it. */
#define PREP_RETRIES	3
#define PREP_DELAY_US	100

#define TICKET_RANGE	GENMASK_ULL(7, 0)
#define TICKET_SLOT	GENMASK_ULL(15, 8)
#define TICKET_NUMBER	GENMASK_ULL(63, 16)

enum chan_state { CHAN_CLOSED, CHAN_LIVE, CHAN_LEAVING };

/**
 * struct dcbm_chan - a slot for a channel, and the chunk that it copies
 * @worker: The thread that calls the driver.
 * @work: What the thread does.
 * @lock: Protects what follows.
 * @state: Whether it has a channel, and may use it.
 * @chan: The channel, or NULL.
 * @dev: Its device, of which we hold a reference: it may be unbound at any time.
 * @own_dev: The channel as a device, whose name is that of the channel.
 * @dma_dev: The one of these that is used for DMA mappings.
 * @nid: The node of @dev.
 * @boundary_pages: What a range may not cross.
 * @bytes: Bytes that it has copied.
 * @chunk: What to copy.
 * @job: Its job.
 * @used: Whether there is a chunk, which holds a reference to the module.
 * @lost: It was given up, and @job is gone.
 * @error: It has failed; no more of it is submitted.
 * @submitted: Number of ranges submitted.
 * @waiting: One bit for each of these that the channel has not reported.
 * @busy: Ranges that the device may access, and one while the thread submits.
 * @number: Makes its tickets unique.
 * @dst: DMA addresses of the ranges.
 * @src: DMA addresses of the ranges.
 */
struct dcbm_chan {
	struct kthread_worker *worker;
	struct kthread_work work;

	spinlock_t lock;	/* Protects what follows */
	enum chan_state state;
	struct dma_chan *chan;
	struct device *dev;
	struct device *own_dev;
	struct device *dma_dev;
	int nid;
	unsigned long boundary_pages;
	u64 bytes;

	struct migrate_copy_chunk chunk;
	struct migrate_copy_offload *job;
	bool used;
	bool lost;
	bool error;
	unsigned int submitted;
	u32 waiting;
	unsigned int busy;
	u64 number;
	dma_addr_t dst[MIGRATE_COPY_CHUNK_RANGES];
	dma_addr_t src[MIGRATE_COPY_CHUNK_RANGES];
};

/* They are kept, so that a late callback always finds one. */
static struct dcbm_chan *dcbm_chans;
/* How many of them have been used. */
static unsigned int dcbm_slots;

static atomic_long_t dcbm_rejected;
static atomic_long_t dcbm_spurious;

static DEFINE_SPINLOCK(jobs_lock);
static LIST_HEAD(jobs);

/* Serializes acquisition of channels, and protects what follows. */
static DEFINE_MUTEX(dcbm_mutex);
static struct migrate_copy_engine *engine;
static unsigned int dcbm_wanted;
static char dcbm_devices[256] = "any";
static bool dcbm_suspended;

/* Channels being released. */
static atomic_t dcbm_leaving;

static void dcbm_kick(struct dcbm_chan *dchan)
{
	kthread_queue_work(dchan->worker, &dchan->work);
}

static bool dcbm_usable(const struct dcbm_chan *dchan)
{
	return READ_ONCE(dchan->state) == CHAN_LIVE && !READ_ONCE(dchan->lost);
}

static unsigned long dcbm_distance(const struct dcbm_chan *dchan, int nid)
{
	int from = READ_ONCE(dchan->nid);

	return from == NUMA_NO_NODE ? INT_MAX : node_distance(from, nid);
}

/* Claim a chunk, of each job in turn. Returns false if there is none, or no room for it. */
static bool dcbm_claim(struct dcbm_chan *dchan)
{
	struct migrate_copy_offload *job;

	/* The module stays until the chunk has been returned, or is not late any more. */
	if (dchan->used || !dcbm_usable(dchan) || !try_module_get(THIS_MODULE))
		return false;
	guard(spinlock)(&jobs_lock);
	list_for_each_entry(job, &jobs, node) {
		if (dcbm_distance(dchan, job->nid) > job->priv ||
		    !migrate_copy_chunk_claim(job, &dchan->chunk, ULONG_MAX, dchan->boundary_pages))
			continue;
		list_move_tail(&job->node, &jobs);
		dchan->job = job;
		dchan->used = true;
		dchan->error = false;
		dchan->submitted = 0;
		dchan->number = (dchan->number + 1) & FIELD_MAX(TICKET_NUMBER);
		return true;
	}
	module_put(THIS_MODULE);
	return false;
}

/* A job is for the nearest channels, which claim chunks of it. */
static bool dcbm_start(void *priv, struct migrate_copy_offload *job)
{
	/* Pairs with the release in dcbm_free_slot(). */
	struct dcbm_chan *dchan, *last = dcbm_chans + smp_load_acquire(&dcbm_slots);
	unsigned long distance;
	unsigned int near = 0;

	if (!job->alone && job->pages * PAGE_SIZE < (unsigned long)job->folios * MIN_FOLIO)
		return false;
	for (dchan = dcbm_chans; dchan < last; dchan++) {
		if (!dcbm_usable(dchan))
			continue;
		distance = dcbm_distance(dchan, job->nid);
		if (!near || distance < job->priv) {
			job->priv = distance;
			near = 0;
		}
		near += distance == job->priv;
	}
	if (!near)
		return false;
	job->workers = near;
	scoped_guard(spinlock_irq, &jobs_lock)
		list_add_tail(&job->node, &jobs);
	for (dchan = dcbm_chans; dchan < last; dchan++) {
		if (!dcbm_usable(dchan) || dcbm_distance(dchan, job->nid) != job->priv)
			continue;
		/* Now: CPUs may have copied everything before the thread runs. */
		scoped_guard(spinlock_irq, &dchan->lock)
			dcbm_claim(dchan);
		dcbm_kick(dchan);
	}
	return true;
}

/* Is nothing of the chunk in flight, and will nothing be? */
static bool dcbm_is_over(const struct dcbm_chan *dchan)
{
	return !dchan->busy && (dchan->error || dchan->submitted == dchan->chunk.nr_ranges);
}

/* Return the chunk if it is over. If it is lost the thread ends its quarantine. */
static void dcbm_finish(struct dcbm_chan *dchan)
{
	if (!dcbm_is_over(dchan))
		return;
	dcbm_kick(dchan);
	if (dchan->lost)
		return;
	dchan->used = false;
	if (!dchan->error)
		dchan->bytes += dchan->chunk.nr_pages * PAGE_SIZE;
	migrate_copy_chunk_return(&dchan->chunk, !dchan->error);
	module_put(THIS_MODULE);
}

/* Whatever is in flight by now is late, and lost. */
static void dcbm_end(void *priv, struct migrate_copy_offload *job)
{
	struct dcbm_chan *dchan = dcbm_chans;

	scoped_guard(spinlock_irq, &jobs_lock)
		list_del(&job->node);
	for (; dchan < dcbm_chans + READ_ONCE(dcbm_slots) && READ_ONCE(job->inflight); dchan++) {
		guard(spinlock_irq)(&dchan->lock);
		if (!dchan->used || dchan->lost || dchan->job != job)
			continue;
		dchan->error = true;
		if (!dcbm_is_over(dchan)) {
			pr_warn_ratelimited("%s: timed out\n", dev_name(dchan->own_dev));
			WRITE_ONCE(dchan->lost, true);
			migrate_copy_chunk_lost(&dchan->chunk);
		}
		dcbm_finish(dchan);
	}
}

/* May be called in any context, but without the channel's lock. */
static void dcbm_unmap(struct dcbm_chan *dchan, unsigned int nr)
{
	size_t len = dchan->chunk.ranges[nr].nr * PAGE_SIZE;

	dma_unmap_page(dchan->dma_dev, dchan->src[nr], len, DMA_TO_DEVICE);
	dma_unmap_page(dchan->dma_dev, dchan->dst[nr], len, DMA_FROM_DEVICE);
}

/* The callback of a descriptor: in any context, maybe late, maybe not for the first time. */
static void dcbm_done(void *param, const struct dmaengine_result *result)
{
	u64 ticket = (unsigned long)param;
	struct dcbm_chan *dchan = &dcbm_chans[FIELD_GET(TICKET_SLOT, ticket)];
	unsigned int nr = FIELD_GET(TICKET_RANGE, ticket);

	scoped_guard(spinlock_irqsave, &dchan->lock) {
		if (dchan->number != FIELD_GET(TICKET_NUMBER, ticket) ||
		    !(dchan->waiting & BIT(nr))) {
			atomic_long_inc(&dcbm_spurious);
			return;
		}
		/*
		 * Some drivers report this before they stop (ioat), others when they
		 * refuse a descriptor (idxd). So the hardware may go on: unless the
		 * descriptor was refused, it will be late, for ever if the driver
		 * never reports it again.
		 */
		if (result && result->result == DMA_TRANS_ABORTED) {
			dchan->error = true;
			return;
		}
		dchan->waiting &= ~BIT(nr);
	}
	/* The chunk is not over as long as this is mapped. */
	dcbm_unmap(dchan, nr);

	guard(spinlock_irqsave)(&dchan->lock);
	dchan->busy--;
	if (result && result->result != DMA_TRANS_NOERROR)
		dchan->error = true;
	dcbm_finish(dchan);
	/* There may be a descriptor for that now. */
	if (dchan->used && dchan->submitted < dchan->chunk.nr_ranges)
		dcbm_kick(dchan);
}

/*
 * Map a range and submit it. It may complete before this returns. Ranges do not cross
 * a boundary of the device, nor do their addresses by an IOMMU, which are aligned to
 * their size. Returns -EAGAIN if there will be a descriptor when another one is
 * reported, -ENOMEM if the range was not mapped.
 */
static int dcbm_hand_over(struct dcbm_chan *dchan, unsigned int nr)
{
	struct migrate_copy_range *range = &dchan->chunk.ranges[nr];
	struct dma_async_tx_descriptor *tx;
	struct device *dev = dchan->dma_dev;
	size_t len = range->nr * PAGE_SIZE;
	unsigned int try = 0;

	dchan->src[nr] = dma_map_page(dev, range->src, 0, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, dchan->src[nr]))
		return -ENOMEM;
	dchan->dst[nr] = dma_map_page(dev, range->dst, 0, len, DMA_FROM_DEVICE);
	if (dma_mapping_error(dev, dchan->dst[nr])) {
		dma_unmap_page(dev, dchan->src[nr], len, DMA_TO_DEVICE);
		return -ENOMEM;
	}
	while (!(tx = dmaengine_prep_dma_memcpy(dchan->chan, dchan->dst[nr], dchan->src[nr], len,
						DMA_CTRL_ACK | DMA_PREP_INTERRUPT))) {
		/* More than this range and this thread? */
		if (READ_ONCE(dchan->busy) > 2)
			return -EAGAIN;
		if (try++ == PREP_RETRIES)
			return -EIO;
		fsleep(PREP_DELAY_US);
	}
	tx->callback_result = dcbm_done;
	tx->callback_param = (void *)(unsigned long)
		(FIELD_PREP(TICKET_RANGE, nr) | FIELD_PREP(TICKET_SLOT, dchan - dcbm_chans) |
		 FIELD_PREP(TICKET_NUMBER, dchan->number));
	if (dma_submit_error(dmaengine_submit(tx)))
		return -EIO;
	/* The next one may have to wait until this one is done. */
	dma_async_issue_pending(dchan->chan);
	return 0;
}

/* Submit the next range. Returns false if there is nothing to do, or no descriptor for it. */
static bool dcbm_submit(struct dcbm_chan *dchan)
	__must_hold(&dchan->lock)
{
	unsigned int nr = dchan->submitted;
	int err;

	if (!dchan->used)
		return dcbm_claim(dchan);
	if (!dcbm_usable(dchan))
		dchan->error = true;
	if (dchan->error || nr == dchan->chunk.nr_ranges) {
		dcbm_finish(dchan);
		return false;
	}

	/* For everybody else it is in flight from here on. */
	dchan->submitted++;
	dchan->waiting |= BIT(nr);
	dchan->busy += 2;
	spin_unlock_irq(&dchan->lock);
	err = dcbm_hand_over(dchan, nr);
	cond_resched();
	spin_lock_irq(&dchan->lock);
	/* The driver may have called back although it has refused it. */
	if (err && (dchan->waiting & BIT(nr))) {
		dchan->waiting &= ~BIT(nr);
		spin_unlock_irq(&dchan->lock);
		if (err != -ENOMEM)
			dcbm_unmap(dchan, nr);
		spin_lock_irq(&dchan->lock);
		dchan->busy--;
	}
	if (err == -EAGAIN) {
		dchan->submitted--;
	} else if (err) {
		atomic_long_inc(&dcbm_rejected);
		dchan->error = true;
	}
	dchan->busy--;
	dcbm_finish(dchan);
	/* The thread is kicked when the next descriptor is reported. */
	return err != -EAGAIN || !dchan->busy;
}

/*
 * Give a channel as much to do as it can hold, end the quarantine of a chunk that is over by
 * now, and release the channel if it is to go. May wait for the driver without end.
 */
static void dcbm_work(struct kthread_work *work)
{
	struct dcbm_chan *dchan = container_of(work, struct dcbm_chan, work);
	struct device *dev, *own_dev;
	bool over;

	scoped_guard(spinlock_irq, &dchan->lock) {
		while (dcbm_submit(dchan))
			;
		over = dchan->lost && dcbm_is_over(dchan);
	}
	/* Then nobody else touches the chunk. */
	if (over) {
		migrate_copy_chunk_stopped(&dchan->chunk);
		module_put(THIS_MODULE);
	}
	scoped_guard(spinlock_irq, &dchan->lock) {
		if (over) {
			dchan->used = false;
			WRITE_ONCE(dchan->lost, false);
		}
		if (dchan->state != CHAN_LEAVING || dchan->used)
			return;
		dev = dchan->dev;
		own_dev = dchan->own_dev;
	}
	dma_release_channel(dchan->chan);
	scoped_guard(spinlock_irq, &dchan->lock) {
		dchan->chan = NULL;
		WRITE_ONCE(dchan->state, CHAN_CLOSED);
	}
	put_device(dev);
	put_device(own_dev);
	if (atomic_dec_and_test(&dcbm_leaving))
		wake_up_var(&dcbm_leaving);
}

static bool word_in(const char *list, const char *name)
{
	size_t len;

	for (; *list; list += len + strspn(list + len, " ,\n")) {
		len = strcspn(list, " ,\n");
		if (len == strlen(name) && !strncmp(list, name, len))
			return true;
	}
	return false;
}

/* Why a device cannot be used for transfers, or NULL. */
static const char *dcbm_unfit(struct device *dev)
{
	/* The CPU would copy to the buffers instead. */
	if (dma_addressing_limited(dev) || dma_max_mapping_size(dev) != SIZE_MAX)
		return "needs bounce buffers";
	if (dma_get_max_seg_size(dev) < PAGE_SIZE || dma_get_seg_boundary(dev) < PAGE_SIZE - 1)
		return "takes no whole pages";
	return NULL;
}

/* Why a channel is not used, or NULL. Under dmaengine's lock, so that it has a name. */
static const char *dcbm_unused_for(struct dma_chan *chan)
{
	struct device *dev = chan->device->dev;

	if (!word_in(dcbm_devices, "any") && !word_in(dcbm_devices, dma_chan_name(chan)) &&
	    !word_in(dcbm_devices, dev_name(dev)) &&
	    !word_in(dcbm_devices, dev_driver_string(dev)))
		return "not among the devices";
	if (chan->device->copy_align > PAGE_SHIFT)
		return "takes no whole pages";
	return dcbm_unfit(dmaengine_get_dma_device(chan));
}

/**
 * struct search - a search among the channels that nobody uses
 * @dchan: Where to note what is known of the one that is taken.
 * @most: How many channels of its device we may have.
 * @buf: Take none, but write here why they are not used; or NULL.
 * @len: The number of bytes written to @buf.
 */
struct search {
	struct dcbm_chan *dchan;
	unsigned int most;
	char *buf;
	ssize_t len;
};

static unsigned int dcbm_ours_of(const struct device *dev)
{
	struct dcbm_chan *dchan;
	unsigned int ours = 0;

	for (dchan = dcbm_chans; dchan < dcbm_chans + dcbm_slots; dchan++)
		ours += READ_ONCE(dchan->state) != CHAN_CLOSED && dchan->dev == dev;
	return ours;
}

static bool dcbm_filter(struct dma_chan *chan, void *data)
{
	struct device *dev = chan->device->dev;
	struct search *s = data;
	const char *why;

	/* Not those of a device that is unbound, but has channels in use. */
	if (list_count_nodes(&chan->device->channels) != chan->device->chancnt)
		return false;
	why = dcbm_unused_for(chan);
	if (s->buf)
		s->len += sysfs_emit_at(s->buf, s->len, "%s of %s: %s\n", dma_chan_name(chan),
					dev_name(dev), why ?: "not asked for");
	if (why || s->buf || dcbm_ours_of(dev) > s->most)
		return false;
	/* As soon as dmaengine lets go of its lock, the device may be unbound. */
	put_device(s->dchan->dev);
	put_device(s->dchan->own_dev);
	s->dchan->dev = get_device(dev);
	s->dchan->own_dev = get_device(&chan->dev->device);
	WRITE_ONCE(s->dchan->nid, dev_to_node(dev));
	return true;
}

static struct dma_chan *dcbm_request(struct search *s)
{
	dma_cap_mask_t mask = {};

	dma_cap_set(DMA_MEMCPY, mask);
	return dma_request_channel(mask, dcbm_filter, s);
}

/* Request one channel, balanced across devices; false if none can be used. */
static bool dcbm_acquire_one(struct dcbm_chan *dchan)
{
	struct search s = { .dchan = dchan };
	struct dma_chan *chan = NULL;
	struct device *dev;

	dchan->dev = NULL;
	dchan->own_dev = NULL;
	for (; !chan && s.most < MAX_CHANNELS; s.most++)
		chan = dcbm_request(&s);
	if (!chan)
		goto put;
	/* Some have a device of their own for DMA as soon as they are in use (k3-udma). */
	dev = dmaengine_get_dma_device(chan);
	if (dcbm_unfit(dev)) {
		pr_warn("%s: %s\n", dev_name(dchan->own_dev), dcbm_unfit(dev));
		dma_release_channel(chan);
		goto put;
	}
	dchan->dma_dev = dev;
	dchan->boundary_pages =
		min(rounddown_pow_of_two(dma_get_max_seg_size(dev) / PAGE_SIZE),
		    dma_get_seg_boundary_nr_pages(dev, PAGE_SHIFT));
	dchan->bytes = 0;
	scoped_guard(spinlock_irq, &dchan->lock) {
		dchan->chan = chan;
		WRITE_ONCE(dchan->state, CHAN_LIVE);
	}
	/* There may be jobs for it. */
	dcbm_kick(dchan);
	return true;
put:
	put_device(dchan->dev);
	put_device(dchan->own_dev);
	return false;
}

/* A slot without a channel, or NULL. */
static struct dcbm_chan *dcbm_free_slot(void)
{
	struct dcbm_chan *dchan = dcbm_chans;

	while (dchan < dcbm_chans + dcbm_slots && READ_ONCE(dchan->state) != CHAN_CLOSED)
		dchan++;
	if (dchan < dcbm_chans + dcbm_slots)
		return dchan;
	if (dcbm_slots == MAX_CHANNELS)
		return NULL;
	dchan->worker = kthread_run_worker(0, "dcbm/%u", dcbm_slots);
	if (IS_ERR(dchan->worker))
		return NULL;
	sched_set_fifo_low(dchan->worker->task);
	spin_lock_init(&dchan->lock);
	kthread_init_work(&dchan->work, dcbm_work);
	/* Pairs with the acquire in dcbm_start(). */
	smp_store_release(&dcbm_slots, dcbm_slots + 1);
	return dchan;
}

/* Wait for channels to be released, unless they hang: those are released later. */
static bool dcbm_wait_left(void)
{
	return wait_var_event_timeout(&dcbm_leaving, !atomic_read(&dcbm_leaving), LEAVE_DELAY);
}

/* Adjust to @wanted channels, or all that there are. Returns whether any is released. */
static bool dcbm_acquire(unsigned int wanted)
{
	struct dcbm_chan *dchan;
	unsigned int have = 0;
	bool left;

	for (dchan = dcbm_chans; dchan < dcbm_chans + dcbm_slots; dchan++) {
		guard(spinlock_irq)(&dchan->lock);
		if (dchan->state != CHAN_LIVE || have++ < wanted)
			continue;
		WRITE_ONCE(dchan->state, CHAN_LEAVING);
		atomic_inc(&dcbm_leaving);
		dcbm_kick(dchan);
	}
	have = min(have, wanted);
	left = dcbm_wait_left();
	while (have < wanted && (dchan = dcbm_free_slot()) && dcbm_acquire_one(dchan))
		have++;
	migrate_copy_engine_ready(engine, have);
	return left;
}

/*
 * Channels are released for as long as the system sleeps: their drivers need not expect
 * to be used then. A transfer that is late would write to memory that is
 * being saved or restored, so that the system must not sleep.
 */
static int dcbm_pm_event(struct notifier_block *nb, unsigned long event, void *data)
{
	bool sleep = event == PM_SUSPEND_PREPARE || event == PM_HIBERNATION_PREPARE ||
		     event == PM_RESTORE_PREPARE;

	guard(mutex)(&dcbm_mutex);
	dcbm_suspended = sleep;
	if (!engine)
		return NOTIFY_OK;
	if (dcbm_acquire(sleep ? 0 : dcbm_wanted) || !sleep)
		return NOTIFY_OK;
	dcbm_suspended = false;
	dcbm_acquire(dcbm_wanted);
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block dcbm_pm_block = { .notifier_call = dcbm_pm_event };

static int nr_dma_chan_set(const char *text, const struct kernel_param *kp)
{
	unsigned int nr;

	if (kstrtouint(text, 10, &nr) || nr > MAX_CHANNELS)
		return -EINVAL;
	guard(mutex)(&dcbm_mutex);
	dcbm_wanted = nr;
	if (engine && !dcbm_suspended)
		dcbm_acquire(nr);
	return 0;
}

static const struct kernel_param_ops nr_dma_chan_ops = {
	.set = nr_dma_chan_set,
	.get = param_get_uint,
};

module_param_cb(nr_dma_chan, &nr_dma_chan_ops, &dcbm_wanted, 0644);
MODULE_PARM_DESC(nr_dma_chan, "channels to use, 0 to 64 (default 0)");

/* Channels are released, and requested again as the new list says. */
static int devices_set(const char *text, const struct kernel_param *kp)
{
	size_t len = strcspn(text, "\n"), i;

	if (len >= sizeof(dcbm_devices))
		return -EINVAL;
	for (i = 0; i < len; i++) {
		if (!isascii(text[i]) || !isprint(text[i]))
			return -EINVAL;
	}
	guard(mutex)(&dcbm_mutex);
	strscpy(dcbm_devices, text, len + 1);
	if (engine && !dcbm_suspended) {
		dcbm_acquire(0);
		dcbm_acquire(dcbm_wanted);
	}
	return 0;
}

static const struct kernel_param_ops devices_ops = {
	.set = devices_set,
	.get = param_get_string,
};

static struct kparam_string devices_string = {
	.maxlen = sizeof(dcbm_devices),
	.string = dcbm_devices,
};

module_param_cb(devices, &devices_ops, &devices_string, 0644);
MODULE_PARM_DESC(devices, "drivers, devices, or channels as in /sys/class/dma/ to use (default any)");

static ssize_t status_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct search s = { .buf = buf };
	struct dcbm_chan *dchan;

	guard(mutex)(&dcbm_mutex);
	s.len = sysfs_emit(buf, "rejected %ld\nspurious %ld\n", atomic_long_read(&dcbm_rejected),
			   atomic_long_read(&dcbm_spurious));
	for (dchan = dcbm_chans; dchan < dcbm_chans + dcbm_slots; dchan++) {
		guard(spinlock_irq)(&dchan->lock);
		if (dchan->chan)
			s.len += sysfs_emit_at(buf, s.len, "%s of node %d: %s, %llu KB\n",
					       dev_name(dchan->own_dev), dchan->nid,
					       dchan->lost ? "waits for late transfers" :
					       dchan->state == CHAN_LIVE ? "ready" :
					       "is being released", dchan->bytes / SZ_1K);
	}
	dcbm_request(&s);
	return s.len;
}

static struct kobj_attribute status_attr = __ATTR_RO(status);

static struct attribute *dcbm_attrs[] = {
	&status_attr.attr,
	NULL
};

ATTRIBUTE_GROUPS(dcbm);

static const struct migrate_copy_engine_desc dcbm_desc = {
	.name = "dcbm",
	.groups = dcbm_groups,
	.start = dcbm_start,
	.end = dcbm_end,
};

static int __init dcbm_init(void)
{
	struct migrate_copy_engine *registered;

#ifdef CONFIG_ARM64_MTE
	/* DMA does not copy the tags of pages. */
	if (system_supports_mte())
		return -EOPNOTSUPP;
#endif
	dcbm_chans = kvcalloc(MAX_CHANNELS, sizeof(*dcbm_chans), GFP_KERNEL);
	if (!dcbm_chans)
		return -ENOMEM;
	registered = migrate_copy_engine_register(&dcbm_desc, NULL);
	if (IS_ERR(registered)) {
		kvfree(dcbm_chans);
		return PTR_ERR(registered);
	}
	register_pm_notifier(&dcbm_pm_block);
	guard(mutex)(&dcbm_mutex);
	engine = registered;
	dcbm_acquire(dcbm_suspended ? 0 : dcbm_wanted);
	return 0;
}
late_initcall_sync(dcbm_init);

static void __exit dcbm_exit(void)
{
	struct migrate_copy_engine *registered = engine;

	unregister_pm_notifier(&dcbm_pm_block);
	scoped_guard(mutex, &dcbm_mutex) {
		dcbm_acquire(0);
		/* From here on parameters have no effect. */
		engine = NULL;
	}
	while (!dcbm_wait_left())
		pr_warn_ratelimited("waiting for late transfers\n");
	migrate_copy_engine_unregister(registered);
	while (dcbm_slots)
		kthread_destroy_worker(dcbm_chans[--dcbm_slots].worker);
	kvfree(dcbm_chans);
}
module_exit(dcbm_exit);

MODULE_AUTHOR("Pagehaul developers");
MODULE_DESCRIPTION("Copies folios by DMA channels for page migration");
MODULE_LICENSE("GPL");
