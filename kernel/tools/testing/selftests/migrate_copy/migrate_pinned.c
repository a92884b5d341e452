// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pinned pages stay where they are and stay right, whoever writes to them; and
 * nothing that is written or read while folios move is lost or wrong.
 *
 * migrate_pinned [MODE]..., as migrate_content.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "lib/migrate_test.h"

#define TIMEOUT		240
/* Seconds that the tests with several threads run, at least. */
#define DURATION_S	2
/* What must have happened in that time, or else nothing was tested. */
#define MIN_MOVES	4
#define MIN_WORK	4
/* How long to go on until that has happened. */
#define PATIENCE_S	150

static const struct kind base = { "base", BACK_ANON, OF_PAGES(1), 512 * KB };
static const struct kind mthp = { "mthp_64k", BACK_ANON, 64 * KB, 512 * KB };
static const struct kind thp = { "thp", BACK_ANON, 2 * MB, 4 * MB };
static const struct kind shmem = { "shmem", BACK_SHMEM, OF_PAGES(1), 512 * KB };

static const struct kind hugetlb = {
	"hugetlb_2m", BACK_HUGETLB, 2 * MB, 4 * MB
};

/*
 * Who uses some folios leaves others that can move, and as many at a time that
 * there is something to share.
 */
static const struct kind many_base = {
	"base", BACK_ANON, OF_PAGES(1), 4 * MB
};

static const struct kind many_thp = { "thp", BACK_ANON, 2 * MB, 8 * MB };

static const struct kind many_shmem = {
	"shmem", BACK_SHMEM, OF_PAGES(1), 4 * MB
};

static const struct kind many_hugetlb = {
	"hugetlb_2m", BACK_HUGETLB, 2 * MB, 8 * MB
};

static const struct kind tmpfs = { "tmpfs", BACK_TMPFS, OF_PAGES(1), 4 * MB };

static const struct kind tmpfs_huge = {
	"tmpfs_huge", BACK_TMPFS_HUGE, 2 * MB, 16 * MB
};

static const struct kind ext4 = {
	"ext4", BACK_EXT4, OF_PAGES(1), 4 * MB, KIND_UNBATCHED
};

static const struct kind xfs = { "xfs", BACK_XFS, OF_PAGES(1), 4 * MB };

enum pin_by {
	PIN_IO_URING,
	PIN_VMSPLICE,
	PIN_O_DIRECT,
	NR_PINS,
};

static const char * const pin_names[NR_PINS] = {
	[PIN_IO_URING]	= "io_uring",
	[PIN_VMSPLICE]	= "vmsplice",
	[PIN_O_DIRECT]	= "O_DIRECT",
};

/*
 * A pin on the first page of each folio of a region.
 *
 * io_uring: registered buffers, as a DMA engine would hold them, FOLL_LONGTERM.
 * vmsplice: references from a pipe.
 * O_DIRECT: a write to a loop device whose file lies on a frozen file system,
 *	so that it is in flight until the file system thaws.
 */
struct pin_state {
	enum pin_by pin;
	int fd[2];
	pthread_t thread;
	struct region *r;
	void *buf;
	size_t folios;
	ssize_t done;
};

static void *direct_write(void *arg)
{
	struct pin_state *p = arg;
	struct iovec *iov;
	size_t i;

	iov = calloc(p->folios, sizeof(*iov));
	for (i = 0; i < p->folios; i++) {
		iov[i].iov_base = p->r->map + i * p->r->folio;
		iov[i].iov_len = PAGE;
	}
	p->done = pwritev(p->fd[0], iov, p->folios, 0);
	free(iov);
	return NULL;
}

/* Once a request is in flight, all of its pages are pinned. */
#define IN_FLIGHT_S	30
#define IN_FLIGHT_US	1000

static void wait_in_flight(int dev)
{
	unsigned int reads, writes = 0;
	double start = now();
	char path[64], text[64];
	struct stat st;

	require(!fstat(dev, &st), "no device");
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/inflight",
		 major(st.st_rdev), minor(st.st_rdev));
	while (!writes) {
		require(now() < start + IN_FLIGHT_S, "nothing is written");
		usleep(IN_FLIGHT_US);
		require(!file_read(path, text, sizeof(text)) &&
			sscanf(text, "%u %u", &reads, &writes) == 2,
			"cannot understand %s", path);
	}
}

static void pin_start(struct pin_state *p, struct region *r, enum pin_by pin)
{
	p->pin = pin;
	p->r = r;
	p->folios = r->size / r->folio;
	switch (pin) {
	case PIN_IO_URING:
		p->fd[0] = pages_pin(r->map, r->size, r->folio);
		break;
	case PIN_VMSPLICE:
		require(!pages_splice(r->map, r->size, r->folio, p->fd), "vmsplice: %s",
			strerror(errno));
		break;
	default:
		require(!posix_memalign(&p->buf, PAGE, PAGE), "no memory");
		frozen_device(&p->fd[0], &p->fd[1]);
		require(!pthread_create(&p->thread, NULL, direct_write, p),
			"no thread");
		wait_in_flight(p->fd[0]);
	}
}

/* What the holder of the pin has seen, or will write, must be right, too. */
static bool pin_end(struct pin_state *p)
{
	size_t folio = p->r->folio;
	uint64_t buf[PAGE / sizeof(uint64_t)];
	bool ok = true;
	size_t i;

	switch (p->pin) {
	case PIN_IO_URING:
		close(p->fd[0]);
		break;
	case PIN_VMSPLICE:
		for (i = 0; i < p->folios; i++)
			ok = read(p->fd[0], buf, PAGE) == PAGE &&
			     !pattern_bad(buf, PAGE, p->r->seed, i * folio,
					  p->r->period) && ok;
		close(p->fd[0]);
		close(p->fd[1]);
		break;
	default:
		if (ioctl(p->fd[1], FITHAW, 0)) {
			ksft_print_msg("cannot thaw: %s\n", strerror(errno));
			return false;
		}
		pthread_join(p->thread, NULL);
		ok = p->done == (ssize_t)(p->folios * PAGE);
		for (i = 0; ok && i < p->folios; i++)
			ok = pread(p->fd[0], p->buf, PAGE, i * PAGE) == PAGE &&
			     !pattern_bad(p->buf, PAGE, p->r->seed, i * folio,
					  p->r->period);
		close(p->fd[0]);
		close(p->fd[1]);
		break;
	}
	if (!ok)
		ksft_print_msg("the holder of the pins got wrong data\n");
	return ok;
}

struct pinned {
	const struct kind *kind;
	enum pin_by pin;
	enum copy_mode mode;
};

/*
 * An anonymous page that is pinned with FOLL_PIN is not even unmapped, and the
 * references of hugetlb folios are checked before there is a batch. Everything
 * else has to be seen by the batch.
 */
static bool reaches_batch(const struct pinned *variant)
{
	return variant->kind->backing == BACK_SHMEM ||
	       (variant->kind->backing == BACK_ANON &&
		variant->pin == PIN_VMSPLICE);
}

#define MAX_FOLIOS	128

static void test_pinned(const void *arg)
{
	const struct pinned *variant = arg;
	struct pin_state pin = { 0 };
	void *pages[MAX_FOLIOS];
	int nodes[MAX_FOLIOS], status[MAX_FOLIOS];
	struct evidence ev;
	int from, to, tmp, err;
	struct region r;
	size_t folio, n, i;

	mode_enter(variant->mode);
	nodes_find(&from, &to);
	region_make(&r, variant->kind, from, false);
	/*
	 * A long-term pin takes pages out of movable memory: stay on the node
	 * for it. hugetlb goes where its pool has such pages.
	 */
	require(!node_bind(from), "cannot stay on node %d", from);
	pin_start(&pin, &r, variant->pin);
	node_unbind();
	if (page_node(r.map) == to) {
		tmp = from;
		from = to;
		to = tmp;
	}
	require(region_on_node(&r, from), "not on one node once pinned");

	folio = r.folio;
	n = r.size / folio;
	require(n <= MAX_FOLIOS, "too many folios");
	for (i = 0; i < n; i++) {
		pages[i] = r.map + i * folio;
		nodes[i] = to;
		status[i] = -1;
	}
	evidence_start(&ev, variant->mode);
	err = sys_move_pages(0, n, pages, nodes, status, MPOL_MF_MOVE);
	require(err >= 0, "move_pages: %s", strerror(errno));
	/* Either the number of those left, or each with its error. */
	for (i = 0; !err && i < n; i++)
		require(status[i] < 0, "page %zu: status %d", i, status[i]);
	require(!pages_elsewhere(r.map, r.size, folio, from),
		"pinned, but moved by move_pages");
	require(region_intact(&r), "wrong after move_pages");
	require(evidence_untouched(&ev), "pinned, but copied");
	if (reaches_batch(variant))
		require(evidence_fallback(&ev), "the batch has not seen the pins");

	err = sys_mbind(r.map, r.size, MPOL_BIND, to,
			MPOL_MF_MOVE | MPOL_MF_STRICT);
	require(err < 0 && errno == EIO, "mbind: %d, errno %d", err, errno);
	require(sys_migrate_pages(0, from, to) > 0,
		"migrate_pages has left nothing behind");
	require(!pages_elsewhere(r.map, r.size, folio, from),
		"pinned, but moved by mbind or migrate_pages");
	require(region_intact(&r), "wrong after mbind and migrate_pages");

	require(pin_end(&pin), "what the holder of the pins has is wrong");
	require(region_intact(&r), "wrong without the pins");

	/* Now it moves, as if nothing had been. */
	require(!region_move_pages(&r, from, to) && region_on_node(&r, to),
		"does not move without the pins");
	require(region_intact(&r), "wrong after the move");
	region_free(&r);
}

/*
 * Threads that write or read while another moves the memory to and fro.
 */

enum job {
	JOB_STORE,		/* plain stores */
	JOB_DIRECT_READ,	/* O_DIRECT reads into the memory */
	JOB_PROCESS_WRITE,	/* process_vm_writev(2) pins for a moment */
	JOB_READ,		/* read(2) and loads of unchanging page cache */
};

enum move_by {
	MOVE_PAGES,
	MBIND,
	MIGRATE_PAGES,
};

struct concurrent {
	const struct kind *kind;
	enum job job;
	enum move_by method;
	enum copy_mode mode;
};

static const char * const job_names[] = {
	[JOB_STORE]		= "stores",
	[JOB_DIRECT_READ]	= "O_DIRECT reads",
	[JOB_PROCESS_WRITE]	= "process_vm_writev",
	[JOB_READ]		= "readers",
};

static const char * const method_names[] = {
	[MOVE_PAGES]	= "move_pages",
	[MBIND]		= "mbind",
	[MIGRATE_PAGES]	= "migrate_pages",
};

struct worker {
	struct region *r;
	int file;
	char *bounce;
	unsigned int id;
	pthread_t thread;
	atomic_ulong rounds;
	atomic_bool bad;
};

static atomic_bool stop;

#define WORKERS		2

/* Each worker owns every WORKERS-th word of each 64 bytes. */
static bool store_round(struct worker *w, uint64_t round)
{
	atomic_ullong *word = (atomic_ullong *)w->r->map;
	size_t n = w->r->size / sizeof(*word);
	size_t i;

	for (i = w->id; i < n; i += 64 / sizeof(*word)) {
		unsigned long long seen = word[i];

		if (round && seen != round) {
			ksft_print_msg("word %zu: %llu, not %llu: a write is lost\n",
				       i, seen, (unsigned long long)round);
			return false;
		}
		word[i] = round + 1;
	}
	return true;
}

/* The part of the region that is written from outside by this worker. */
static char *share(struct worker *w, size_t *size)
{
	*size = w->r->size / WORKERS;
	return w->r->map + w->id * *size;
}

/* The file has other content at each offset. */
#define FILE_ROUNDS	8

static bool direct_read_round(struct worker *w, uint64_t round)
{
	size_t size, offset;
	char *to = share(w, &size);

	offset = round % FILE_ROUNDS * size;
	if (pread(w->file, to, size, offset) != (ssize_t)size) {
		ksft_print_msg("O_DIRECT read: %s\n", strerror(errno));
		return false;
	}
	return !pattern_bad(to, size, w->r->seed, offset, 0);
}

static bool process_write_round(struct worker *w, uint64_t round)
{
	struct iovec from, to;
	size_t size;

	to.iov_base = share(w, &size);
	to.iov_len = size;
	from.iov_base = w->bounce;
	from.iov_len = size;
	pattern_fill(w->bounce, size, round, 0, 0);
	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != (ssize_t)size) {
		ksft_print_msg("process_vm_writev: %s\n", strerror(errno));
		return false;
	}
	return !pattern_bad(to.iov_base, size, round, 0, 0);
}

/*
 * Who reads holds the folios, and waits for those that move: all at a time, and
 * without a pause, none would ever be free.
 */
#define PIECE		(128 * KB)
#define PAUSES_US	2000

static bool read_round(struct worker *w, uint64_t round)
{
	struct region *r = w->r;
	size_t offset;

	for (offset = 0; !w->id && offset < r->size; offset += PIECE) {
		if (pread(r->fd, w->bounce + offset, PIECE, offset) != PIECE)
			return false;
	}
	usleep(round * 7919 % PAUSES_US);
	return !pattern_bad(w->id ? r->map : w->bounce, r->size, r->seed, 0,
			    r->period);
}

typedef bool (*round_fn)(struct worker *w, uint64_t round);

static void work(struct worker *w, round_fn fn)
{
	uint64_t round;

	for (round = 0; !stop && !w->bad; round++) {
		if (!fn(w, round))
			w->bad = true;
		w->rounds++;
	}
}

static void *store_main(void *w)
{
	work(w, store_round);
	return NULL;
}

static void *direct_read_main(void *w)
{
	work(w, direct_read_round);
	return NULL;
}

static void *process_write_main(void *w)
{
	work(w, process_write_round);
	return NULL;
}

static void *read_main(void *w)
{
	work(w, read_round);
	return NULL;
}

/* Best effort: what is being used does not always move. */
static bool try_move(struct region *r, enum move_by method, int from, int to)
{
	size_t n = r->size / r->folio, i, there = 0;
	void *pages[n];
	int nodes[n], status[n];

	for (i = 0; i < n; i++) {
		pages[i] = r->map + i * r->folio;
		nodes[i] = to;
	}
	switch (method) {
	case MOVE_PAGES:
		sys_move_pages(0, n, pages, nodes, status, MPOL_MF_MOVE);
		break;
	case MBIND:
		sys_mbind(r->map, r->size, MPOL_BIND, to, MPOL_MF_MOVE);
		break;
	case MIGRATE_PAGES:
		sys_migrate_pages(0, from, to);
		break;
	}
	if (sys_move_pages(0, n, pages, NULL, status, 0))
		return false;
	for (i = 0; i < n; i++)
		there += status[i] == to;
	return there;
}

static void *(* const job_mains[])(void *) = {
	[JOB_STORE]		= store_main,
	[JOB_DIRECT_READ]	= direct_read_main,
	[JOB_PROCESS_WRITE]	= process_write_main,
	[JOB_READ]		= read_main,
};

static void test_concurrent(const void *arg)
{
	const struct concurrent *variant = arg;
	struct worker workers[WORKERS] = { 0 };
	unsigned long moves = 0, done = 0;
	int from, to, tmp, file = -1;
	struct evidence ev;
	struct region r;
	double start;
	bool ok = true;
	size_t i;

	mode_enter(variant->mode);
	nodes_find(&from, &to);
	region_make(&r, variant->kind, from, false);
	if (variant->job == JOB_DIRECT_READ)
		file = direct_file(r.size / WORKERS * FILE_ROUNDS, r.seed);

	evidence_start(&ev, variant->mode);
	for (i = 0; i < WORKERS; i++) {
		workers[i].r = &r;
		workers[i].id = i;
		workers[i].file = file;
		workers[i].bounce = malloc(r.size);
		require(workers[i].bounce &&
			!pthread_create(&workers[i].thread, NULL,
					job_mains[variant->job], &workers[i]),
			"no thread");
	}
	for (start = now(); ok && now() < start + PATIENCE_S; ) {
		moves += try_move(&r, variant->method, from, to);
		tmp = from;
		from = to;
		to = tmp;
		for (i = 0, done = ULONG_MAX; i < WORKERS; i++) {
			if (workers[i].rounds < done)
				done = workers[i].rounds;
			ok = ok && !workers[i].bad;
		}
		if (now() >= start + DURATION_S && moves >= MIN_MOVES &&
		    done >= MIN_WORK &&
		    ((evidence_helpers(&ev) && evidence_folios(&ev, MIN_MOVES)) ||
		     variant->kind->flags & KIND_UNBATCHED))
			break;
	}
	stop = true;
	for (i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		ok = ok && !workers[i].bad;
	}
	ksft_print_msg("%lu moves beside %lu rounds\n", moves, done);
	if (variant->mode != MODE_PLAIN)
		ksft_print_msg("%llu folios left out for their references\n",
			       (unsigned long long)stat_read("fallback") -
			       ev.fallback_before);
	require(ok, "a write is lost, or a reader has seen wrong data");
	require(moves >= MIN_MOVES && done >= MIN_WORK,
		"too little happened to say anything");
	require(variant->job != JOB_READ || region_intact(&r),
		"wrong at the end");
	require(evidence_check(&ev, MIN_MOVES, r.folio,
			       !(variant->kind->flags & KIND_UNBATCHED)),
		"the mode was not in use");
	region_free(&r);
}

static const struct kind * const pinned_kinds[] = {
	&base, &mthp, &thp, &shmem, &hugetlb,
};

static const struct {
	const struct kind *kind;
	enum job job;
	enum move_by method;
} concurrent_tests[] = {
	{ &many_base, JOB_STORE, MOVE_PAGES },
	{ &many_base, JOB_STORE, MBIND },
	{ &many_base, JOB_STORE, MIGRATE_PAGES },
	{ &many_thp, JOB_STORE, MOVE_PAGES },
	{ &many_thp, JOB_STORE, MBIND },
	{ &many_thp, JOB_STORE, MIGRATE_PAGES },
	{ &many_shmem, JOB_STORE, MOVE_PAGES },
	{ &many_hugetlb, JOB_STORE, MOVE_PAGES },
	{ &many_base, JOB_DIRECT_READ, MOVE_PAGES },
	{ &many_thp, JOB_DIRECT_READ, MOVE_PAGES },
	{ &many_shmem, JOB_DIRECT_READ, MOVE_PAGES },
	{ &many_hugetlb, JOB_DIRECT_READ, MOVE_PAGES },
	{ &many_base, JOB_PROCESS_WRITE, MOVE_PAGES },
	{ &many_thp, JOB_PROCESS_WRITE, MOVE_PAGES },
	{ &many_shmem, JOB_PROCESS_WRITE, MOVE_PAGES },
	{ &many_hugetlb, JOB_PROCESS_WRITE, MOVE_PAGES },
	{ &tmpfs, JOB_READ, MOVE_PAGES },
	{ &tmpfs_huge, JOB_READ, MOVE_PAGES },
	{ &ext4, JOB_READ, MOVE_PAGES },
	{ &xfs, JOB_READ, MOVE_PAGES },
};

static void run_mode(enum copy_mode mode)
{
	char name[128];
	enum pin_by pin;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pinned_kinds); i++) {
		for (pin = 0; pin < NR_PINS; pin++) {
			struct pinned variant = { pinned_kinds[i], pin, mode };

			snprintf(name, sizeof(name), "%s, %s pinned by %s",
				 mode_names[mode], pinned_kinds[i]->name,
				 pin_names[pin]);
			test_run(name, TIMEOUT, test_pinned, &variant);
		}
	}
	for (i = 0; i < ARRAY_SIZE(concurrent_tests); i++) {
		struct concurrent variant = {
			concurrent_tests[i].kind, concurrent_tests[i].job,
			concurrent_tests[i].method, mode,
		};

		snprintf(name, sizeof(name), "%s, %s by %s beside %s",
			 mode_names[mode], variant.kind->name,
			 method_names[variant.method], job_names[variant.job]);
		test_run(name, TIMEOUT, test_concurrent, &variant);
	}
}

int main(int argc, char **argv)
{
	unsigned int modes = modes_wanted(argc - 1, argv + 1);
	enum copy_mode mode;

	tests_start(__builtin_popcount(modes) *
		    (ARRAY_SIZE(pinned_kinds) * NR_PINS +
		     ARRAY_SIZE(concurrent_tests)));
	for (mode = 0; mode < NR_MODES; mode++) {
		if (modes & 1U << mode)
			run_mode(mode);
	}
	tests_end();
}
