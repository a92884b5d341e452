/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy engines for page migration: the interface for drivers. The protocol is
 * described in mm/migrate_copy/engine.c.
 */
#ifndef _LINUX_MIGRATE_COPY_ENGINE_H
#define _LINUX_MIGRATE_COPY_ENGINE_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/types.h>
#include <linux/wait.h>

struct migrate_copy_engine;
struct migrate_copy_job;
struct page;

/* Ranges of a chunk, at most. */
#define MIGRATE_COPY_CHUNK_RANGES	32

/**
 * struct migrate_copy_offload - a job that an engine takes part in
 * @node: For the engine, from start() to end().
 * @priv: For the engine, from start() to end().
 * @workers: How many chunks the engine can copy at a time. Set by start(), and
 *	used to size chunks.
 * @pages: Base pages of the job.
 * @folios: Folios of the job.
 * @nid: The node of the first destination.
 * @alone: CPUs copy only what the engine leaves.
 * @inflight: Chunks that the engine holds. It does not grow during end().
 *
 * It is on the stack of the migrating task, and ceases to exist when end()
 * returns.
 */
struct migrate_copy_offload {
	struct list_head node;
	unsigned long priv;
	unsigned int workers;
	unsigned long pages;
	unsigned int folios;
	int nid;
	bool alone;
	unsigned int inflight;
	/* private: engine.c */
	struct migrate_copy_engine *engine;
	struct migrate_copy_job *job;
	unsigned int cpus;
	wait_queue_head_t wait;
	atomic64_t cpu_ns;
	spinlock_t lock;	/* Protects what follows, and @inflight */
	bool open;
	unsigned long progress;
	unsigned long redo;
};

/**
 * struct migrate_copy_range - pages of one folio to copy
 * @dst: The first page to write.
 * @src: The first page to read.
 * @nr: Number of base pages.
 */
struct migrate_copy_range {
	struct page *dst;
	struct page *src;
	unsigned int nr;
};

/**
 * struct migrate_copy_chunk - a part of a job that an engine has claimed
 * @nr_ranges: Number of @ranges.
 * @nr_pages: Base pages in all of them.
 * @ranges: What to copy.
 *
 * The memory belongs to the engine. It is in use from a successful claim until
 * the chunk is returned or, if it was given up as lost, declared stopped.
 */
struct migrate_copy_chunk {
	unsigned int nr_ranges;
	unsigned int nr_pages;
	struct migrate_copy_range ranges[MIGRATE_COPY_CHUNK_RANGES];
	/* private: engine.c */
	struct migrate_copy_offload *offload;
	struct migrate_copy_engine *engine;
	u64 first;
};

/**
 * struct migrate_copy_engine_desc - description of an engine
 * @name: Its name, and that of its directory in sysfs.
 * @groups: More attributes for the directory, of struct kobj_attribute, or NULL.
 * @start: Take part in a job: claim chunks now, and more whenever there is room.
 *	Returns false to decline, in which case nothing may be claimed and end()
 *	is not called. Must not wait for hardware.
 * @end: Forget the job. Every chunk of it must have been returned or given up as
 *	lost when this returns. May wait for a CPU to finish copying a chunk, but
 *	not for hardware.
 *
 * The operations are called by the migrating task, which holds folio locks and may be
 * reclaiming memory: they must not allocate memory, nor take a lock under which
 * memory is allocated.
 */
struct migrate_copy_engine_desc {
	const char *name;
	const struct attribute_group **groups;
	bool (*start)(void *priv, struct migrate_copy_offload *o);
	void (*end)(void *priv, struct migrate_copy_offload *o);
};

struct migrate_copy_engine *
migrate_copy_engine_register(const struct migrate_copy_engine_desc *desc, void *priv);
void migrate_copy_engine_unregister(struct migrate_copy_engine *engine);
void migrate_copy_engine_ready(struct migrate_copy_engine *engine, bool ready);

bool migrate_copy_chunk_claim(struct migrate_copy_offload *o, struct migrate_copy_chunk *chunk,
			      unsigned long max_pages, unsigned long boundary_pages);
int migrate_copy_chunk_copy(struct migrate_copy_chunk *chunk);
void migrate_copy_chunk_return(struct migrate_copy_chunk *chunk, bool ok);
void migrate_copy_chunk_lost(struct migrate_copy_chunk *chunk);
void migrate_copy_chunk_stopped(struct migrate_copy_chunk *chunk);

#endif /* _LINUX_MIGRATE_COPY_ENGINE_H */
