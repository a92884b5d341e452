// SPDX-License-Identifier: GPL-2.0-only
/*
 * A migration is made to stand still between two of its steps, somebody does
 * the wrong thing, and it goes on: nothing may be lost, torn or foreign. Then
 * rules of the migration are broken on purpose: the same tests must see it.
 *
 * migrate_windows [-a ACT] [-b RULE] windows [MODE]... plays the scenes, on a
 * kernel with CONFIG_MIGRATE_COPY_TEST_WINDOWS, migrate_windows [-a ACT] breaks
 * those of the rules. Without a mode: batch; with helpers, what is done is done to
 * one kind of memory only. -a names the only thing that is done.
 *
 * migrate_windows [-a ACT] [-b RULE] -d dcbm.ko -f softdma.ko dma: the same while
 * DMA that has copied a part waits with the rest, and the rules that are broken
 * then.
 *
 * migrate_windows [-b RULE] eject [MODE]: the same while the block of memory that a
 * folio moves to leaves the machine, one for each window. They do not come back.
 *
 * -b RULE breaks a rule in every scene: those that fail would notice.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/mount.h>

#include "windows/windows.h"

static const struct kind tmpfs_huge = {
	"tmpfs_huge", BACK_TMPFS_HUGE, 2 * MB, 4 * MB
};

static const struct kind swapcache = {
	"swapcache", BACK_ANON, OF_PAGES(1), 512 * KB, KIND_SWAPCACHE
};

static const struct kind hugetlb = {
	"hugetlb", BACK_HUGETLB, 2 * MB, 4 * MB
};

static const struct kind hugetlb_shared = {
	"hugetlb_shared", BACK_HUGETLB_SHARED, 2 * MB, 4 * MB
};

static const struct kind mlocked = {
	"mlocked", BACK_ANON, OF_PAGES(1), 512 * KB, KIND_MLOCK
};

static const struct act acts[] = {
	{ "stores",
	  { &base, &thp, &shmem, &xfs, &swapcache, &hugetlb, &hugetlb_shared },
	  W_ALL, NULL, act_store },
	{ "a store by a stale TLB", { &base, &shmem }, W_ALL,
	  before_stale, act_stale, check_stale, false, false, true },
	{ "MADV_DONTNEED and a stale TLB", { &base }, W_ALL,
	  before_stale, act_renew, check_stale },
	{ "mprotect and a stale TLB", { &base }, W_ALL,
	  before_denied, act_protect, check_denied },
	{ "munmap and a stale TLB", { &base }, W_ALL,
	  before_denied, act_take_away, check_denied },
	{ "mremap and a stale TLB", { &base }, W_ALL,
	  before_denied, act_shift, check_denied, .hides = true },
	{ "process_vm_writev", { &base, &thp, &shmem, &hugetlb }, W_ALL,
	  NULL, act_process_write, .stay = SOME_STAY },
	/* The debugger is forked: it maps what is not isolated by then. */
	{ "ptrace", { &base, &thp, &shmem, &hugetlb }, W_ALL, before_poke, act_poke,
	  .own_copy = true, .hides = true },
	{ "io_uring", { &base, &shmem, &tmpfs }, W_ALL,
	  before_io_uring, act_io_uring, .in_time = true, .pins = true },
	{ "O_DIRECT", { &base, &shmem, &tmpfs }, W_ALL,
	  before_direct, act_direct, .in_time = true, .pins = true },
	{ "io_uring, huge page", { &thp }, W_WITH_PINNED,
	  before_io_uring, act_io_uring, .in_time = true, .pins = true },
	{ "O_DIRECT, huge page", { &thp }, W_WITH_PINNED,
	  before_direct, act_direct, .in_time = true, .pins = true },
	{ "vmsplice", { &base, &thp, &shmem }, W_ALL,
	  before_vmsplice, act_vmsplice, .in_time = true,
	  .stay = SOME_STAY },
	{ "udmabuf", { &memfd }, W_ALL, before_udmabuf, act_udmabuf,
	  .stay = SOME_STAY },
	{ "read", { &tmpfs, &tmpfs_huge, &xfs, &ext4 }, W_ALL,
	  NULL, act_read, .stay = SOME_STAY },
	/* What is not isolated by then is mapped twice, 16 pages at a time. */
	{ "a fault", { &tmpfs, &tmpfs_huge, &xfs, &ext4 }, W_ALL,
	  before_fault, act_fault, .hides = true, .stay = SOME_STAY },
	{ "readahead", { &xfs, &ext4 }, W_ALL,
	  before_readahead, act_readahead, .stay = SOME_STAY },
	{ "write", { &tmpfs, &xfs, &ext4 }, W_ALL,
	  NULL, act_write_file, check_file, .stay = SOME_STAY },
	{ "process_vm_readv", { &base, &shmem }, W_ALL,
	  NULL, act_process_read, .stay = SOME_STAY },
	{ "fork", { &base, &thp, &swapcache }, W_ALL, NULL, act_fork,
	  .own_copy = true, .hides = true, .stay = SOME_STAY },
	{ "KSM", { &ksm }, W_ALL, NULL, act_ksm, .wanders = true },
	{ "userfaultfd", { &base }, W_ALL, before_uffd, act_uffd },
	{ "mremap", { &base, &thp, &shmem }, W_ALL, NULL, act_mremap,
	  .hides = true },
	{ "munmap", { &base, &thp, &shmem, &hugetlb }, W_ALL, NULL, act_munmap },
	{ "MADV_DONTNEED", { &base, &thp, &hugetlb }, W_ALL,
	  NULL, act_dontneed, check_dontneed },
	{ "MADV_REMOVE", { &shmem }, W_ALL, NULL, act_remove, check_dontneed,
	  .stay = SOME_STAY },
	{ "MADV_FREE", { &base, &thp }, W_ALL, NULL, act_free, check_free },
	{ "MADV_PAGEOUT", { &base, &swapcache, &xfs }, W_ALL,
	  before_pageout, act_pageout, .wanders = true },
	{ "swap in", { &swapcache }, W_ALL, before_swapin, act_swapin,
	  .own_copy = true, .stay = SOME_STAY },
	{ "swapoff", { &swapcache }, W_ALL, NULL, act_swapoff,
	  .stay = SOME_STAY },
	{ "MADV_COLLAPSE", { &huge_range }, W_ALL, NULL, act_collapse,
	  .wanders = true },
	{ "a split", { &thp, &tmpfs_huge }, W_ALL, NULL, act_split,
	  .stay = SOME_STAY },
	{ "a split of what a child maps", { &thp }, W_ALL,
	  before_child, act_split_mapping, check_child, .own_copy = true },
	{ "mlock", { &base, &mlocked, &shmem }, W_ALL, NULL, act_mlock },
	{ "mprotect", { &base, &thp }, W_ALL, NULL, act_mprotect },
	{ "truncate", { &tmpfs, &xfs, &ext4 }, W_ALL,
	  NULL, act_truncate, check_dontneed, .no_copy = true },
	{ "a hole", { &tmpfs, &xfs, &ext4 }, W_ALL,
	  NULL, act_punch, check_dontneed, .stay = SOME_STAY },
	{ "a hole in a page", { &tmpfs }, W_ALL,
	  NULL, act_punch_part, check_punch_part, .stay = SOME_STAY },
	{ "truncate in a page", { &tmpfs }, W_ALL,
	  NULL, act_truncate_part, check_truncate_part, .stay = SOME_STAY },
	{ "drop_caches and compaction", { &base, &xfs, &ext4 }, W_ALL,
	  NULL, act_drop_caches, .stay = SOME_STAY },
	/* What is mapped is lost then, and does not move any more. */
	{ "memory failure", { &base, &thp, &shmem }, W_ALL & ~W_ISOLATED,
	  before_pfn, act_poison, check_poison, .stay = 1 },
	{ "soft offline", { &base, &thp, &shmem }, W_ALL,
	  before_pfn, act_soft_offline, .stay = 1 },
	{ "memory offline", { &base }, W_ALL & ~W_SPINS,
	  before_offline, act_offline, .wanders = true, .slow = true },
	{ "a fatal signal", { &base, &thp, &shmem, &hugetlb }, W_ALL,
	  NULL, act_kill_mover, NULL, true },
	{ "the freezer", { &base, &shmem, &hugetlb }, W_ALL,
	  before_freeze, act_freeze, NULL, true },
	{ "a suspend", { &base, &shmem }, W_ALL,
	  before_suspend, act_suspend, .too_long = true },
	{ "a suspend that gives up", { &base, &shmem }, W_ALL,
	  before_suspend, act_suspend_fails, .in_time = true },
	{ "exit", { &base, &shmem, &tmpfs }, W_ALL,
	  before_exit, act_exit, NULL, true },
	{ "exec", { &base, &shmem }, W_ALL,
	  before_exec, act_exec, NULL, true },
	{ "a cgroup's limit", { &base }, W_ALL,
	  before_limit, act_limit, NULL, true, .no_copy = true,
	  .wanders = true },
	{ "CPU offline", { &base }, W_ALL & ~W_SPINS,
	  before_cpu_offline, act_cpu_offline },
	{ "knobs", { &base, &thp, &shmem }, W_ALL, NULL, act_knobs,
	  .no_copy = true },
};

/* Where a block of memory can leave the machine, each once. */
static const struct act ejected[] = {
	{ "memory leaves", { &base }, W_ALL & ~W_SPINS,
	  before_eject, act_eject, .wanders = true, .slow = true },
};

/* With helpers, and only if one gets to a chunk. */
static const struct act helped[] = {
	/* It waits for the helper's CPU with all the others. */
	{ "CPU offline", { &thp }, W_HELPING,
	  before_cpu_offline, act_cpu_offline, .too_long = true },
	{ "read", { &tmpfs_huge }, W_HELPING, NULL, act_read },
	{ "stores", { &thp }, W_HELPING, NULL, act_store },
	{ "stores", { &hugetlb }, W_HELPING, NULL, act_store },
	{ "munmap", { &hugetlb }, W_HELPING, NULL, act_munmap },
	{ "a fatal signal", { &thp }, W_HELPING,
	  NULL, act_kill_mover, NULL, true },
	{ "a suspend", { &thp }, W_HELPING,
	  before_suspend, act_suspend, .too_long = true },
};

/* Amid a helper's chunk they are others. */
const struct act *find_act(const char *name, unsigned int window)
{
	const struct act *list = window & W_HELPING ? helped : acts;
	size_t n = window & W_HELPING ? ARRAY_SIZE(helped) : ARRAY_SIZE(acts);
	size_t i;

	for (i = 0; i < n; i++) {
		if (!strcmp(list[i].name, name))
			return &list[i];
	}
	return NULL;
}

/* The name of the rule that is broken in each scene, or NULL. */
static const char *broken_rule;

/*
 * Runs all broken rules, or counts them: each act's test must see it, too, when
 * copies that have failed are taken for good.
 */
static unsigned int breaches_all(bool run)
{
	static const unsigned int where[] = { W_REMAPPING, W_COPIED };
	unsigned int nr = breaches_listed(false, run);
	size_t i, w;

	for (i = 0; i < ARRAY_SIZE(acts); i++) {
		struct breach b = {
			.rule = "failed", .also = "", .what = acts[i].name,
			.kind = acts[i].kinds[0], .failing = true,
		};
		struct variant v = { .act = &acts[i], .kind = b.kind };

		if (acts[i].no_copy)
			continue;
		for (w = 0; w < ARRAY_SIZE(where); w++) {
			v.window = __builtin_ctz(where[w]);
			if (usable(&v))
				break;
		}
		if (w == ARRAY_SIZE(where))
			continue;
		b.window = where[w];
		nr++;
		if (run)
			breach_run(&b);
	}
	return nr;
}

/* Runs the scenes of a list in some windows, or counts them. */
static unsigned int scenes(const struct act *list, size_t n,
			   enum copy_mode mode, unsigned int windows, bool run)
{
	struct variant v = { .mode = mode };
	unsigned int nr = 0;
	char name[128];
	size_t i, k;

	for (i = 0; i < n; i++) {
		v.act = &list[i];
		for (k = 0; k < ARRAY_SIZE(v.act->kinds); k++) {
			v.kind = v.act->kinds[k];
			if (!v.kind || (k && mode == MODE_THREADS))
				break;
			for (v.window = 0; v.window < NR_WINDOWS;
			     v.window++) {
				if (!(windows & BIT(v.window)) || !usable(&v))
					continue;
				nr++;
				if (!run)
					continue;
				snprintf(name, sizeof(name), "%s, %s, %s: %s",
					 mode_names[mode], v.kind->name,
					 window_names[v.window], v.act->name);
				if (broken_rule)
					control("broken", broken_rule);
				test_run(name, v.act->slow ? SCENE_TRIES * TIMEOUT :
					 TIMEOUT, test_scene, &v);
				all_right_again();
			}
		}
	}
	return nr;
}

/* Runs all of a mode, or counts it. */
static unsigned int mode_scenes(enum copy_mode mode, bool run)
{
	unsigned int nr = scenes(acts, ARRAY_SIZE(acts), mode, ~W_DMA, run);

	if (mode == MODE_THREADS)
		nr += scenes(helped, ARRAY_SIZE(helped), mode, ~W_DMA, run);
	return nr;
}

/* Runs all there is about DMA, or counts it. */
static unsigned int dma_scenes(bool run)
{
	return scenes(acts, ARRAY_SIZE(acts), MODE_BATCH, W_DMA, run) +
	       breaches_listed(true, run);
}

/* One channel that copies everything, in small chunks. */
static void dma_start(void)
{
	if (module_load(softdma_path, "channels=1 cpus=" DMA_CPU) ||
	    module_load(dcbm_path, ""))
		ksft_exit_fail_msg("cannot load the modules: %s\n",
				   strerror(errno));
	engine_knob("dcbm", "nr_dma_chan", 1);
	if (file_write_number(TEST_DIR "/engine_chunk_kb", DMA_CHUNK / KB))
		ksft_exit_fail_msg("cannot make chunks small\n");
	engine_knob("dcbm", "timeout_ms", DMA_TIMEOUT_MS);
	engine_knob("dcbm", "offloading", 1);
}

static void dma_stop(void)
{
	if (module_unload("dcbm") || module_unload("softdma"))
		ksft_exit_fail_msg("cannot unload the modules: %s\n",
				   strerror(errno));
}

static void __noreturn wrong_options(void)
{
	fprintf(stderr,
		"usage: migrate_windows [-a ACT] [-b RULE] windows [MODE]...\n"
		"       migrate_windows [-b RULE] eject [MODE]...\n"
		"       migrate_windows [-a ACT] breaks\n"
		"       migrate_windows [-a ACT] [-b RULE] -d dcbm.ko -f softdma.ko dma\n");
	exit(KSFT_FAIL);
}

/* Runs, or counts, what is asked for. */
static unsigned int run_all(const char *what, unsigned int modes, bool run)
{
	unsigned int nr = 0;
	enum copy_mode mode;

	if (!strcmp(what, "breaks"))
		return breaches_all(run);
	if (!strcmp(what, "dma"))
		return dma_scenes(run);
	for (mode = 0; mode < NR_MODES; mode++) {
		if (!(modes & 1U << mode))
			continue;
		nr += strcmp(what, "eject") ? mode_scenes(mode, run) :
		      scenes(ejected, ARRAY_SIZE(ejected), mode, ~W_DMA, run);
	}
	return nr;
}

int main(int argc, char **argv)
{
	unsigned int modes;
	const char *what;
	bool dma;
	int option;

	while ((option = getopt(argc, argv, "+a:b:d:f:m:")) != -1) {
		if (option == 'a')
			only = optarg;
		else if (option == 'b')
			broken_rule = optarg;
		else if (!module_option(option, optarg))
			wrong_options();
	}
	argc -= optind;
	argv += optind;
	what = argc ? argv[0] : "";
	dma = !strcmp(what, "dma");
	if ((strcmp(what, "windows") && strcmp(what, "breaks") &&
	     strcmp(what, "eject") && !dma) ||
	    (dma && (!softdma_path || !dcbm_path)) ||
	    (!strcmp(what, "breaks") && broken_rule))
		wrong_options();
	if (!file_exists(TEST_DIR "/gate"))
		mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	modes = argc > 1 ? modes_wanted(argc - 1, argv + 1) : 1U << MODE_BATCH;
	tests_start(run_all(what, modes, false));
	if (!file_exists(TEST_DIR "/gate"))
		ksft_exit_skip("this kernel has no CONFIG_MIGRATE_COPY_TEST_WINDOWS\n");
	data_wrong = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (dma)
		dma_start();
	all_right_again();
	run_all(what, modes, true);
	if (dma)
		dma_stop();
	tests_end();
}
