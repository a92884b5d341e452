/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of migrate_windows share.
 */
#ifndef _MIGRATE_WINDOWS_H
#define _MIGRATE_WINDOWS_H

#include <stdatomic.h>

#include "../lib/migrate_test.h"

#define TIMEOUT		60
/* What stands in a window goes on by itself then. */
#define GATE_MS		6000
/* For those who have to wait until the migration goes on. */
#define GRACE_MS	150
/* How long anything may take once it has gone on, and what is slow. */
#define AFTER_MS	20000
/* And to have what chance may take from a scene, such as a stale TLB. */
#define SCENE_TRIES	5
/*
 * Who waits for a folio's lock with a reference to it keeps it where it is: one
 * at a time, and then the next.
 */
#define SOME_STAY	8

/* For what is written in a window. */
#define OTHER_SEED(s)	((s)->r.seed + 0x777777)

/* What DMA copies before it waits, and what it waits for. */
#define DMA_CHUNK	(16 * KB)
#define SOFTDMA_GOES_ON	SOFTDMA_DIR "/fail_terminate"
/* Of the thread that is the channel, until that CPU has gone offline once. */
#define DMA_CPU		"1"
/* More than it waits. */
#define DMA_TIMEOUT_MS	10000

/*
 * The windows, in the kernel's words. The last but one is softdma's: a chunk has been
 * copied, the next one is on its way. The last one comes first, where helpers take
 * pieces: one of these is isolated.
 */
#define NR_WINDOWS	10

#define BIT(n)		(1U << (n))
#define W_UNMAPPED	BIT(0)
#define W_FLUSHED	BIT(1)
#define W_CHECKED	BIT(2)
#define W_COPYING	BIT(3)
#define W_COPIED	BIT(4)
#define W_SWITCHING	BIT(5)
#define W_REMAPPING	BIT(6)
#define W_HELPING	BIT(7)
#define W_DMA		BIT(8)
#define W_ISOLATED	BIT(9)
#define W_ALL		((BIT(7) - 1) | W_ISOLATED)
/* The task that stands there keeps its CPU, and other CPUs cannot do without it. */
#define W_SPINS		W_COPYING
/* What a huge page passes that is pinned: it is a batch of its own. */
#define W_WITH_PINNED	(W_UNMAPPED | W_FLUSHED | W_COPIED)
/* A hugetlb page has its own way, and no batch. */
#define W_HUGETLB	(W_UNMAPPED | W_CHECKED | W_COPYING | W_SWITCHING | \
			 W_REMAPPING | W_HELPING | W_ISOLATED)

struct act;

/**
 * struct scene - One window, and who does something in it
 * @act: what is done
 * @window: its number
 * @mode: how the kernel copies
 * @r: the memory that moves
 * @from: its node
 * @to: where it goes
 * @gone: so many bytes at its start, where the window is, are no more
 * @written: this many bytes after them have been written again
 * @absent: so many bytes at its end were not there when it was to move
 * @pinned: somebody has it for longer than the scene
 * @fd: what the act needs
 * @other: what the act needs, another
 * @map: a second mapping, or what else the act needs
 * @child: its process
 * @begun: it is on its way
 * @done: it has come to its end
 * @over: so has the migration, if a thread makes it
 * @unlucky: chance has taken from it what it is about
 * @reached: somebody stands in the window, or has stood there
 * @victim: the process whose memory moves; 0 for this one
 * @mover: the process that moves it, or 0 if a thread of this one does
 * @flags: of move_pages
 * @on_first: the mover, if a thread, stays on the first CPU
 */
struct scene {
	const struct act *act;
	unsigned int window;
	enum copy_mode mode;
	struct region r;
	int from, to;
	size_t gone;
	size_t written;
	size_t absent;
	bool pinned;
	int fd, other;
	char *map;
	pid_t child;
	atomic_bool begun;
	atomic_bool done;
	atomic_bool over;
	atomic_bool unlucky;
	atomic_bool *reached;
	pid_t victim;
	pid_t mover;
	int flags;
	bool on_first;
	pthread_t thread;
	char where[64];
};

/**
 * struct act - Somebody who does something while a migration stands still
 * @name: for messages
 * @kinds: what it can be done to
 * @windows: where, as bits
 * @before: what comes first; may be NULL
 * @act: what is done in the window; may have to wait for its end
 * @check: whether all is right then; NULL for what is written by the scene
 * @by_process: the mover is a process of its own
 * @no_thread: a thread more would have the TLBs flushed for its stack
 * @too_long: nobody can open the gate: it opens after STAND_MS
 * @in_time: it need not wait for the migration, and ends before the gate opens
 * @no_copy: what has been copied is gone then, or copied once more
 * @own_copy: what is written is a new page, of any node
 * @wanders: it may go elsewhere, or nowhere
 * @hides: what is looked up afterwards is elsewhere, or mapped twice, and stays
 * @slow: each of its tries takes long where KASAN or page poisoning is told of a
 *	block of memory
 * @stay: so many folios may stay where they are for it
 * @pins: it pins one for a moment, which with shared batches may be another one
 *	than that which stands in the window, and then may stay, too
 */
struct act {
	const char *name;
	const struct kind *kinds[7];
	unsigned int windows;
	void (*before)(struct scene *s);
	void (*act)(struct scene *s);
	void (*check)(struct scene *s);
	bool by_process;
	bool too_long;
	bool no_thread;
	bool in_time;
	bool no_copy;
	bool own_copy;
	bool wanders;
	bool hides;
	bool pins;
	bool slow;
	unsigned int stay;
};

/**
 * struct variant - A scene with memory of one kind
 * @act: who does something
 * @kind: of the memory
 * @window: where
 * @mode: how the kernel copies
 * @failing: copies fail until it ends
 */
struct variant {
	const struct act *act;
	const struct kind *kind;
	unsigned int window;
	enum copy_mode mode;
	bool failing;
};

/**
 * struct breach - A rule that is broken, and the test that has to see it
 * @rule: what is broken; kept in the control
 * @also: broken in the control, too: "" for nothing
 * @what: an act, or what @test does
 * @kind: of the scene with this act
 * @window: of it, as a bit
 * @mode: how the kernel copies; without one, the caller does it alone
 * @failing: all copies fail until it ends
 * @test: what to do instead of a scene, or NULL
 */
struct breach {
	const char *rule;
	const char *also;
	const char *what;
	const struct kind *kind;
	unsigned int window;
	enum copy_mode mode;
	bool failing;
	void (*test)(void);
};

/* windows/scene.c */
extern const char * const window_names[NR_WINDOWS];
extern const struct kind base;
extern const struct kind thp;
extern const struct kind shmem;
extern const struct kind tmpfs;
extern const struct kind memfd;
extern const struct kind xfs;
extern const struct kind ext4;
extern const struct kind huge_range;
extern const struct kind ksm;
extern atomic_bool *data_wrong;
void __printf(2, 3) right(bool ok, const char *fmt, ...);
void control(const char *name, const char *text);
uint64_t window_count(const char *name);
bool dma_ends(void);
void all_right_again(void);
void softdma_set(const char *path, uint64_t value);
void dma_close(unsigned int ms);
void dma_open(void);
void gate_close(const char *window, pid_t pid, unsigned int ms);
void gate_open(void);
int gate_wait(char *who, size_t size);
void move_all(struct scene *s, int to);
void *mover_main(void *arg);
bool wait_true(atomic_bool *what, unsigned int ms);
unsigned int after_ms(const struct scene *s);
void join(pthread_t thread, const char *who);
void check_content(struct scene *s);
void mover_fork(struct scene *s);
void scene_make(struct scene *s, const struct kind *kind);
void copies_fail(int times);
void test_scene(const void *arg);

/* windows/writers.c */
void act_store(struct scene *s);
void act_process_write(struct scene *s);
void before_poke(struct scene *s);
void act_poke(struct scene *s);
void before_io_uring(struct scene *s);
void act_io_uring(struct scene *s);
void before_direct(struct scene *s);
void act_direct(struct scene *s);
void before_vmsplice(struct scene *s);
void act_vmsplice(struct scene *s);
int udmabuf_of(struct scene *s);
void udmabuf_write(struct scene *s, int fd);
void before_udmabuf(struct scene *s);
void act_udmabuf(struct scene *s);
void remap(struct scene *s);
void before_stale(struct scene *s);
void before_denied(struct scene *s);
void act_stale(struct scene *s);
void check_stale(struct scene *s);
void act_renew(struct scene *s);
void act_protect(struct scene *s);
void act_take_away(struct scene *s);
void act_shift(struct scene *s);
void check_denied(struct scene *s);

/* windows/readers.c */
void act_read(struct scene *s);
void before_readahead(struct scene *s);
void act_readahead(struct scene *s);
void before_fault(struct scene *s);
void act_fault(struct scene *s);
void act_write_file(struct scene *s);
void check_file(struct scene *s);
void act_process_read(struct scene *s);

/* windows/mappings.c */
void act_fork(struct scene *s);
void act_ksm(struct scene *s);
void before_uffd(struct scene *s);
void act_uffd(struct scene *s);
void act_mremap(struct scene *s);
void act_munmap(struct scene *s);
void check_dontneed(struct scene *s);
void check_free(struct scene *s);
void act_dontneed(struct scene *s);
void act_remove(struct scene *s);
void act_free(struct scene *s);
void before_swapin(struct scene *s);
void act_swapin(struct scene *s);
void act_swapoff(struct scene *s);
void before_pageout(struct scene *s);
void act_pageout(struct scene *s);
void act_collapse(struct scene *s);
void act_split(struct scene *s);
void before_child(struct scene *s);
void act_split_mapping(struct scene *s);
void check_child(struct scene *s);
void act_mlock(struct scene *s);
void act_mprotect(struct scene *s);
void act_truncate(struct scene *s);
void act_punch(struct scene *s);
void act_punch_part(struct scene *s);
void check_punch_part(struct scene *s);
void act_truncate_part(struct scene *s);
void check_truncate_part(struct scene *s);
void act_drop_caches(struct scene *s);

/* windows/memory.c */
void before_pfn(struct scene *s);
void act_poison(struct scene *s);
void check_poison(struct scene *s);
void act_soft_offline(struct scene *s);
void before_offline(struct scene *s);
void act_offline(struct scene *s);
void before_eject(struct scene *s);
void act_eject(struct scene *s);

/* windows/processes.c */
void act_kill_mover(struct scene *s);
void before_freeze(struct scene *s);
void act_freeze(struct scene *s);
void before_suspend(struct scene *s);
void act_suspend(struct scene *s);
void act_suspend_fails(struct scene *s);
void before_exit(struct scene *s);
void act_exit(struct scene *s);
void before_exec(struct scene *s);
void act_exec(struct scene *s);
void before_limit(struct scene *s);
void act_limit(struct scene *s);
void before_cpu_offline(struct scene *s);
void act_cpu_offline(struct scene *s);
void act_knobs(struct scene *s);

/* migrate_windows.c */
const struct act *find_act(const char *name, unsigned int window);

/* windows/rules.c */
extern const char *only;
bool usable(const struct variant *v);
void breach_run(const struct breach *b);
unsigned int breaches_listed(bool dma, bool run);

#endif /* _MIGRATE_WINDOWS_H */
