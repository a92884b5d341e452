/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dcbm, the DMA core batch migrator: what its parts share. submit.c says how it
 * works; reset.c is for channels that fail, and acquire.c for those that come or go,
 * sysfs.c for what can be set and seen.
 */
#ifndef _MM_MIGRATE_COPY_DCBM_DCBM_H
#define _MM_MIGRATE_COPY_DCBM_DCBM_H

#include <linux/cleanup.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/kthread.h>
#include <linux/migrate_copy_engine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/wait.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#define MAX_CHANNELS	64

/* Chunks that a channel can have at a time. */
#define MAX_DEPTH	4

/* One more is claimed while another one ends. */
#define NR_DESCS	(MAX_DEPTH + 1)

/* Room for a list of names. */
#define NAMES_SIZE	256

/* When to look again at a channel that should be ready in a moment. */
#define LOOK_DELAY	msecs_to_jiffies(1)

/* The number of a chunk has so many bits, see the tickets in submit.c. */
#define NUMBER_BITS	40

/* Room for the name of a channel: dma<number>chan<number>. */
#define LABEL_SIZE	32

enum chan_state { CHAN_CLOSED, CHAN_LIVE, CHAN_RESETTING, CHAN_LEAVING };

/**
 * struct dcbm_desc - a chunk that a channel works on
 * @chunk: What to copy.
 * @share: Whose it is; NULL if it was given up as lost.
 * @used: Whether all this means anything.
 * @error: It has failed; nothing more of it is submitted.
 * @submitting: The next range is being handed to the channel, without the lock.
 * @pins: It was lost, and keeps the module in the kernel.
 * @submitted: Ranges that were handed to the channel, with that one.
 * @waiting: One bit for each of them that the channel has not reported.
 * @mapped: One bit for each of them that the device may access.
 * @number: What makes its tickets unique.
 * @dst: DMA addresses of the ranges.
 * @src: DMA addresses of the ranges.
 */
struct dcbm_desc {
	struct migrate_copy_chunk chunk;
	struct migrate_copy_share *share;
	bool used;
	bool error;
	bool submitting;
	bool pins;
	unsigned int submitted;
	u32 waiting;
	u32 mapped;
	u64 number;
	dma_addr_t dst[MIGRATE_COPY_CHUNK_RANGES];
	dma_addr_t src[MIGRATE_COPY_CHUNK_RANGES];
};

/**
 * struct dcbm_chan - a place for a channel
 * @slot: Its number.
 * @work: Resets or releases it, and ends quarantines.
 * @pump: The thread that gives it what there is to do.
 * @pump_work: What that thread is told to do.
 * @kicked: It is to see what there is to do, also if it waits until it asks again.
 * @wait: Where it does that.
 * @lock: Protects what follows.
 * @state: What it can be used for.
 * @chan: The channel, or NULL.
 * @label: The name of that. The channel's own goes with its device, which can be
 *	unbound while we have the channel.
 * @dev: The device that it is a channel of.
 * @own_dev: The channel as a device.
 * @dma_dev: The one of these that does its transfers.
 * @nid: The node of @dev.
 * @limits: What the device takes at a time.
 * @stops: Its driver is known to stop the hardware when it is to terminate.
 * @asks: Its driver looks at the hardware when it is asked how far that is, and may
 *	be asked.
 * @cookie: Of the last descriptor; the thread's.
 * @since: CPU time of the thread by when it last handed something over.
 * @pumping: The thread is at it, partly without the lock.
 * @again: It took nothing though it was empty, and is to be tried once more.
 * @outstanding: Descriptors that were submitted and are not over.
 * @strikes: How often in a row something went wrong.
 * @resume: In jiffies, when to try again, after that.
 * @lost: Chunks of it that are lost.
 * @leave_by: In jiffies, how long it may work on when it is to be released.
 * @number: Of the last chunk.
 * @bytes: Bytes that it has copied.
 * @descs: Its chunks.
 */
struct dcbm_chan {
	unsigned int slot;
	struct delayed_work work;
	struct kthread_worker *pump;
	struct kthread_work pump_work;
	bool kicked;
	wait_queue_head_t wait;

	spinlock_t lock;	/* Protects what follows */
	enum chan_state state;
	struct dma_chan *chan;
	char label[LABEL_SIZE];
	struct device *dev;
	struct device *own_dev;
	struct device *dma_dev;
	int nid;
	struct migrate_copy_limits limits;
	bool stops;
	bool asks;
	dma_cookie_t cookie;
	u64 since;
	bool pumping;
	bool again;
	unsigned int outstanding;
	unsigned int strikes;
	unsigned long resume;
	unsigned int lost;
	unsigned long leave_by;
	u64 number;
	u64 bytes;
	struct dcbm_desc descs[NR_DESCS];
};

/* claim.c */
extern const struct migrate_copy_engine_ops dcbm_ops;
unsigned int dcbm_slots(void);
bool dcbm_ready(const struct dcbm_chan *dchan);
bool dcbm_claim(struct dcbm_chan *dchan, unsigned int ending);

/* submit.c */
extern struct dcbm_chan *dcbm_chans[MAX_CHANNELS];
extern struct workqueue_struct *dcbm_wq;
extern atomic_long_t dcbm_rejected;
extern atomic_long_t dcbm_spurious;
void dcbm_pump(struct kthread_work *work);
bool dcbm_over(const struct dcbm_desc *desc);
void dcbm_finish(struct dcbm_chan *dchan, struct dcbm_desc *desc);
void dcbm_unmap(struct dcbm_chan *dchan, struct dcbm_desc *desc, unsigned int range);

/* Have the thread of a channel see what there is to do. Any context. */
static inline void dcbm_kick(struct dcbm_chan *dchan)
{
	kthread_queue_work(dchan->pump, &dchan->pump_work);
	WRITE_ONCE(dchan->kicked, true);
	wake_up(&dchan->wait);
}

/* reset.c */
void dcbm_work(struct work_struct *work);
void dcbm_strike(struct dcbm_chan *dchan, const char *why);
bool dcbm_time_out(struct dcbm_chan *dchan, struct dcbm_desc *desc);
bool dcbm_lose(struct dcbm_chan *dchan, struct dcbm_desc *desc);

/* acquire.c */
extern struct mutex dcbm_mutex;
extern atomic_t dcbm_leaving;
extern unsigned int dcbm_wanted;
extern char dcbm_devices[NAMES_SIZE];
extern char dcbm_terminate[NAMES_SIZE];
extern char dcbm_poll[NAMES_SIZE];
void dcbm_acquire(void);
bool dcbm_close_all(void);
ssize_t dcbm_list_unused(char *buf, ssize_t len);
void dcbm_free(void);

/* sysfs.c */
extern bool dcbm_near_only;
extern unsigned int dcbm_depth;

#endif /* _MM_MIGRATE_COPY_DCBM_DCBM_H */
