// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test only: windows of a migration in which it can be made to stand still,
 * rules that can be broken, copies that can be made to fail.
 *
 * What can go wrong in a migration goes wrong when somebody does the wrong
 * thing within some microseconds. A test that waits for that to happen finds
 * little, and never says that it has looked. So a test closes a gate in one of
 * the windows, sees somebody arrive, does the wrong thing, and opens the gate:
 *
 *   echo checked > gate		the next one who comes there stands still
 *   cat gate				waits for that: "checked 123 1", the
 *					window, the task, its CPU
 *   ... the wrong thing ...
 *   echo open > gate			go on
 *
 * One passage is caught, the others go by. The gate opens by itself after
 * timeout_ms, and counts that.
 *
 * Whether such a test would see a mistake is shown by making one: the names of
 * the rules in "broken" are not kept by the migration.
 *
 * All of it is in debugfs, in migrate_copy/.
 *
 * The windows of a migration are, in the order in which a batch passes them:
 * "unmapped" (no flush yet), "flushed", "checked" (the references, nothing
 * copied), "copying", "copied" (the moves are next), "switching" (the
 * references checked again, the mapping is next) and "remapping" (the page
 * tables are next). "helping" is passed by helpers, amid a chunk. A folio that
 * is copied when it is moved passes "checked", "copying" and "switching" then,
 * and one of hugetlb, which has no batch, all but "flushed" and "copied".
 *
 * gate
 *	After the name of a window is written, the next task that comes there
 *	stands still. Reading waits for that, and says: window, task, CPU.
 *	Writing "open" lets the task go on.
 * pid
 *	Only this process stands still, or its helpers; 0 (the default): any.
 * skip
 *	So many passages are let through before.
 * timeout_ms
 *	The gate opens by itself after so long, and reading does not wait longer.
 * stretch, stretch_us
 *	Names of windows in which every fourth passage takes up to so many
 *	microseconds more.
 * fail_copy/
 *	Copies in batches fail as if by a machine check; see
 *	Documentation/fault-injection/fault-injection.rst.
 * broken
 *	Names of rules that are not kept, so that tests can show that they see
 *	it: "refs" (references are checked before the copy), "flush" (the TLBs
 *	are flushed before it), "publish" (it is made before the mapping
 *	switches), "lock" (nobody else gets the folio's lock in between),
 *	"writable" (what is mapped again is writable only if it may be),
 *	"signal" (who has a signal copies nevertheless), "chunk" (so does a
 *	helper whose CPU is wanted), "gone" (what was given up is not mapped
 *	again), "pending" (who gives up or protects memory flushes the TLBs
 *	that the migration has yet to flush), "mapped" (between the copy and
 *	the switch nobody has it mapped),
 *	"failed" (a failed copy is not a copy), "mark" (a copy is for one
 *	pass), "memfd" (memfd_pin_folios() waits for migration),
 *	"quarantine" (nothing is moved to where DMA may still write), "held"
 *	(nor is that free for others). Any of them loses data.
 * counts
 *	How often windows were passed and stretched, copies failed, and a gate
 *	opened by itself.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fault-inject.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/migrate_copy_windows.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/random.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "../internal.h"
#include "internal.h"

/* Longest line that is written to a file here. */
#define LINE_SIZE	128

/* One who spins must not look like a lockup. */
#define MAX_SPIN_MS	8000U
/* A stretch of one who spins, in us. */
#define MAX_SPIN_US	200U
/* One of so many passages is stretched. */
#define STRETCH_ONE_IN	4

static const char * const window_names[MIGRATE_COPY_NR_WINDOWS] = {
	[MIGRATE_COPY_AT_ISOLATED]	= "isolated",
	[MIGRATE_COPY_AT_UNMAPPED]	= "unmapped",
	[MIGRATE_COPY_AT_FLUSHED]	= "flushed",
	[MIGRATE_COPY_AT_CHECKED]	= "checked",
	[MIGRATE_COPY_AT_COPYING]	= "copying",
	[MIGRATE_COPY_AT_HELPING]	= "helping",
	[MIGRATE_COPY_AT_COPIED]	= "copied",
	[MIGRATE_COPY_AT_SWITCHING]	= "switching",
	[MIGRATE_COPY_AT_REMAPPING]	= "remapping",
};

static const char * const rule_names[MIGRATE_COPY_NR_BREAKS] = {
	[MIGRATE_COPY_BREAK_REFS]	= "refs",
	[MIGRATE_COPY_BREAK_FLUSH]	= "flush",
	[MIGRATE_COPY_BREAK_PUBLISH]	= "publish",
	[MIGRATE_COPY_BREAK_FAILED]	= "failed",
	[MIGRATE_COPY_BREAK_MARK]	= "mark",
	[MIGRATE_COPY_BREAK_MEMFD]	= "memfd",
	[MIGRATE_COPY_BREAK_LOCK]	= "lock",
	[MIGRATE_COPY_BREAK_WRITABLE]	= "writable",
	[MIGRATE_COPY_BREAK_SIGNAL]	= "signal",
	[MIGRATE_COPY_BREAK_CHUNK]	= "chunk",
	[MIGRATE_COPY_BREAK_GONE]	= "gone",
	[MIGRATE_COPY_BREAK_PENDING]	= "pending",
	[MIGRATE_COPY_BREAK_MAPPED]	= "mapped",
	[MIGRATE_COPY_BREAK_QUARANTINE]	= "quarantine",
	[MIGRATE_COPY_BREAK_HELD]	= "held",
};

/* Whether there is anything to do in any window. */
bool migrate_copy_windows_watched;
/* The broken rules, one bit each. */
unsigned long migrate_copy_broken_rules;

enum gate_state {
	GATE_OPEN,
	GATE_CLOSED,		/* Nobody has come yet */
	GATE_TAKEN,		/* Somebody stands there */
};

static struct {
	spinlock_t lock;	/* Of all the others */
	wait_queue_head_t wait;
	enum gate_state state;
	unsigned int round;	/* So that who stood in the last one goes */
	int window;
	u32 left;		/* Passages that are let through before */
	pid_t pid;
	int cpu;
} gate = {
	.lock = __SPIN_LOCK_UNLOCKED(gate.lock),
	.wait = __WAIT_QUEUE_HEAD_INITIALIZER(gate.wait),
};

/* The files, as described above */
static u32 gate_pid;
static u32 gate_skip;
static u32 gate_timeout_ms = 5000;
static u32 stretch_us;
static unsigned long stretch_windows;

static atomic_long_t passed[MIGRATE_COPY_NR_WINDOWS];
static atomic_long_t stretched[MIGRATE_COPY_NR_WINDOWS];
static atomic_long_t failed_copies;

unsigned int migrate_copy_engine_chunk_kb = SZ_1M / SZ_1K;
atomic_long_t migrate_copy_engine_jobs;
atomic_long_t migrate_copy_engine_chunks;
static atomic_long_t gate_timeouts;

static DECLARE_FAULT_ATTR(fail_copy);

/* Called with the gate's lock held, or a closed gate might go unseen. */
static void watch(void)
{
	WRITE_ONCE(migrate_copy_windows_watched,
		   READ_ONCE(gate.state) != GATE_OPEN ||
		   (READ_ONCE(stretch_windows) && READ_ONCE(stretch_us)));
}

/**
 * migrate_copy_fails() - Is the next copy to fail, as if by a machine check?
 *
 * Context: Any.
 * Return: true if so.
 */
bool migrate_copy_fails(void)
{
	if (likely(!should_fail(&fail_copy, PAGE_SIZE)))
		return false;
	atomic_long_inc(&failed_copies);
	return true;
}

static bool is_wanted(int window)
{
	if (gate.state != GATE_CLOSED || gate.window != window)
		return false;
	/* A helper works for somebody else. */
	if (gate_pid && gate_pid != task_tgid_nr(current) &&
	    !(current->flags & PF_WQ_WORKER))
		return false;
	if (gate.left) {
		gate.left--;
		return false;
	}
	return true;
}

/* Returns the round of the gate, or 0 if it is not closed here. */
static unsigned int take_gate(int window)
{
	unsigned int round = 0;

	spin_lock(&gate.lock);
	if (is_wanted(window)) {
		gate.state = GATE_TAKEN;
		gate.pid = task_pid_nr(current);
		gate.cpu = raw_smp_processor_id();
		round = gate.round;
	}
	spin_unlock(&gate.lock);
	if (round)
		wake_up_all(&gate.wait);
	return round;
}

static bool is_open(unsigned int round)
{
	return READ_ONCE(gate.round) != round ||
	       READ_ONCE(gate.state) != GATE_TAKEN;
}

static void stand(unsigned int round, bool may_sleep)
{
	u32 ms = READ_ONCE(gate_timeout_ms);
	ktime_t end;

	if (may_sleep) {
		wait_event_timeout(gate.wait, is_open(round),
				   msecs_to_jiffies(ms));
	} else {
		end = ktime_add_ms(ktime_get(), min(ms, MAX_SPIN_MS));
		while (!is_open(round) && ktime_before(ktime_get(), end))
			cpu_relax();
	}
	if (is_open(round))
		return;

	atomic_long_inc(&gate_timeouts);
	spin_lock(&gate.lock);
	if (!is_open(round)) {
		gate.state = GATE_OPEN;
		watch();
	}
	spin_unlock(&gate.lock);
}

static void stretch(int window, bool may_sleep)
{
	u32 us = READ_ONCE(stretch_us);

	if (!us || !(READ_ONCE(stretch_windows) & BIT(window)) ||
	    get_random_u32_below(STRETCH_ONE_IN))
		return;
	atomic_long_inc(&stretched[window]);
	us = get_random_u32_below(us) + 1;
	if (may_sleep)
		fsleep(us);
	else
		udelay(min(us, MAX_SPIN_US));
}

/**
 * __migrate_copy_at() - Stand in a window if a test wants that.
 * @window: Which one.
 * @may_sleep: Whether the caller may sleep; if not, it spins.
 *
 * Context: Process context. The files of this directory must never be needed
 * to end what is waited for here: the waits are bounded.
 */
void __migrate_copy_at(enum migrate_copy_window_at window, bool may_sleep)
{
	unsigned int round;

	atomic_long_inc(&passed[window]);
	stretch(window, may_sleep);
	round = take_gate(window);
	if (round)
		stand(round, may_sleep);
}

/**
 * migrate_copy_map_gone() - Map a folio where it is mapped no more.
 * @folio: It has moved, and its migration entries are being replaced.
 * @vma: A mapping that may have had one.
 * @address: Of the folio in it.
 *
 * This breaks the rule that only a migration entry is replaced: what somebody
 * gave up during the move comes back. Of base pages of anonymous memory only.
 *
 * Context: Called by the walk of all mappings, which holds the lock of the
 * anon_vma; takes the lock of the page table.
 */
void migrate_copy_map_gone(struct folio *folio, struct vm_area_struct *vma,
			   unsigned long address)
{
	struct mm_struct *mm = vma->vm_mm;
	spinlock_t *ptl;	/* Of the page table */
	pmd_t *pmd;
	pte_t *pte;

	if (!migrate_copy_broken(MIGRATE_COPY_BREAK_GONE))
		return;
	if (folio_test_large(folio) || !folio_test_anon(folio) ||
	    folio_test_ksm(folio))
		return;
	pmd = mm_find_pmd(mm, address);
	pte = pmd ? pte_offset_map_lock(mm, pmd, address, &ptl) : NULL;
	if (!pte)
		return;
	if (pte_none(ptep_get(pte))) {
		folio_get(folio);
		folio_add_anon_rmap_pte(folio, folio_page(folio, 0), vma,
					address, RMAP_NONE);
		inc_mm_counter(mm, MM_ANONPAGES);
		set_pte_at(mm, address, pte,
			   mk_pte(folio_page(folio, 0), vma->vm_page_prot));
	}
	pte_unmap_unlock(pte, ptl);
}

/**
 * migrate_copy_stand_copied() - Pass the window after the copies.
 * @folios: Sources, copied and locked, on return as well.
 *
 * Two rules can be broken here: who waits for a folio's lock must not get it
 * before it has moved, and nobody has the folio mapped.
 *
 * Context: Process context. May sleep.
 */
void migrate_copy_stand_copied(struct list_head *folios)
{
	bool unlock = migrate_copy_broken(MIGRATE_COPY_BREAK_LOCK);
	bool map = migrate_copy_broken(MIGRATE_COPY_BREAK_MAPPED);
	struct folio *folio;

	list_for_each_entry(folio, folios, lru) {
		if (map)
			remove_migration_ptes(folio, folio, 0);
		if (unlock)
			folio_unlock(folio);
	}
	migrate_copy_at(MIGRATE_COPY_AT_COPIED);
	list_for_each_entry(folio, folios, lru) {
		if (unlock)
			folio_lock(folio);
		if (map)
			try_to_migrate(folio, 0);
	}
}

/* A line without its end. Free it. */
static char *copy_line(const char __user *from, size_t count)
{
	char *line;

	if (count >= LINE_SIZE)
		return ERR_PTR(-EINVAL);
	line = memdup_user_nul(from, count);
	if (!IS_ERR(line))
		line[strcspn(line, "\n")] = '\0';
	return line;
}

/* Waits until somebody stands in the window. */
static ssize_t gate_read(struct file *file, char __user *to, size_t count,
			 loff_t *pos)
{
	char line[LINE_SIZE];
	long left;
	int len;

	if (*pos)
		return 0;
	left = wait_event_interruptible_timeout(gate.wait,
						READ_ONCE(gate.state) != GATE_CLOSED,
						msecs_to_jiffies(gate_timeout_ms));
	if (left < 0)
		return left;

	spin_lock(&gate.lock);
	if (gate.state == GATE_TAKEN)
		len = scnprintf(line, sizeof(line), "%s %d %d\n",
				window_names[gate.window], gate.pid, gate.cpu);
	else
		len = gate.state == GATE_OPEN ? -ENOENT : -ETIMEDOUT;
	spin_unlock(&gate.lock);
	return len < 0 ? len : simple_read_from_buffer(to, count, pos, line, len);
}

/* "open", or the name of a window. */
static ssize_t gate_write(struct file *file, const char __user *from,
			  size_t count, loff_t *pos)
{
	int window = -1;
	char *line;

	line = copy_line(from, count);
	if (IS_ERR(line))
		return PTR_ERR(line);
	if (strcmp(line, "open")) {
		window = match_string(window_names, MIGRATE_COPY_NR_WINDOWS,
				      line);
		if (window < 0) {
			kfree(line);
			return window;
		}
	}
	kfree(line);

	spin_lock(&gate.lock);
	gate.state = window < 0 ? GATE_OPEN : GATE_CLOSED;
	gate.window = window;
	gate.left = gate_skip;
	/* 0 is nobody's round. */
	if (!++gate.round)
		gate.round = 1;
	watch();
	spin_unlock(&gate.lock);
	wake_up_all(&gate.wait);
	return count;
}

static const struct file_operations gate_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = gate_read,
	.write = gate_write,
	.llseek = default_llseek,
};

/* A set of names, in files of their own. */
struct name_set {
	const char * const *names;
	unsigned int nr;
	unsigned long *bits;
};

static const struct name_set stretch_set = {
	window_names, MIGRATE_COPY_NR_WINDOWS, &stretch_windows
};

static const struct name_set broken_set = {
	rule_names, MIGRATE_COPY_NR_BREAKS, &migrate_copy_broken_rules
};

static int names_show(struct seq_file *m, void *unused)
{
	const struct name_set *set = m->private;
	unsigned long bits = READ_ONCE(*set->bits);
	unsigned int i;

	for_each_set_bit(i, &bits, set->nr)
		seq_printf(m, "%s ", set->names[i]);
	seq_putc(m, '\n');
	return 0;
}

static int names_open(struct inode *inode, struct file *file)
{
	return single_open(file, names_show, inode->i_private);
}

/* Names, separated by spaces; none for none. */
static ssize_t names_write(struct file *file, const char __user *from,
			   size_t count, loff_t *pos)
{
	const struct name_set *set = file_inode(file)->i_private;
	char *line, *rest, *word;
	unsigned long bits = 0;
	int bit = 0;

	line = copy_line(from, count);
	if (IS_ERR(line))
		return PTR_ERR(line);
	rest = line;
	while (bit >= 0 && (word = strsep(&rest, " "))) {
		if (!*word)
			continue;
		bit = match_string(set->names, set->nr, word);
		if (bit >= 0)
			bits |= BIT(bit);
	}
	kfree(line);
	if (bit < 0)
		return bit;
	WRITE_ONCE(*set->bits, bits);
	spin_lock(&gate.lock);
	watch();
	spin_unlock(&gate.lock);
	return count;
}

static const struct file_operations names_fops = {
	.owner = THIS_MODULE,
	.open = names_open,
	.read = seq_read,
	.write = names_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int stretch_us_get(void *unused, u64 *value)
{
	*value = stretch_us;
	return 0;
}

static int stretch_us_set(void *unused, u64 value)
{
	if (value > USEC_PER_SEC)
		return -EINVAL;
	WRITE_ONCE(stretch_us, value);
	spin_lock(&gate.lock);
	watch();
	spin_unlock(&gate.lock);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(stretch_us_fops, stretch_us_get, stretch_us_set,
			 "%llu\n");

static int counts_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < MIGRATE_COPY_NR_WINDOWS; i++) {
		seq_printf(m, "passed_%s %ld\n", window_names[i],
			   atomic_long_read(&passed[i]));
		seq_printf(m, "stretched_%s %ld\n", window_names[i],
			   atomic_long_read(&stretched[i]));
	}
	seq_printf(m, "engine_jobs %ld\n", atomic_long_read(&migrate_copy_engine_jobs));
	seq_printf(m, "engine_chunks %ld\n", atomic_long_read(&migrate_copy_engine_chunks));
	seq_printf(m, "failed_copies %ld\n", atomic_long_read(&failed_copies));
	seq_printf(m, "gate_timeouts %ld\n", atomic_long_read(&gate_timeouts));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static int __init windows_init(void)
{
	struct dentry *dir = migrate_copy_test_dir();

	debugfs_create_file("gate", 0600, dir, NULL, &gate_fops);
	debugfs_create_u32("pid", 0600, dir, &gate_pid);
	debugfs_create_u32("skip", 0600, dir, &gate_skip);
	debugfs_create_u32("timeout_ms", 0600, dir, &gate_timeout_ms);
	debugfs_create_u32("engine_chunk_kb", 0600, dir, &migrate_copy_engine_chunk_kb);
	debugfs_create_file("stretch", 0600, dir, (void *)&stretch_set,
			    &names_fops);
	debugfs_create_file_unsafe("stretch_us", 0600, dir, NULL,
				   &stretch_us_fops);
	debugfs_create_file("broken", 0600, dir, (void *)&broken_set,
			    &names_fops);
	debugfs_create_file("counts", 0400, dir, NULL, &counts_fops);
	fault_create_debugfs_attr("fail_copy", dir, &fail_copy);
	return 0;
}
late_initcall(windows_init);
