// SPDX-License-Identifier: GPL-2.0-only
/*
 * Promotion: NUMA balancing decides in a hint fault that a folio of slow memory
 * belongs on a fast node; it is migrated later, by others.
 *
 * Migrating it in the fault takes several times as long as the fault itself, for
 * a single page, while the task waits. So the fault only notes a candidate and
 * maps the page again. A tick later a worker takes the candidates of all CPUs
 * and migrates them in batches, which idle CPUs share.
 *
 * A candidate is an address and the page that was found there. It holds a
 * reference to the mm_struct, but none to the address space, the page or its
 * folio. So exit, reclaim, compaction, CMA and memory offlining never wait for it;
 * only the address space of a process that exits while the worker looks at it is
 * torn down a little later, on behalf of the worker. Before it isolates a folio,
 * the worker checks again, with the VMA locked, everything that decides whether it
 * may move: the process, the VMA and its policy, the owner's cpuset, the page that
 * is mapped there, and the room on the target node.
 *
 * For the statistics of NUMA balancing, the page is on the target node already.
 * They are evaluated once per scan period, seconds later, when that is true.
 */
#include <linux/cleanup.h>
#include <linux/cpuset.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/migrate.h>
#include <linux/mmap_lock.h>
#include <linux/pagewalk.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>
#include <trace/events/migrate_copy.h>

#include "internal.h"
#include "../internal.h"
#include "../migrate.h"

/*
 * Candidates are noted in chunks, with room for 64,000 in all: NUMA balancing
 * unmaps that many base pages per scan. Without a free chunk, faults migrate
 * folios themselves.
 */
#define PROMOTE_CHUNKS	256
#define CHUNK_BYTES	SZ_4K

/* Base pages that are isolated at a time. */
#define PROMOTE_PAGES	1024

/* When the worker begins, in jiffies after the first candidate; at once with a chunk. */
#define PROMOTE_DELAY	1

/* What CPUs have found in one address space. */
struct promote_chunk {
	struct list_head node;
	struct mm_struct *mm;
	u64 since;			/* Time of the first fault in ns, if it is traced */
	unsigned int nr;
	struct promote_candidate {
		unsigned long where;	/* Address, and target node in the low bits */
		unsigned long pfn;
	} at[];
};

#define CHUNK_CANDIDATES	\
	((CHUNK_BYTES - sizeof(struct promote_chunk)) / sizeof(struct promote_candidate))

/* The chunk that a CPU is filling. */
struct promote_cpu {
	raw_spinlock_t lock;
	struct promote_chunk *chunk;
};

static DEFINE_PER_CPU(struct promote_cpu, promote_cpus) = {
	.lock = __RAW_SPIN_LOCK_UNLOCKED(lock),
};

/* Nests inside promote_cpu.lock. */
static DEFINE_RAW_SPINLOCK(promote_lock);	/* Protects the lists */
static LIST_HEAD(promote_free);
static LIST_HEAD(promote_full);
static bool promote_ready;

/**
 * struct promote_batch - folios that are migrated together
 * @folios: The folios, isolated.
 * @isolation: Those that are isolated, but not in @folios yet.
 * @nr_pages: Their base pages.
 * @nid: Their target node.
 * @memcg: Their memory cgroup, with a reference; it pays for the CPU time.
 * @oldest: When the first of them was noted, in ns, or 0.
 * @mm: The address space in which candidates are looked up, or NULL.
 * @vma: The VMA in which they are looked up, locked, or NULL.
 * @ran: CPU time of the worker up to the last batch, in ns.
 */
struct promote_batch {
	struct list_head folios;
	struct folio_isolation isolation;
	unsigned long nr_pages;
	int nid;
	struct mem_cgroup *memcg;
	u64 oldest;
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	u64 ran;
};

/* Does the cpuset of the process allow the node? */
static bool promote_node_allowed(struct mm_struct *mm, int nid)
{
#ifdef CONFIG_MEMCG
	struct task_struct *owner;

	guard(rcu)();
	owner = rcu_dereference(mm->owner);
	return !owner || node_isset(nid, migrate_copy_mems_of(owner));
#else
	return true;
#endif
}

/* Nobody must wait for a VMA lock while folios are migrated. */
static void promote_unlock(struct promote_batch *batch)
{
	if (batch->vma)
		vma_end_read(batch->vma);
	batch->vma = NULL;
	if (batch->mm)
		mmput_async(batch->mm);
	batch->mm = NULL;
}

/*
 * Lock the VMA of a candidate, or say why that is impossible. All candidates of a
 * chunk have one mm, and between chunks no VMA is locked.
 */
static const char *promote_vma(struct promote_batch *batch, struct mm_struct *mm,
			       unsigned long addr)
{
	struct vm_area_struct *vma = batch->vma;

	if (vma && addr >= vma->vm_start && addr < vma->vm_end)
		return NULL;
	if (vma)
		vma_end_read(vma);
	batch->vma = NULL;
	if (!batch->mm) {
		if (!mmget_not_zero(mm))
			return "exited";
		batch->mm = mm;
	}
	vma = lock_vma_under_rcu(mm, addr);
	if (!vma)
		return "vma";
	batch->vma = vma;
	return NULL;
}

/* Migrate the folios of a batch, and charge the CPU time spent on them. */
static void promote_flush(struct promote_batch *batch)
{
	struct mem_cgroup *memcg = batch->memcg, *old;
	unsigned int moved;
	u64 ran;

	promote_unlock(batch);
	if (!batch->nr_pages)
		return;
	folio_isolation_finish(&batch->isolation);
	/* The helpers' time is charged to it, too. */
	old = set_active_memcg(memcg);
	moved = migrate_misplaced_folios(&batch->folios, memcg, batch->nid);
	trace_migrate_copy_promote(batch->nid, batch->nr_pages, moved,
				   batch->oldest ? ktime_get_mono_fast_ns() - batch->oldest : 0);
	ran = task_sched_runtime(current);
	migrate_copy_charge(ran - batch->ran);
	set_active_memcg(old);
	batch->ran = ran;
	batch->nr_pages = 0;
	mem_cgroup_put(memcg);
	cond_resched();
}

/* Isolate the folio of a candidate, or say why it stays. */
static const char *promote_isolate(struct promote_batch *batch,
				   const struct promote_chunk *chunk,
				   const struct promote_candidate *c)
{
	unsigned long addr = c->where & PAGE_MASK;
	int nid = c->where & ~PAGE_MASK;
	const char *drop;
	struct vm_area_struct *vma;
	struct mem_cgroup *memcg;
	struct folio_walk fw;
	struct folio *folio;

	drop = promote_vma(batch, chunk->mm, addr);
	if (drop)
		return drop;
	vma = batch->vma;
	if (!vma_migratable(vma) || !vma_policy_allows(vma, addr, nid) ||
	    !promote_node_allowed(chunk->mm, nid))
		return "policy";

	folio = folio_walk_start(&fw, vma, addr, 0);
	if (!folio)
		return "page";
	/* Is it the same page, and still to be promoted? */
	if (page_to_pfn(fw.page) != c->pfn || !folio_use_access_time(folio))
		drop = "page";
	else if (!folio_test_lru(folio) || folio_test_ksm(folio))
		drop = "isolated";
	else if (migrate_misplaced_folio_check(folio, vma, nid,
					       batch->nid == nid ? batch->nr_pages : 0))
		drop = "full";
	else
		folio_get(folio);
	folio_walk_end(&fw, vma);
	if (drop)
		return drop;

	memcg = get_mem_cgroup_from_folio(folio);
	if (batch->nr_pages && (batch->nid != nid || batch->memcg != memcg))
		promote_flush(batch);
	if (folio_isolation_add(&batch->isolation, folio)) {
		if (!batch->nr_pages) {
			batch->memcg = memcg;
			batch->nid = nid;
			batch->oldest = chunk->since;
			memcg = NULL;
		}
		batch->nr_pages += folio_nr_pages(folio);
	} else {
		drop = "isolated";
	}
	mem_cgroup_put(memcg);
	folio_put(folio);
	return drop;
}

static void promote_chunk(struct promote_batch *batch, struct promote_chunk *chunk)
{
	const struct promote_candidate *c;
	const char *drop;

	for (c = chunk->at; c < chunk->at + chunk->nr; c++) {
		drop = promote_isolate(batch, chunk, c);
		if (drop)
			trace_migrate_copy_drop(c->pfn, c->where & ~PAGE_MASK, drop);
		if (batch->nr_pages >= PROMOTE_PAGES)
			promote_flush(batch);
	}
	promote_unlock(batch);
	/* Dropped candidates are not charged to anybody. */
	if (!batch->nr_pages)
		batch->ran = task_sched_runtime(current);
	mmdrop(chunk->mm);
	scoped_guard(raw_spinlock, &promote_lock)
		list_add(&chunk->node, &promote_free);
	cond_resched();
}

static void promote_fn(struct work_struct *work)
{
	struct promote_batch batch = { .ran = task_sched_runtime(current) };
	struct promote_chunk *chunk, *next;
	LIST_HEAD(chunks);
	int cpu;

	INIT_LIST_HEAD(&batch.folios);
	folio_isolation_init(&batch.isolation, &batch.folios);
	if (migrate_copy_is_held()) {
		queue_delayed_work(system_dfl_wq, to_delayed_work(work), HZ / 50);
		return;
	}
	scoped_guard(raw_spinlock, &promote_lock)
		list_splice_init(&promote_full, &chunks);
	for_each_possible_cpu(cpu) {
		struct promote_cpu *p = per_cpu_ptr(&promote_cpus, cpu);

		if (!READ_ONCE(p->chunk))
			continue;
		guard(raw_spinlock)(&p->lock);
		if (p->chunk)
			list_add_tail(&p->chunk->node, &chunks);
		WRITE_ONCE(p->chunk, NULL);
	}
	list_for_each_entry_safe(chunk, next, &chunks, node)
		promote_chunk(&batch, chunk);
	promote_flush(&batch);
}

static DECLARE_DELAYED_WORK(promote_work, promote_fn);

/* Nothing is allocated in a fault. */
static void promote_start(struct work_struct *unused)
{
	int i, nr = max(PROMOTE_CHUNKS, 2 * num_possible_cpus());
	struct promote_chunk *chunk;

	for (i = 0; !promote_ready && i < nr; i++) {
		chunk = kmalloc(CHUNK_BYTES, GFP_KERNEL);
		if (!chunk)
			break;
		guard(raw_spinlock)(&promote_lock);
		list_add(&chunk->node, &promote_free);
	}
	WRITE_ONCE(promote_ready, !list_empty(&promote_free));
}

static DECLARE_WORK(promote_start_work, promote_start);

/* A chunk for candidates of @mm, or NULL. */
static struct promote_chunk *chunk_get(struct mm_struct *mm)
{
	struct promote_chunk *chunk;

	guard(raw_spinlock)(&promote_lock);
	chunk = list_first_entry_or_null(&promote_free, struct promote_chunk, node);
	if (!chunk)
		return NULL;
	list_del(&chunk->node);
	mmgrab(mm);
	chunk->mm = mm;
	chunk->since = trace_migrate_copy_promote_enabled() ? ktime_get_mono_fast_ns() : 0;
	chunk->nr = 0;
	return chunk;
}

/*
 * Note a candidate. Returns false if there is no room; *full tells whether a chunk
 * has been filled.
 */
static bool promote_note(struct mm_struct *mm, struct promote_candidate c, bool *full)
{
	/* The slot of any CPU would do. */
	struct promote_cpu *p = raw_cpu_ptr(&promote_cpus);
	struct promote_chunk *chunk;

	guard(raw_spinlock)(&p->lock);
	chunk = p->chunk;
	*full = chunk && chunk->nr == CHUNK_CANDIDATES;
	if (*full || (chunk && chunk->mm != mm)) {
		guard(raw_spinlock)(&promote_lock);
		list_add_tail(&chunk->node, &promote_full);
		chunk = NULL;
	}
	if (!chunk)
		chunk = chunk_get(mm);
	if (chunk)
		chunk->at[chunk->nr++] = c;
	WRITE_ONCE(p->chunk, chunk);
	return chunk;
}

/**
 * __migrate_promote_later() - Note that a folio belongs on another node.
 * @folio: The folio, of slow memory.
 * @vma: A VMA in which it is mapped.
 * @addr: The address of one of its pages.
 * @pfn: The frame of that page.
 * @nid: The node that it belongs on.
 *
 * Notes nothing if the folio could not be migrated at once either, or if the task
 * may not have others work for it. The first candidate since boot is refused.
 *
 * Context: Page fault, with the VMA and the page table locked. Allocates nothing.
 * Return: true if the folio will be migrated soon, if that is still possible then.
 */
bool __migrate_promote_later(struct folio *folio, struct vm_area_struct *vma,
			     unsigned long addr, unsigned long pfn, int nid)
{
	struct promote_candidate c = { (addr & PAGE_MASK) | nid, pfn };
	bool full, noted;

	BUILD_BUG_ON(MAX_NUMNODES > PAGE_SIZE);
	if (!folio_use_access_time(folio) || !folio_test_lru(folio) ||
	    !migrate_copy_may_share(MR_NUMA_MISPLACED, 0) ||
	    !node_isset(nid, cpuset_current_mems_allowed) ||
	    migrate_misplaced_folio_check(folio, vma, nid, 0))
		return false;
	if (unlikely(!READ_ONCE(promote_ready))) {
		schedule_work(&promote_start_work);
		return false;
	}

	noted = promote_note(vma->vm_mm, c, &full);
	/* Pairs with clearing the pending bit: a running worker may have missed it. */
	smp_mb();
	if (full)
		mod_delayed_work(system_dfl_wq, &promote_work, 0);
	else if (!delayed_work_pending(&promote_work))
		queue_delayed_work(system_dfl_wq, &promote_work, PROMOTE_DELAY);
	return noted;
}
