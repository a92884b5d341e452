/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM migrate_copy

#if !defined(_TRACE_MIGRATE_COPY_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MIGRATE_COPY_H

#include <linux/migrate.h>
#include <linux/tracepoint.h>

/* The copies of a batch, recorded by the task that migrates it */
TRACE_EVENT(migrate_copy_batch,

	TP_PROTO(int reason, unsigned long folios, unsigned long pages,
		 unsigned long helper_pages, unsigned long engine_pages),

	TP_ARGS(reason, folios, pages, helper_pages, engine_pages),

	TP_STRUCT__entry(
		__string(reason, migrate_reason_names[reason])
		__field(unsigned long,	folios)
		__field(unsigned long,	pages)
		__field(unsigned long,	helper_pages)
		__field(unsigned long,	engine_pages)
	),

	TP_fast_assign(
		__assign_str(reason);
		__entry->folios		= folios;
		__entry->pages		= pages;
		__entry->helper_pages	= helper_pages;
		__entry->engine_pages	= engine_pages;
	),

	TP_printk("reason=%s folios=%lu pages=%lu helper_pages=%lu engine_pages=%lu",
		__get_str(reason), __entry->folios, __entry->pages,
		__entry->helper_pages, __entry->engine_pages)
);

/* Folios that NUMA balancing promotes after the fault, recorded by the worker */
TRACE_EVENT(migrate_copy_promote,

	TP_PROTO(int nid, unsigned long pages, unsigned long moved, u64 ns),

	TP_ARGS(nid, pages, moved, ns),

	TP_STRUCT__entry(
		__field(int,		nid)
		__field(unsigned long,	pages)
		__field(unsigned long,	moved)
		__field(u64,		ns)
	),

	TP_fast_assign(
		__entry->nid		= nid;
		__entry->pages		= pages;
		__entry->moved		= moved;
		__entry->ns		= ns;
	),

	/* ns: from the first of the faults until all have arrived */
	TP_printk("nid=%d pages=%lu moved=%lu ns=%llu",
		__entry->nid, __entry->pages, __entry->moved, __entry->ns)
);

/* A folio that stays where it is, though a fault has found it misplaced */
TRACE_EVENT(migrate_copy_drop,

	TP_PROTO(unsigned long pfn, int nid, const char *why),

	TP_ARGS(pfn, nid, why),

	TP_STRUCT__entry(
		__field(unsigned long,	pfn)
		__field(int,		nid)
		__string(why, why)
	),

	TP_fast_assign(
		__entry->pfn		= pfn;
		__entry->nid		= nid;
		__assign_str(why);
	),

	TP_printk("pfn=0x%lx nid=%d why=%s",
		__entry->pfn, __entry->nid, __get_str(why))
);

/* What several CPUs have moved for a request, recorded by its task */
TRACE_EVENT(migrate_copy_request,

	TP_PROTO(int reason, u64 cgroup, int nid, unsigned long pages,
		 unsigned long helper_pages, unsigned int helpers, u64 helper_ns, u64 ns),

	TP_ARGS(reason, cgroup, nid, pages, helper_pages, helpers, helper_ns, ns),

	TP_STRUCT__entry(
		__string(reason, migrate_reason_names[reason])
		__field(u64,		cgroup)
		__field(int,		nid)
		__field(unsigned long,	pages)
		__field(unsigned long,	helper_pages)
		__field(unsigned int,	helpers)
		__field(u64,		helper_ns)
		__field(u64,		ns)
	),

	TP_fast_assign(
		__assign_str(reason);
		__entry->cgroup		= cgroup;
		__entry->nid		= nid;
		__entry->pages		= pages;
		__entry->helper_pages	= helper_pages;
		__entry->helpers	= helpers;
		__entry->helper_ns	= helper_ns;
		__entry->ns		= ns;
	),

	TP_printk("reason=%s cgroup=%llu nid=%d pages=%lu helper_pages=%lu helpers=%u helper_ns=%llu ns=%llu",
		__get_str(reason), __entry->cgroup, __entry->nid, __entry->pages,
		__entry->helper_pages, __entry->helpers, __entry->helper_ns, __entry->ns)
);

TRACE_EVENT(migrate_copy_wake,

	TP_PROTO(int cpu, int nid, bool highpri),

	TP_ARGS(cpu, nid, highpri),

	TP_STRUCT__entry(
		__field(int,	cpu)
		__field(int,	nid)
		__field(bool,	highpri)
	),

	TP_fast_assign(
		__entry->cpu		= cpu;
		__entry->nid		= nid;
		__entry->highpri	= highpri;
	),

	TP_printk("cpu=%d nid=%d%s", __entry->cpu, __entry->nid,
		__entry->highpri ? " highpri" : "")
);

/* A helper begins a batch or a chunk, recorded on its CPU */
TRACE_EVENT(migrate_copy_help,

	TP_PROTO(bool batch),

	TP_ARGS(batch),

	TP_STRUCT__entry(
		__field(bool,	batch)
	),

	TP_fast_assign(
		__entry->batch	= batch;
	),

	TP_printk("%s", __entry->batch ? "batch" : "chunk")
);

#endif /* _TRACE_MIGRATE_COPY_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
