// SPDX-License-Identifier: GPL-2.0-only
/*
 * softdma: a DMA engine made of threads, to test the clients of DMA engines.
 *
 * It copies memory to memory, by the CPU: there is nothing to be won by using it.
 * Each channel has a thread of its own. Where the kernel has fault injection,
 * everything that can go wrong with real hardware can be made to go wrong here, in
 * debugfs below softdma/:
 *
 * fail_transfer	half of it is copied, the client is told that it has failed
 * fail_delay		the transfer begins only after delay_ms, at once if that becomes 0
 * fail_abort		the client is told that it was aborted, and it begins after delay_ms
 *			nevertheless; then the client is told again (ioat)
 * fail_drop		copied, but the client never hears of it
 * fail_duplicate	the client hears of it twice
 * fail_prep		no descriptor is to be had
 * fail_submit		the channel does not take it, and the client is told twice: by a
 *			callback, too, as idxd does
 * fail_terminate	the channel cannot be terminated, and goes on
 * fail_device		the channel halts: it takes descriptors no more, and nothing that
 *			it has is done; until revive is written
 *
 * Some devices are peculiar; by parameters, this one is as they are:
 *
 * seg_kb, boundary_kb	takes so much at a time, and nothing that crosses such a
 *			boundary (all PCI devices that say nothing take 64 KB)
 * mask_bits		reaches so much memory: the rest needs bounce buffers
 * own_bits		each channel has a device of its own for its transfers, which reaches
 *			so much memory, and which seg_kb is of; as soon as a client has
 *			requested it, and not before (k3-udma)
 * no_order		does the last transfer that it was given first (idxd)
 * coalesce		reports a descriptor that does not interrupt together with the
 *			next one that does, or when it is asked how far it is (plx_dma,
 *			switchtec_dma)
 * irq_cpu		interrupts that CPU with a descriptor that interrupts, and is done with
 *			this when it says so: who waits for it takes what an interrupt takes
 * issue_us		takes so long to return after it was told to begin
 * silent		does not interrupt: reports what is complete when it is asked how far
 *			it is (ioat and plx_dma do so, too)
 * queue, block		has so many descriptors; when all are in use, the client waits
 *			for one, without end (idxd)
 * loose		does not stop when it is terminated, says that it has, and frees
 *			what it still uses: KASAN finds that (ptdma)
 *
 * With pci=1 its devices are those that QEMU has for tests (pci-testdev), and so what
 * an IOMMU has mapped for these is all that it can access.
 *
 * What a client does that it must not do is counted in misused.
 *
 * What other drivers do, this one does, too, so that clients which do not allow for
 * it are found out: it may sleep when it prepares and submits (idxd does), disables
 * bottom halves in whatever it is asked for (ioat and many others), and when it is
 * asked how far it is, they have to be disabled already (plx_dma).
 *
 * A device can be unbound while clients have channels of it: what these were given
 * is done, and they take nothing more.
 */
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/err.h>
#include <linux/fault-inject.h>
#include <linux/interrupt.h>
#include <linux/iommu.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "virt-dma.h"

/* Descriptors of a channel: real ones have few, too. */
#define NR_DESCS	32

/* How much is copied between two looks whether the transfer is terminated. */
#define PIECE		SZ_4K

#define MAX_CHANNELS	64
#define MAX_DEVICES	8

/* A transfer that waits looks so often whether delay_ms has become less. */
#define DELAY_LOOK_MS	10

/* What channels that share a speed may make up for. */
#define MAKE_UP_NS	(100 * NSEC_PER_USEC)

/*
 * A device that is unbound does what it has, unless it completes nothing for so long.
 * Its clients would wait for ever for what it leaves undone.
 */
#define DRAIN_MS	3000

/* How long it stays after its last client has gone. */
#define FREE_MS		500

static unsigned int channels = 4;
module_param(channels, uint, 0444);
MODULE_PARM_DESC(channels, "channels of each device, 1 to 64 (default 4)");

static unsigned int devices = 1;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "devices, 1 to 8, the first on the first node, and so on (default 1)");

static bool pci;
module_param(pci, bool, 0444);
MODULE_PARM_DESC(pci, "be the driver of QEMU's pci-testdev, of as many as there are (default 0)");

static char *cpus;
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "list of CPUs of all threads (default: those of the device's node)");

static unsigned int bandwidth_mb;
module_param(bandwidth_mb, uint, 0644);
MODULE_PARM_DESC(bandwidth_mb, "most MB/s of a channel; 0: as fast as a CPU copies (default)");

static unsigned int setup_ns;
module_param(setup_ns, uint, 0644);
MODULE_PARM_DESC(setup_ns, "what each transfer takes a channel besides its bytes (default 0)");

static unsigned int group = 1;
module_param(group, uint, 0444);
MODULE_PARM_DESC(group, "how many neighbouring channels of a device share group_mb (default 1)");

static unsigned int group_mb;
module_param(group_mb, uint, 0644);
MODULE_PARM_DESC(group_mb, "most MB/s of a group of channels together; 0: any number (default)");

static unsigned int all_mb;
module_param(all_mb, uint, 0644);
MODULE_PARM_DESC(all_mb, "most MB/s of all channels together; 0: any number (default)");

static unsigned int page_ns;
module_param(page_ns, uint, 0644);
MODULE_PARM_DESC(page_ns, "what each base page of a transfer takes a channel besides (default 0)");

static int irq_cpu = -1;
module_param(irq_cpu, int, 0644);
MODULE_PARM_DESC(irq_cpu, "CPU to interrupt; -1: none, the thread reports by itself (default)");

static int seg_kb_set(const char *text, const struct kernel_param *kp);

static const struct kernel_param_ops seg_kb_ops = {
	.set = seg_kb_set,
	.get = param_get_uint,
};

static unsigned int seg_kb;
module_param_cb(seg_kb, &seg_kb_ops, &seg_kb, 0644);
MODULE_PARM_DESC(seg_kb, "most KB of a transfer, for who requests channels from then on; 0: any number (default)");

static unsigned int boundary_kb;
module_param(boundary_kb, uint, 0444);
MODULE_PARM_DESC(boundary_kb, "KB, a power of 2, of which no transfer crosses a multiple; 0: none (default)");

static unsigned int mask_bits = 64;
module_param(mask_bits, uint, 0444);
MODULE_PARM_DESC(mask_bits, "bits of an address, 24 to 64 (default 64)");

static unsigned int own_bits;
module_param(own_bits, uint, 0444);
MODULE_PARM_DESC(own_bits, "bits of an address of a channel's own device, 24 to 64; 0: it has none (default)");

static bool no_order;
module_param(no_order, bool, 0444);
MODULE_PARM_DESC(no_order, "complete in another order (default 0)");

static bool coalesce;
module_param(coalesce, bool, 0444);
MODULE_PARM_DESC(coalesce, "report with a descriptor that interrupts, or when asked (default 0)");

static unsigned int issue_us;
module_param(issue_us, uint, 0444);
MODULE_PARM_DESC(issue_us, "how long issue_pending takes after transfers may begin, at most 10000 (default 0)");

static bool silent;
module_param(silent, bool, 0444);
MODULE_PARM_DESC(silent, "report only when asked (default 0)");

static unsigned int queue = NR_DESCS;
module_param(queue, uint, 0444);
MODULE_PARM_DESC(queue, "descriptors of a channel, 1 to 32 (default 32)");

static bool block;
module_param(block, bool, 0444);
MODULE_PARM_DESC(block, "let clients wait for a descriptor (default 0)");

static bool loose;
module_param(loose, bool, 0444);
MODULE_PARM_DESC(loose, "go on when terminated, with memory that was freed (default 0)");

static unsigned int delay_ms = 300;
module_param(delay_ms, uint, 0644);
MODULE_PARM_DESC(delay_ms, "how long fail_delay lets a transfer wait (default 300)");

static DECLARE_FAULT_ATTR(fail_transfer);
static DECLARE_FAULT_ATTR(fail_delay);
static DECLARE_FAULT_ATTR(fail_abort);
static DECLARE_FAULT_ATTR(fail_drop);
static DECLARE_FAULT_ATTR(fail_duplicate);
static DECLARE_FAULT_ATTR(fail_prep);
static DECLARE_FAULT_ATTR(fail_submit);
static DECLARE_FAULT_ATTR(fail_terminate);
static DECLARE_FAULT_ATTR(fail_device);

/* What clients have done that they must not do. */
static atomic_t misused = ATOMIC_INIT(0);

/* How often a CPU was interrupted. */
static atomic_t interrupted = ATOMIC_INIT(0);

/**
 * struct softdma_cmd - what the channel reads while it transfers
 * @dst: Where to.
 * @src: Where from.
 * @len: Bytes.
 */
struct softdma_cmd {
	dma_addr_t dst;
	dma_addr_t src;
	size_t len;
};

/**
 * struct softdma_desc - a transfer
 * @vd: What virt-dma knows of it.
 * @cmd: What to do.
 * @prepared: When the client had it.
 * @free: In the list of free descriptors.
 */
struct softdma_desc {
	struct virt_dma_desc vd;
	struct softdma_cmd *cmd;
	ktime_t prepared;
	struct list_head free;
};

/**
 * struct softdma_chan - a channel
 * @vc: What virt-dma knows of it; its lock protects what follows, but the thread.
 * @descs: All its descriptors.
 * @free: Those not in use.
 * @held: Those that are complete, and reported with the next one that interrupts, or
 *	when the client asks.
 * @current_desc: What the thread works on; not in any list.
 * @abort: That is to be given up.
 * @gone: Nothing moves any more.
 * @closing: Nothing more is taken.
 * @seg_kb: Most KB of a transfer, 0 for any number, as it was when the client
 *	requested the channel.
 * @dev: The device that does its transfers, while a client has it.
 * @own_parms: What is known of its own device.
 * @free_at: When a channel that is held to a speed is through with the last transfer.
 * @group_free_at: When its group is, if it is the first one of that; under pace_lock.
 * @irq: What the CPU does that it interrupts.
 * @report: What that has it do then.
 * @work: Where the thread waits for work.
 * @idle: Where others wait for the thread to let go of @current_desc.
 * @room: Where clients wait for a descriptor.
 * @thread: The thread.
 * @bounce: A piece on its way.
 */
struct softdma_chan {
	struct virt_dma_chan vc;
	struct softdma_desc descs[NR_DESCS];
	struct list_head free;
	struct list_head held;
	struct softdma_desc *current_desc;
	bool abort;
	bool gone;
	bool closing;
	unsigned int seg_kb;
	struct device *dev;
	struct device_dma_parameters own_parms;
	ktime_t free_at;
	ktime_t group_free_at;
	call_single_data_t irq;
	struct tasklet_struct report;
	wait_queue_head_t work;
	wait_queue_head_t idle;
	wait_queue_head_t room;
	struct task_struct *thread;
	u8 bounce[PIECE];
};

/**
 * struct softdma - a device
 * @dma: What dmaengine knows of it; the last reference frees this.
 * @node: In the list of those that are bound.
 * @free: Frees this.
 * @nr: Number of @chans that are set up.
 * @chans: The channels.
 */
struct softdma {
	struct dma_device dma;
	struct list_head node;
	struct work_struct free;
	unsigned int nr;
	struct softdma_chan chans[];
};

/* The CPUs of @cpus, if it is given. */
static struct cpumask thread_cpus;

/* Those that are bound, under the mutex. */
static DEFINE_MUTEX(bound_lock);
static LIST_HEAD(bound);

static struct platform_device *pdevs[MAX_DEVICES];
static struct dentry *debug_dir;
static struct workqueue_struct *free_wq;

/* Protects group_free_at of all channels, and what follows. */
static DEFINE_SPINLOCK(pace_lock);
/* When all channels are through, if they share all_mb. */
static ktime_t all_free_at;

static struct softdma_chan *to_chan(struct dma_chan *chan)
{
	return container_of(chan, struct softdma_chan, vc.chan);
}

static struct softdma_desc *to_desc(struct virt_dma_desc *vd)
{
	return container_of(vd, struct softdma_desc, vd);
}

static void as_others_do(void)
{
	local_bh_disable();
	local_bh_enable();
}

/* A descriptor can be used again; the lock is held. */
static void put_desc(struct softdma_chan *sc, struct softdma_desc *desc)
{
	kfree(desc->cmd);
	desc->cmd = NULL;
	list_add_tail(&desc->free, &sc->free);
	wake_up(&sc->room);
}

/* Called by virt-dma without the lock. */
static void desc_free(struct virt_dma_desc *vd)
{
	struct softdma_chan *sc = to_chan(vd->tx.chan);
	unsigned long flags;

	spin_lock_irqsave(&sc->vc.lock, flags);
	put_desc(sc, to_desc(vd));
	spin_unlock_irqrestore(&sc->vc.lock, flags);
}

/* Tell the client of a transfer, who will be told again. */
static void tell(struct virt_dma_desc *vd)
{
	struct dmaengine_desc_callback cb;

	dmaengine_desc_get_callback(&vd->tx, &cb);
	local_bh_disable();
	dmaengine_desc_callback_invoke(&cb, &vd->tx_result);
	local_bh_enable();
}

static dma_cookie_t refuse(struct virt_dma_desc *vd)
{
	struct softdma_chan *sc = to_chan(vd->tx.chan);
	unsigned long flags;

	spin_lock_irqsave(&sc->vc.lock, flags);
	list_del(&vd->node);
	spin_unlock_irqrestore(&sc->vc.lock, flags);
	vd->tx_result.result = DMA_TRANS_ABORTED;
	tell(vd);
	desc_free(vd);
	return -EAGAIN;
}

static dma_cookie_t tx_submit(struct dma_async_tx_descriptor *tx)
{
	might_sleep();
	as_others_do();
	if (should_fail(&fail_submit, 1))
		return refuse(container_of(tx, struct virt_dma_desc, tx));
	return vchan_tx_submit(tx);
}

static struct softdma_desc *get_desc(struct softdma_chan *sc)
{
	struct softdma_desc *desc = NULL;
	unsigned long flags;

	spin_lock_irqsave(&sc->vc.lock, flags);
	if (!sc->gone && !sc->closing)
		desc = list_first_entry_or_null(&sc->free, struct softdma_desc,
						free);
	if (desc)
		list_del(&desc->free);
	spin_unlock_irqrestore(&sc->vc.lock, flags);
	return desc;
}

static bool may_get_desc(struct softdma_chan *sc)
{
	return READ_ONCE(sc->closing) ||
	       (!READ_ONCE(sc->gone) && !list_empty(&sc->free));
}

static bool crosses(dma_addr_t addr, size_t len)
{
	u64 boundary = boundary_kb * (u64)SZ_1K;

	return boundary && (addr & (boundary - 1)) + len > boundary;
}

static struct dma_async_tx_descriptor *
prep_memcpy(struct dma_chan *chan, dma_addr_t dst, dma_addr_t src, size_t len,
	    unsigned long tx_flags)
{
	struct softdma_chan *sc = to_chan(chan);
	struct dma_async_tx_descriptor *tx;
	unsigned int most_kb = READ_ONCE(sc->seg_kb);
	struct softdma_desc *desc;
	struct softdma_cmd *cmd;

	might_sleep();
	as_others_do();
	if ((most_kb && len > most_kb * (size_t)SZ_1K) || crosses(dst, len) ||
	    crosses(src, len)) {
		atomic_inc(&misused);
		return NULL;
	}
	if (should_fail(&fail_prep, len))
		return NULL;

	cmd = kmalloc_obj(*cmd, GFP_NOWAIT);
	if (!cmd)
		return NULL;
	desc = get_desc(sc);
	while (!desc && block && !READ_ONCE(sc->closing)) {
		wait_event_idle(sc->room, may_get_desc(sc));
		desc = get_desc(sc);
	}
	if (!desc) {
		kfree(cmd);
		return NULL;
	}

	*cmd = (struct softdma_cmd){ dst, src, len };
	desc->cmd = cmd;
	desc->prepared = ktime_get();
	tx = vchan_tx_prep(&sc->vc, &desc->vd, tx_flags);
	tx->tx_submit = tx_submit;
	return tx;
}

static void issue_pending(struct dma_chan *chan)
{
	struct softdma_chan *sc = to_chan(chan);
	unsigned long flags;

	as_others_do();
	spin_lock_irqsave(&sc->vc.lock, flags);
	if (vchan_issue_pending(&sc->vc))
		wake_up(&sc->work);
	spin_unlock_irqrestore(&sc->vc.lock, flags);
	if (issue_us)
		fsleep(issue_us);
}

/* Tell clients of what is complete; the lock is held. */
static void report_held(struct softdma_chan *sc)
{
	struct virt_dma_desc *vd, *next;

	list_for_each_entry_safe(vd, next, &sc->held, node) {
		list_del(&vd->node);
		vchan_cookie_complete(vd);
	}
}

static void report(struct tasklet_struct *tasklet)
{
	struct softdma_chan *sc = from_tasklet(sc, tasklet, report);
	unsigned long flags;

	spin_lock_irqsave(&sc->vc.lock, flags);
	report_held(sc);
	spin_unlock_irqrestore(&sc->vc.lock, flags);
}

static void interrupt(void *data)
{
	struct softdma_chan *sc = data;

	atomic_inc(&interrupted);
	tasklet_schedule(&sc->report);
}

/* Interrupt a CPU; where it is not there, this one reports. */
static void interrupt_cpu(struct softdma_chan *sc, int cpu)
{
	/* A tasklet that is scheduled here runs when these are enabled. */
	local_bh_disable();
	/* If an interrupt is on its way, that reports this, too. */
	if (smp_call_function_single_async(cpu, &sc->irq) == -ENXIO)
		tasklet_schedule(&sc->report);
	local_bh_enable();
}

static enum dma_status tx_status(struct dma_chan *chan, dma_cookie_t cookie,
				 struct dma_tx_state *state)
{
	struct softdma_chan *sc = to_chan(chan);
	enum dma_status status;
	unsigned long flags;

	lockdep_assert_in_softirq();
	as_others_do();
	/* The thread writes, under this lock, what is read here. */
	spin_lock_irqsave(&sc->vc.lock, flags);
	if (silent || coalesce || READ_ONCE(irq_cpu) >= 0)
		report_held(sc);
	status = dma_cookie_status(chan, cookie, state);
	spin_unlock_irqrestore(&sc->vc.lock, flags);
	return no_order ? DMA_OUT_OF_ORDER : status;
}

/*
 * Give up everything; what the thread is at ends within a piece. Or it goes on, and
 * what it reads is freed.
 */
static void abort_all(struct softdma_chan *sc)
{
	struct softdma_cmd *in_use = NULL;
	unsigned long flags;
	LIST_HEAD(head);

	spin_lock_irqsave(&sc->vc.lock, flags);
	/* Somebody is about to submit it. */
	if (!list_empty(&sc->vc.desc_allocated))
		atomic_inc(&misused);
	vchan_get_all_descriptors(&sc->vc, &head);
	list_splice_tail_init(&sc->held, &head);
	if (loose && sc->current_desc) {
		atomic_inc(&misused);
		in_use = sc->current_desc->cmd;
		sc->current_desc->cmd = NULL;
	}
	sc->abort = sc->current_desc;
	wake_up(&sc->work);
	spin_unlock_irqrestore(&sc->vc.lock, flags);

	kfree(in_use);
	vchan_dma_desc_free_list(&sc->vc, &head);
}

static int terminate_all(struct dma_chan *chan)
{
	if (should_fail(&fail_terminate, 1))
		return -EIO;

	abort_all(to_chan(chan));
	return 0;
}

static bool not_aborting(struct softdma_chan *sc)
{
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&sc->vc.lock, flags);
	done = !sc->abort;
	spin_unlock_irqrestore(&sc->vc.lock, flags);
	return done;
}

static void synchronize(struct dma_chan *chan)
{
	struct softdma_chan *sc = to_chan(chan);

	if (!loose)
		wait_event(sc->idle, not_aborting(sc));
	vchan_synchronize(&sc->vc);
}

static bool is_idle(struct softdma_chan *sc)
{
	bool idle;

	spin_lock_irq(&sc->vc.lock);
	idle = !sc->current_desc && list_empty(&sc->vc.desc_submitted) &&
	       list_empty(&sc->vc.desc_issued) &&
	       list_empty(&sc->vc.desc_completed) && list_empty(&sc->held);
	spin_unlock_irq(&sc->vc.lock);
	return idle;
}

static void set_seg(struct device *dev, unsigned int kb)
{
	dma_set_max_seg_size(dev, kb ? kb * SZ_1K : UINT_MAX);
}

static int set_mask(struct device *dev, unsigned int bits)
{
	int err = dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(64));

	/* Not asked for, as the platform might refuse what it has no zone for. */
	if (!err)
		*dev->dma_mask = DMA_BIT_MASK(bits);
	return err;
}

static int alloc_chan_resources(struct dma_chan *chan)
{
	struct softdma_chan *sc = to_chan(chan);
	struct device *own = &chan->dev->device;
	int err;

	WRITE_ONCE(sc->seg_kb, READ_ONCE(seg_kb));
	if (own_bits) {
		err = set_mask(own, own_bits);
		if (err)
			return err;
		own->dma_parms = &sc->own_parms;
		set_seg(own, sc->seg_kb);
		chan->dev->chan_dma_dev = true;
	}
	sc->dev = get_device(dmaengine_get_dma_device(chan));
	return 0;
}

static void free_chan_resources(struct dma_chan *chan)
{
	struct softdma_chan *sc = to_chan(chan);

	/* To release a channel stops nothing, elsewhere. */
	if (!is_idle(sc) && !loose)
		atomic_inc(&misused);
	abort_all(sc);
	wait_event(sc->idle, not_aborting(sc));
	vchan_synchronize(&sc->vc);
	vchan_free_chan_resources(&sc->vc);
	if (sc->dev != chan->device->dev)
		container_of(sc->dev, struct dma_chan_dev, device)->chan_dma_dev = false;
	put_device(sc->dev);
}

static bool aborted(struct softdma_chan *sc)
{
	return (READ_ONCE(sc->abort) && !loose) || kthread_should_stop();
}

/*
 * Wait for delay_ms, unless the transfer is given up.  A test that waits for the
 * rest of it may make it shorter.
 */
static void dawdle(struct softdma_chan *sc)
{
	ktime_t begin = ktime_get();

	while (!aborted(sc) &&
	       ktime_ms_delta(ktime_get(), begin) < READ_ONCE(delay_ms))
		wait_event_timeout(sc->work, aborted(sc),
				   msecs_to_jiffies(DELAY_LOOK_MS));
}

/* How long so many bytes take at so many MB/s; 0 for any speed. A byte at 1 MB/s: 1 us. */
static u64 bytes_ns(size_t len, unsigned int mb)
{
	return mb ? div_u64((u64)len * NSEC_PER_USEC, mb) : 0;
}

/*
 * When what is shared is through with it, too, by when it is through with that of others.
 * What was left unused lately is made up for: threads do not come in the order in which
 * their transfers begin. (One that is given up later has had its time.)
 */
static ktime_t share_pace(ktime_t *free_at, ktime_t begin, size_t len, unsigned int mb)
{
	*free_at = ktime_add_ns(max(ktime_sub_ns(begin, MAKE_UP_NS), *free_at),
				bytes_ns(len, mb));
	return mb ? *free_at : 0;
}

/*
 * Wait until a channel that is held to a speed would be through; false if the transfer
 * is given up before. It begins when the channel has the transfer and is through with
 * the one before, however late the thread wakes up.
 */
static bool keep_pace(struct softdma_chan *sc, const struct softdma_desc *desc,
		      size_t len)
{
	struct softdma *sd = container_of(sc->vc.chan.device, struct softdma, dma);
	struct softdma_chan *first = sc - (sc - sd->chans) % group;
	ktime_t begin = max(desc->prepared, sc->free_at);
	ktime_t left;

	sc->free_at = ktime_add_ns(begin, READ_ONCE(setup_ns) +
				   DIV_ROUND_UP(len, PAGE_SIZE) * READ_ONCE(page_ns) +
				   bytes_ns(len, READ_ONCE(bandwidth_mb)));
	scoped_guard(spinlock, &pace_lock)
		sc->free_at = max3(sc->free_at,
				   share_pace(&first->group_free_at, begin, len,
					      READ_ONCE(group_mb)),
				   share_pace(&all_free_at, begin, len, READ_ONCE(all_mb)));
	left = ktime_sub(sc->free_at, ktime_get());
	if (left > 0)
		wait_event_hrtimeout(sc->work, aborted(sc), left);
	if (!aborted(sc))
		return true;
	sc->free_at = ktime_get();
	return false;
}

/* What a device sees at an address; NULL if the IOMMU lets it see nothing there. */
static void *at(struct softdma_chan *sc, dma_addr_t addr)
{
	struct device *dev = sc->dev;
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);
	phys_addr_t phys;

	if (!domain)
		return phys_to_virt(dma_to_phys(dev, addr));
	phys = iommu_iova_to_phys(domain, addr);
	if (phys)
		return phys_to_virt(phys);
	/* It has been unmapped too soon, unless this goes on when it must not. */
	if (!loose)
		atomic_inc(&misused);
	return NULL;
}

/*
 * Copy; false if the transfer was given up.  KASAN would
 * see no device write to memory that was given away since, and sees not this one.
 *
 * In two steps, which are faster than one where this is for: an emulated CPU looks
 * both addresses up in a table by their low bits.  Those of large folios are the
 * same, and each access would take the other's entry.
 */
__no_sanitize_address
static bool copy_all(struct softdma_chan *sc, const struct softdma_cmd *cmd,
		     size_t len)
{
	size_t done, part;
	dma_addr_t from, to;
	void *dst, *src;

	for (done = 0; done < len; done += part) {
		from = cmd->src + done;
		to = cmd->dst + done;
		part = min3(len - done, PIECE - from % PIECE, PIECE - to % PIECE);
		if (aborted(sc))
			return false;
		src = at(sc, from);
		dst = at(sc, to);
		if (src && dst) {
			memcpy(sc->bounce, src, part);
			memcpy(dst, sc->bounce, part);
		}
		cond_resched();
	}
	return true;
}

/* KASAN sees what is read here: a command that the driver has freed. */
static size_t cmd_len(const struct softdma_cmd *cmd)
{
	return READ_ONCE(cmd->len);
}

static struct softdma_desc *next_desc(struct softdma_chan *sc)
{
	struct virt_dma_desc *vd;

	spin_lock_irq(&sc->vc.lock);
	vd = sc->gone ? NULL : vchan_next_desc(&sc->vc);
	if (vd && no_order)
		vd = list_last_entry(&sc->vc.desc_issued, struct virt_dma_desc,
				     node);
	if (vd) {
		list_del(&vd->node);
		sc->current_desc = to_desc(vd);
	}
	spin_unlock_irq(&sc->vc.lock);
	return vd ? to_desc(vd) : NULL;
}

/*
 * The transfer is complete. @cpu, which will be interrupted, reports it; below 0 this
 * thread does, now or together with the next one that interrupts. A silent device
 * reports when it is asked.
 */
static void complete_desc(struct softdma_chan *sc, struct softdma_desc *desc, int cpu)
{
	if (silent || cpu >= 0 ||
	    (coalesce && !(desc->vd.tx.flags & DMA_PREP_INTERRUPT))) {
		list_add_tail(&desc->vd.node, &sc->held);
		return;
	}
	report_held(sc);
	vchan_cookie_complete(&desc->vd);
}

/* The thread lets go of its transfer; if it is not complete, for good. */
static void let_go(struct softdma_chan *sc, struct softdma_desc *desc,
		   bool complete)
{
	bool interrupts = desc->vd.tx.flags & DMA_PREP_INTERRUPT;
	int cpu = READ_ONCE(irq_cpu);
	bool lost;

	spin_lock_irq(&sc->vc.lock);
	lost = sc->abort || !complete;
	sc->abort = false;
	sc->current_desc = NULL;
	if (lost)
		put_desc(sc, desc);
	else
		complete_desc(sc, desc, cpu);
	wake_up(&sc->idle);
	spin_unlock_irq(&sc->vc.lock);
	if (!lost && interrupts && !silent && cpu >= 0)
		interrupt_cpu(sc, cpu);
}

static void work_on(struct softdma_chan *sc, struct softdma_desc *desc)
{
	const struct softdma_cmd *cmd = desc->cmd;
	size_t len = cmd->len;
	bool done;

	if (should_fail(&fail_device, len)) {
		WRITE_ONCE(sc->gone, true);
		wait_event_idle(sc->work, aborted(sc) || !READ_ONCE(sc->gone));
	}
	if (should_fail(&fail_abort, len)) {
		desc->vd.tx_result.result = DMA_TRANS_ABORTED;
		tell(&desc->vd);
		desc->vd.tx_result.result = DMA_TRANS_NOERROR;
		dawdle(sc);
	}
	if (should_fail(&fail_delay, len))
		dawdle(sc);

	if (should_fail(&fail_transfer, len)) {
		copy_all(sc, cmd, len / 2);
		desc->vd.tx_result.result = DMA_TRANS_WRITE_FAILED;
		let_go(sc, desc, true);
		return;
	}
	if (!aborted(sc))
		len = cmd_len(cmd);
	done = copy_all(sc, cmd, len) && keep_pace(sc, desc, len);
	if (done && should_fail(&fail_drop, len))
		done = false;
	else if (done && should_fail(&fail_duplicate, len))
		tell(&desc->vd);
	let_go(sc, desc, done);
}

static int chan_thread(void *data)
{
	struct softdma_chan *sc = data;
	int node = dev_to_node(sc->vc.chan.device->dev);
	struct softdma_desc *desc;

	/* Here, because a thread that begins takes all CPUs of its node. */
	if (cpus)
		set_cpus_allowed_ptr(current, &thread_cpus);
	else if (node != NUMA_NO_NODE)
		set_cpus_allowed_ptr(current, cpumask_of_node(node));
	/* Else the end of each transfer could be late by 50 us. */
	current->timer_slack_ns = 1;
	while (!kthread_should_stop()) {
		desc = NULL;
		wait_event_idle(sc->work, (desc = next_desc(sc)) ||
				kthread_should_stop());
		if (desc)
			work_on(sc, desc);
	}
	return 0;
}

static void nothing(void *unused)
{
}

/*
 * When a client of a device that has been unbound releases the last channel,
 * dmaengine drops the last reference, and then looks at that channel once more:
 * see dma_release_channel(). So it stays there for a moment.
 */
static void softdma_free(struct work_struct *work)
{
	struct softdma *sd = container_of(work, struct softdma, free);
	unsigned int i;

	while (sd->nr)
		kthread_stop(sd->chans[--sd->nr].thread);
	/* What is in the same queue as this comes before it, or in the same go. */
	on_each_cpu(nothing, NULL, 1);
	synchronize_rcu();
	for (i = 0; i < channels; i++)
		tasklet_kill(&sd->chans[i].report);
	msleep(FREE_MS);
	kvfree(sd);
}

static void softdma_release(struct dma_device *dma)
{
	struct softdma *sd = container_of(dma, struct softdma, dma);

	queue_work(free_wq, &sd->free);
}

static int chan_init(struct softdma *sd, struct softdma_chan *sc, int node)
{
	unsigned int i;

	INIT_LIST_HEAD(&sc->free);
	INIT_LIST_HEAD(&sc->held);
	for (i = 0; i < queue; i++)
		list_add_tail(&sc->descs[i].free, &sc->free);
	INIT_CSD(&sc->irq, interrupt, sc);
	tasklet_setup(&sc->report, report);
	init_waitqueue_head(&sc->work);
	init_waitqueue_head(&sc->idle);
	init_waitqueue_head(&sc->room);
	sc->vc.desc_free = desc_free;
	vchan_init(&sc->vc, &sd->dma);
	sc->thread = kthread_create_on_node(chan_thread, sc, node, "softdma/%u",
					    sd->nr);
	if (IS_ERR(sc->thread))
		return PTR_ERR(sc->thread);
	wake_up_process(sc->thread);
	sd->nr++;
	return 0;
}

static void dma_init(struct dma_device *dma, struct device *dev)
{
	INIT_LIST_HEAD(&dma->channels);
	INIT_WORK(&container_of(dma, struct softdma, dma)->free, softdma_free);
	dma_cap_set(DMA_MEMCPY, dma->cap_mask);
	if (no_order)
		dma_cap_set(DMA_COMPLETION_NO_ORDER, dma->cap_mask);
	dma->dev = dev;
	dma->copy_align = DMAENGINE_ALIGN_1_BYTE;
	dma->residue_granularity = DMA_RESIDUE_GRANULARITY_DESCRIPTOR;
	dma->device_prep_dma_memcpy = prep_memcpy;
	dma->device_issue_pending = issue_pending;
	dma->device_tx_status = tx_status;
	dma->device_terminate_all = terminate_all;
	dma->device_synchronize = synchronize;
	dma->device_alloc_chan_resources = alloc_chan_resources;
	dma->device_free_chan_resources = free_chan_resources;
	dma->device_release = softdma_release;
}

static int seg_kb_set(const char *text, const struct kernel_param *kp)
{
	struct softdma *sd;
	int err;

	guard(mutex)(&bound_lock);
	err = param_set_uint_minmax(text, kp, 0, UINT_MAX / SZ_1K);
	if (err)
		return err;
	list_for_each_entry(sd, &bound, node)
		set_seg(sd->dma.dev, own_bits ? 0 : seg_kb);
	return 0;
}

/* Make a device of dmaengine of one of the machine. */
static int softdma_add(struct device *dev)
{
	struct softdma *sd;
	unsigned int i;
	int err;

	err = set_mask(dev, mask_bits);
	if (err)
		return err;
	if (boundary_kb)
		dma_set_seg_boundary(dev, boundary_kb * (unsigned long)SZ_1K - 1);

	sd = kvzalloc(struct_size(sd, chans, channels), GFP_KERNEL);
	if (!sd)
		return -ENOMEM;
	dma_init(&sd->dma, dev);
	for (i = 0; i < channels; i++) {
		err = chan_init(sd, &sd->chans[i], dev_to_node(dev));
		if (err)
			goto free;
	}
	dev_set_drvdata(dev, sd);
	scoped_guard(mutex, &bound_lock) {
		set_seg(dev, own_bits ? 0 : seg_kb);
		list_add_tail(&sd->node, &bound);
	}
	err = dma_async_device_register(&sd->dma);
	if (err)
		goto unlist;
	return 0;

unlist:
	scoped_guard(mutex, &bound_lock)
		list_del(&sd->node);
free:
	softdma_release(&sd->dma);
	return err;
}

/* Take nothing more, and do what there is, unless the channel is gone. */
static void drain(struct softdma_chan *sc)
{
	dma_cookie_t cookie, last = READ_ONCE(sc->vc.chan.completed_cookie);
	unsigned int ms;

	spin_lock_irq(&sc->vc.lock);
	sc->closing = true;
	spin_unlock_irq(&sc->vc.lock);
	wake_up_all(&sc->room);
	for (ms = 0; ms < DRAIN_MS && !READ_ONCE(sc->gone); ms++) {
		if (is_idle(sc))
			break;
		fsleep(USEC_PER_MSEC);
		cookie = READ_ONCE(sc->vc.chan.completed_cookie);
		if (cookie != last)
			ms = 0;
		last = cookie;
	}
	WRITE_ONCE(sc->gone, true);
	vchan_synchronize(&sc->vc);
}

/* Clients may hold channels yet. Nothing moves any more. */
static void softdma_del(struct device *dev)
{
	struct softdma *sd = dev_get_drvdata(dev);
	unsigned int i;

	scoped_guard(mutex, &bound_lock)
		list_del(&sd->node);
	for (i = 0; i < sd->nr; i++)
		drain(&sd->chans[i]);
	dma_async_device_unregister(&sd->dma);
}

static int softdma_probe(struct platform_device *pdev)
{
	return softdma_add(&pdev->dev);
}

static void softdma_remove(struct platform_device *pdev)
{
	softdma_del(&pdev->dev);
}

static struct platform_driver softdma_driver = {
	.probe = softdma_probe,
	.remove = softdma_remove,
	.driver = {
		.name = "softdma",
	},
};

/* Devices are of all nodes in turn. */
static int nth_node(unsigned int nr)
{
	int node = first_online_node;

	for (nr %= num_online_nodes(); nr; nr--)
		node = next_online_node(node);
	return node;
}

#ifdef CONFIG_PCI
/* QEMU says of none of its devices on which node it is. */
static int softdma_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	static atomic_t nr;

	set_dev_node(&pdev->dev, nth_node(atomic_inc_return(&nr) - 1));
	pci_set_master(pdev);
	return softdma_add(&pdev->dev);
}

static void softdma_pci_remove(struct pci_dev *pdev)
{
	softdma_del(&pdev->dev);
}

static const struct pci_device_id softdma_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT, 0x0005) },
	{}
};

static struct pci_driver softdma_pci_driver = {
	.name = "softdma",
	.id_table = softdma_ids,
	.probe = softdma_pci_probe,
	.remove = softdma_pci_remove,
};

static int register_pci(void)
{
	return pci_register_driver(&softdma_pci_driver);
}

static void unregister_pci(void)
{
	pci_unregister_driver(&softdma_pci_driver);
}
#else
static int register_pci(void)
{
	return -ENODEV;
}

static void unregister_pci(void)
{
}
#endif

#ifdef CONFIG_FAULT_INJECTION_DEBUG_FS
static const struct {
	const char *name;
	struct fault_attr *attr;
} faults[] = {
	{ "fail_transfer", &fail_transfer },
	{ "fail_delay", &fail_delay },
	{ "fail_abort", &fail_abort },
	{ "fail_drop", &fail_drop },
	{ "fail_duplicate", &fail_duplicate },
	{ "fail_prep", &fail_prep },
	{ "fail_submit", &fail_submit },
	{ "fail_terminate", &fail_terminate },
	{ "fail_device", &fail_device },
};

static int revive_set(void *data, u64 value)
{
	struct softdma *sd;
	unsigned int i;

	guard(mutex)(&bound_lock);
	list_for_each_entry(sd, &bound, node) {
		for (i = 0; i < sd->nr; i++) {
			WRITE_ONCE(sd->chans[i].gone, false);
			wake_up(&sd->chans[i].work);
			wake_up_all(&sd->chans[i].room);
		}
	}
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(revive_fops, NULL, revive_set, "%llu\n");

static void add_debugfs(void)
{
	unsigned int i;

	debug_dir = debugfs_create_dir("softdma", NULL);
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		faults[i].attr->verbose = 0;
		fault_create_debugfs_attr(faults[i].name, debug_dir,
					  faults[i].attr);
	}
	debugfs_create_atomic_t("misused", 0444, debug_dir, &misused);
	debugfs_create_atomic_t("interrupted", 0444, debug_dir, &interrupted);
	debugfs_create_file_unsafe("revive", 0200, debug_dir, NULL,
				   &revive_fops);
}
#else
static void add_debugfs(void)
{
}
#endif

static struct platform_device *add_device(unsigned int id, int node)
{
	struct platform_device *pdev = platform_device_alloc("softdma", id);
	int err;

	if (!pdev)
		return ERR_PTR(-ENOMEM);
	set_dev_node(&pdev->dev, node);
	err = platform_device_add(pdev);
	if (err) {
		platform_device_put(pdev);
		return ERR_PTR(err);
	}
	return pdev;
}

static void del_devices(unsigned int nr)
{
	while (nr--)
		platform_device_unregister(pdevs[nr]);
	platform_driver_unregister(&softdma_driver);
}

static int add_devices(void)
{
	unsigned int d;
	int err;

	err = platform_driver_register(&softdma_driver);
	for (d = 0; d < devices && !err; d++) {
		pdevs[d] = add_device(d, nth_node(d));
		if (IS_ERR(pdevs[d])) {
			err = PTR_ERR(pdevs[d]);
			del_devices(d);
		}
	}
	return err;
}

static int __init softdma_init(void)
{
	int err;

	if (!channels || channels > MAX_CHANNELS || !devices ||
	    devices > MAX_DEVICES || !queue || queue > NR_DESCS ||
	    !group ||
	    mask_bits < 24 || mask_bits > 64 || issue_us > 10000 ||
	    (own_bits && (own_bits < 24 || own_bits > 64 || boundary_kb)) ||
	    (boundary_kb && !is_power_of_2(boundary_kb)))
		return -EINVAL;
	if (cpus) {
		err = cpulist_parse(cpus, &thread_cpus);
		if (err)
			return err;
		if (!cpumask_intersects(&thread_cpus, cpu_online_mask))
			return -EINVAL;
	}

	free_wq = alloc_workqueue("softdma", WQ_UNBOUND, 0);
	if (!free_wq)
		return -ENOMEM;
	err = pci ? register_pci() : add_devices();
	if (err) {
		destroy_workqueue(free_wq);
		return err;
	}
	add_debugfs();
	return 0;
}
module_init(softdma_init);

static void __exit softdma_exit(void)
{
	debugfs_remove(debug_dir);
	if (pci)
		unregister_pci();
	else
		del_devices(devices);
	destroy_workqueue(free_wq);
}
module_exit(softdma_exit);

MODULE_AUTHOR("Pagehaul developers");
MODULE_DESCRIPTION("DMA engine made of threads, for tests");
MODULE_LICENSE("GPL");
