/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy engines for page migration: what a driver of one needs. The protocol is
 * described in mm/migrate_copy/engine/protocol.c.
 */
#ifndef _LINUX_MIGRATE_COPY_ENGINE_H
#define _LINUX_MIGRATE_COPY_ENGINE_H

#include <linux/list.h>
#include <linux/sysfs.h>
#include <linux/types.h>

struct migrate_copy_engine;
struct migrate_copy_offload;
struct page;

/* Most ranges of one chunk. */
#define MIGRATE_COPY_CHUNK_RANGES	32

/**
 * struct migrate_copy_info - what a job is about
 * @pages: Base pages in all.
 * @folios: Folios in all.
 * @dst_nid: The node of the first destination.
 * @reason: The migrate_reason.
 */
struct migrate_copy_info {
	unsigned long pages;
	unsigned int folios;
	int dst_nid;
	int reason;
};

/**
 * struct migrate_copy_share - an engine's part in one job
 * @node: The engine's own, from its start() to its end().
 * @info: What the job is about.
 *
 * Claims of chunks refer to it. It ceases to exist when end() returns.
 */
struct migrate_copy_share {
	struct list_head node;
	const struct migrate_copy_info *info;
	/* private: engine/ */
	struct migrate_copy_engine *engine;
	struct migrate_copy_offload *offload;
	unsigned int inflight;
	unsigned long returned;
	u64 progress_ns;
	bool open;
};

/**
 * struct migrate_copy_limits - what an engine can take at a time
 * @chunk_pages: Most base pages of a chunk.
 * @range_pages: Most base pages of a range.
 * @boundary_pages: No range goes beyond a multiple of so many base pages in
 *	physical memory, in neither place. A power of two.
 * @chunks: How many chunks it can have at a time: a job is to be enough for all.
 *
 * 0 is no limit.
 */
struct migrate_copy_limits {
	unsigned int chunk_pages;
	unsigned int range_pages;
	unsigned long boundary_pages;
	unsigned int chunks;
};

/**
 * struct migrate_copy_range - pages to copy, contiguous in physical memory
 * @dst: The first page to write.
 * @src: The first page to read.
 * @nr: How many base pages.
 */
struct migrate_copy_range {
	struct page *dst;
	struct page *src;
	unsigned int nr;
};

/**
 * struct migrate_copy_chunk - what an engine has claimed
 * @nr_ranges: Number of @ranges.
 * @nr_pages: Base pages in all of them.
 * @ranges: What to copy.
 * @feed_ns: CPU time that it took to hand it to hardware, see
 *	migrate_copy_chunk_fed().
 *
 * The memory is the engine's. It is in use from a successful claim until the
 * chunk is returned; if it is given up as lost, until it is declared stopped.
 */
struct migrate_copy_chunk {
	unsigned int nr_ranges;
	unsigned int nr_pages;
	struct migrate_copy_range ranges[MIGRATE_COPY_CHUNK_RANGES];
	u64 feed_ns;
	/* private: engine/ */
	struct migrate_copy_share *share;
	struct migrate_copy_engine *engine;
	u64 first;
	u64 claimed_ns;
	struct list_head quarantine;
};

/**
 * struct migrate_copy_engine_ops - what an engine can be asked
 * @start: Take part: claim chunks of the share now, and later, as it gets room.
 *	Returns false if it will not; then nothing may be claimed, and no other
 *	operation follows. Must not wait for hardware.
 * @stop: Chunks are late: see that the share's come back soon. Returns true if
 *	they may; false if there is nothing to wait for. Must not sleep or wait.
 *	Optional.
 * @end: Forget the share. Each chunk of it must be returned or given up as lost
 *	before this returns, and none can be claimed any more. May sleep
 *	until a chunk that is being copied by a CPU is done, and for nothing
 *	else.
 *
 * All are called by the task that migrates, with folios locked, possibly in
 * reclaim: they must not allocate memory, nor take a lock under which somebody
 * does. Those of one share are not called at the same time; those of different
 * shares are.
 */
struct migrate_copy_engine_ops {
	bool (*start)(void *priv, struct migrate_copy_share *share);
	bool (*stop)(void *priv, struct migrate_copy_share *share);
	void (*end)(void *priv, struct migrate_copy_share *share);
};

/**
 * struct migrate_copy_engine_use - what an engine is used for
 * @offloading: Whether jobs may use it: false at first, then what
 *	migrate_copy_engine_enable() has been told.
 * @reasons: One bit for each migrate_reason. Can be changed at any time.
 */
struct migrate_copy_engine_use {
	bool offloading;
	unsigned long reasons;
};

/**
 * struct migrate_copy_engine_desc - an engine to be registered
 * @name: Its name, and that of its directory in sysfs.
 * @ops: Its operations.
 * @use: Where it is kept what the engine is used for, so that the driver can see
 *	and set it; NULL if that is for sysfs alone.
 * @groups: Attributes for its directory in sysfs, of struct kobj_attribute; may
 *	be NULL.
 */
struct migrate_copy_engine_desc {
	const char *name;
	const struct migrate_copy_engine_ops *ops;
	struct migrate_copy_engine_use *use;
	const struct attribute_group **groups;
};

struct migrate_copy_engine *
migrate_copy_engine_register(const struct migrate_copy_engine_desc *desc,
			     void *priv);
void migrate_copy_engine_unregister(struct migrate_copy_engine *engine);
void migrate_copy_engine_enable(struct migrate_copy_engine *engine, bool enable);

bool migrate_copy_chunk_claim(struct migrate_copy_share *share,
			      struct migrate_copy_chunk *chunk,
			      const struct migrate_copy_limits *limits);
void migrate_copy_chunk_fed(struct migrate_copy_chunk *chunk, u64 *since);
int migrate_copy_chunk_copy(struct migrate_copy_chunk *chunk);
void migrate_copy_chunk_return(struct migrate_copy_chunk *chunk, bool ok);
void migrate_copy_chunk_lost(struct migrate_copy_chunk *chunk);
void migrate_copy_chunk_stopped(struct migrate_copy_chunk *chunk);

#endif /* _LINUX_MIGRATE_COPY_ENGINE_H */
