// SPDX-License-Identifier: GPL-2.0-only
/*
 * Those who write to the memory that moves.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <linux/nbd.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "windows.h"

void act_store(struct scene *s)
{
	s->written = s->r.folio;
	pattern_fill(s->r.map + s->gone, s->written, OTHER_SEED(s), 0, 0);
}

void act_process_write(struct scene *s)
{
	struct iovec from = { .iov_len = s->r.folio };
	struct iovec to = { s->r.map, s->r.folio };

	from.iov_base = malloc(s->r.folio);
	pattern_fill(from.iov_base, s->r.folio, OTHER_SEED(s), 0, 0);
	require(process_vm_writev(getpid(), &from, 1, &to, 1, 0) ==
		(ssize_t)s->r.folio, "process_vm_writev: %s", strerror(errno));
	s->written = s->r.folio;
}

static void *sleeper_main(void *tid)
{
	*(atomic_int *)tid = syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

/* Another process writes as a debugger does, through a thread that it stops. */
void before_poke(struct scene *s)
{
	static atomic_int tid;
	pthread_t thread;

	require(!pthread_create(&thread, NULL, sleeper_main, &tid),
		"no thread");
	while (!tid)
		usleep(1000);
	s->fd = tid;
}

void act_poke(struct scene *s)
{
	uint64_t words[PAGE / sizeof(uint64_t)];
	int status;
	pid_t pid;
	size_t i;

	pattern_fill(words, PAGE, OTHER_SEED(s), 0, 0);
	pid = fork();
	if (!pid) {
		if (ptrace(PTRACE_ATTACH, s->fd, NULL, NULL) ||
		    waitpid(s->fd, &status, __WALL) != s->fd)
			_exit(1);
		for (i = 0; i < PAGE / sizeof(uint64_t); i++) {
			if (ptrace(PTRACE_POKEDATA, s->fd,
				   s->r.map + i * sizeof(uint64_t), words[i]))
				_exit(2);
		}
		_exit(ptrace(PTRACE_DETACH, s->fd, NULL, NULL) ? 3 : 0);
	}
	require(waitpid(pid, &status, 0) == pid && !status,
		"the debugger fails: %x", status);
	s->written = PAGE;
}

/* io_uring's registered buffer, pinned for long, filled without a fault. */
struct ring {
	int fd;
	char *sq, *cq;
	struct io_uring_sqe *sqe;
	struct io_uring_params p;
};

static struct ring ring;

static void *ring_map(size_t size, off_t offset)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, ring.fd, offset);

	require(map != MAP_FAILED, "cannot map a ring");
	return map;
}

void before_io_uring(struct scene *s)
{
	struct iovec iov = { s->r.map, PAGE };
	int fds[2];

	ring.fd = syscall(SYS_io_uring_setup, 1, &ring.p);
	if (ring.fd < 0)
		skip("no io_uring: %s", strerror(errno));
	ring.sq = ring_map(ring.p.sq_off.array + sizeof(uint32_t),
			   IORING_OFF_SQ_RING);
	ring.cq = ring_map(ring.p.cq_off.cqes +
			   ring.p.cq_entries * sizeof(struct io_uring_cqe),
			   IORING_OFF_CQ_RING);
	ring.sqe = ring_map(sizeof(*ring.sqe), IORING_OFF_SQES);
	/* A long-term pin takes pages out of movable memory. */
	require(!node_bind(s->from), "cannot stay on the node");
	require(!syscall(SYS_io_uring_register, ring.fd,
			 IORING_REGISTER_BUFFERS, &iov, 1),
		"cannot register a buffer: %s", strerror(errno));
	node_unbind();
	require(!pipe(fds), "no pipe");
	s->fd = fds[0];
	s->other = fds[1];
}

void act_io_uring(struct scene *s)
{
	char buf[PAGE];

	pattern_fill(buf, PAGE, OTHER_SEED(s), 0, 0);
	require(write(s->other, buf, PAGE) == (ssize_t)PAGE, "pipe is full");
	memset(ring.sqe, 0, sizeof(*ring.sqe));
	ring.sqe->opcode = IORING_OP_READ_FIXED;
	ring.sqe->fd = s->fd;
	ring.sqe->addr = (uintptr_t)s->r.map;
	ring.sqe->len = PAGE;
	ring.sqe->off = -1;
	*(uint32_t *)(ring.sq + ring.p.sq_off.array) = 0;
	__atomic_add_fetch((uint32_t *)(ring.sq + ring.p.sq_off.tail), 1,
			   __ATOMIC_RELEASE);
	require(syscall(SYS_io_uring_enter, ring.fd, 1, 1,
			IORING_ENTER_GETEVENTS, NULL, 0) == 1,
		"io_uring: %s", strerror(errno));
	require(((struct io_uring_cqe *)(ring.cq + ring.p.cq_off.cqes))->res ==
		(int)PAGE, "io_uring has not read");
	/* And the pin is gone. */
	require(!syscall(SYS_io_uring_register, ring.fd,
			 IORING_UNREGISTER_BUFFERS, NULL, 0),
		"cannot unregister: %s", strerror(errno));
	s->written = PAGE;
}

/*
 * O_DIRECT: the request is in flight, and its pages are pinned, until the
 * server of a network block device, which is here, sends the data.
 */
#define NBD_HELD	(1024 * KB)
#define NBD_SIZE	(2048 * KB)

static struct {
	int dev;
	int socket;
	int kernel_socket;
	uint64_t seed;
	char *to;
	atomic_bool asked;
	atomic_bool answer;
	ssize_t got;
	pthread_t reader;
} nbd;

static bool transfer(int fd, void *buf, size_t size, bool out)
{
	while (size) {
		ssize_t n = out ? write(fd, buf, size) : read(fd, buf, size);

		if (n <= 0)
			return false;
		buf = (char *)buf + n;
		size -= n;
	}
	return true;
}

static void *nbd_serve(void *unused)
{
	struct nbd_request request;
	struct nbd_reply reply = { .magic = htobe32(NBD_REPLY_MAGIC) };
	uint64_t from;
	uint32_t size;
	char *buf;

	while (transfer(nbd.socket, &request, sizeof(request), false)) {
		/* To that there is no answer, nor anybody who reads it. */
		if (be32toh(request.type) == NBD_CMD_DISC)
			break;
		from = be64toh(request.from);
		size = be32toh(request.len);
		buf = calloc(1, size);
		if (from >= NBD_HELD) {
			pattern_fill(buf, size, nbd.seed, from - NBD_HELD, 0);
			nbd.asked = true;
			while (!nbd.answer)
				usleep(500);
		}
		/* A handle, or a cookie in later headers. */
		memcpy((char *)&reply + 8, (char *)&request + 8, 8);
		if (!transfer(nbd.socket, &reply, sizeof(reply), true) ||
		    !transfer(nbd.socket, buf, size, true))
			break;
		free(buf);
	}
	return unused;
}

static void *nbd_do_it(void *fd)
{
	ioctl((int)(intptr_t)fd, NBD_DO_IT);
	return NULL;
}

/*
 * Asynchronously: a read that is waited for has the pages marked as dirty again,
 * under their locks, before their pins go. Those stay until the migration is over.
 */
static void *nbd_read(void *unused)
{
	struct iocb request = {
		.aio_fildes = nbd.dev,
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_buf = (uintptr_t)nbd.to,
		.aio_nbytes = PAGE,
		.aio_offset = NBD_HELD,
	};
	struct iocb *requests[] = { &request };
	aio_context_t context = 0;
	struct io_event event;

	require(!syscall(SYS_io_setup, 1, &context) &&
		syscall(SYS_io_submit, context, 1, requests) == 1,
		"cannot submit: %s", strerror(errno));
	require(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1,
		"no event: %s", strerror(errno));
	nbd.got = event.res;
	syscall(SYS_io_destroy, context);
	return unused;
}

void before_direct(struct scene *s)
{
	pthread_t server, doer;
	int pair[2], control_fd;
	double end;

	control_fd = open("/dev/nbd0", O_RDWR);
	if (control_fd < 0)
		skip("no nbd");
	/* The server finds out by itself that nobody reads. */
	signal(SIGPIPE, SIG_IGN);
	require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "no sockets");
	nbd.socket = pair[1];
	nbd.seed = OTHER_SEED(s);
	nbd.to = s->r.map;
	ioctl(control_fd, NBD_CLEAR_SOCK);
	require(!ioctl(control_fd, NBD_SET_BLKSIZE, 512UL) &&
		!ioctl(control_fd, NBD_SET_SIZE, NBD_SIZE) &&
		!ioctl(control_fd, NBD_SET_SOCK, pair[0]),
		"nbd: %s", strerror(errno));
	require(!pthread_create(&server, NULL, nbd_serve, NULL) &&
		!pthread_create(&doer, NULL, nbd_do_it,
				(void *)(intptr_t)control_fd), "no thread");
	/* It has a size once it is connected. */
	end = now() + AFTER_MS / 1e3;
	while (now() < end) {
		char size[32];

		if (!file_read("/sys/block/nbd0/size", size, sizeof(size)) &&
		    strtoul(size, NULL, 10) && file_exists("/sys/block/nbd0/pid"))
			break;
		usleep(1000);
	}
	nbd.dev = open("/dev/nbd0", O_RDWR | O_DIRECT);
	require(nbd.dev >= 0, "cannot open nbd: %s", strerror(errno));
	s->fd = control_fd;
	require(!pthread_create(&nbd.reader, NULL, nbd_read, NULL),
		"no thread");
	require(wait_true(&nbd.asked, AFTER_MS), "nothing is asked of nbd");
}

void act_direct(struct scene *s)
{
	nbd.answer = true;
	join(nbd.reader, "the read");
	require(nbd.got == (ssize_t)PAGE, "O_DIRECT read %zd", nbd.got);
	s->written = PAGE;
	ioctl(s->fd, NBD_DISCONNECT);
	ioctl(s->fd, NBD_CLEAR_SOCK);
}

/* A pipe has references to the pages; they go when they are read. */
void before_vmsplice(struct scene *s)
{
	struct iovec iov = { s->r.map, 4 * PAGE };
	int fds[2];

	require(!pipe(fds) &&
		vmsplice(fds[1], &iov, 1, 0) == (ssize_t)(4 * PAGE),
		"vmsplice: %s", strerror(errno));
	s->fd = fds[0];
}

void act_vmsplice(struct scene *s)
{
	char buf[4 * PAGE];

	require(transfer(s->fd, buf, sizeof(buf), false), "cannot read it");
	right(!pattern_bad(buf, sizeof(buf), s->r.seed, 0, s->r.period),
	      "the pipe has something else");
}

/* A device that shares memory pins it from the page cache, and writes. */
int udmabuf_of(struct scene *s)
{
	struct udmabuf_create create = {
		.memfd = s->r.fd, .flags = UDMABUF_FLAGS_CLOEXEC,
		.offset = 0, .size = PAGE,
	};
	int dev = open("/dev/udmabuf", O_RDWR);
	int fd;

	if (dev < 0)
		skip("no udmabuf");
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	require(fd >= 0, "udmabuf: %s", strerror(errno));
	close(dev);
	return fd;
}

void udmabuf_write(struct scene *s, int fd)
{
	char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	require(map != MAP_FAILED, "cannot map a udmabuf: %s", strerror(errno));
	pattern_fill(map, PAGE, OTHER_SEED(s), 0, 0);
	munmap(map, PAGE);
	s->written = PAGE;
}

/* A pin takes pages out of movable memory: have that done before. */
void before_udmabuf(struct scene *s)
{
	require(!node_bind(s->from), "cannot stay on the node");
	close(udmabuf_of(s));
	node_unbind();
}

void act_udmabuf(struct scene *s)
{
	int fd = udmabuf_of(s);

	udmabuf_write(s, fd);
	close(fd);
}

/* To another address. */
void remap(struct scene *s)
{
	char *to = mmap(NULL, s->r.size, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(to != MAP_FAILED, "no address");
	to = mremap(s->r.map, s->r.size, s->r.size,
		    MREMAP_MAYMOVE | MREMAP_FIXED, to);
	require(to != MAP_FAILED, "mremap: %s", strerror(errno));
	s->r.map = to;
}

/*
 * A writer on another CPU that never faults: until the flush it may use what
 * its TLB has, and what it writes then must not be lost.
 */
static struct {
	uint64_t *word;
	atomic_bool stop;
	atomic_bool lost;
	atomic_bool renewed;	/* What is stored there may change */
	atomic_ullong count;
	atomic_ullong turns;
	pthread_t thread;
	sigjmp_buf denied;
	int cpu;
} stale;

/* One access each, and no other: what faults is the store. */
static uint64_t load(void)
{
	return __atomic_load_n(stale.word, __ATOMIC_RELAXED);
}

static void store(uint64_t value)
{
	__atomic_store_n(stale.word, value, __ATOMIC_RELAXED);
}

static void *stale_main(void *unused)
{
	uint64_t mine = 0, seen;

	cpu_pin(0, stale.cpu);
	if (sigsetjmp(stale.denied, 1))
		return unused;
	store(0);
	while (!stale.stop) {
		seen = load();
		if (seen != mine) {
			if (!stale.renewed)
				stale.lost = true;
			mine = seen;
		}
		store(++mine);
		stale.count = mine;
		stale.turns++;
	}
	return unused;
}

void before_stale(struct scene *s)
{
	cpu_set_t cpus;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("one CPU only");
	/* Nobody else on its CPU, or its TLB would be flushed for that. */
	stale.cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	CPU_ZERO(&cpus);
	for (int i = 0; i < stale.cpu; i++)
		CPU_SET(i, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	stale.word = (uint64_t *)s->r.map;
	stale.stop = false;
	stale.lost = false;
	stale.renewed = false;
	stale.count = 0;
	require(!pthread_create(&stale.thread, NULL, stale_main, NULL),
		"no thread");
	while (stale.count < 10000)
		usleep(1000);
}

/* The writer is told that it must not write there any more, and ends. */
static void on_denied(int signal)
{
	if (!pthread_equal(pthread_self(), stale.thread))
		abort();
	siglongjmp(stale.denied, signal);
}

void before_denied(struct scene *s)
{
	signal(SIGSEGV, on_denied);
	before_stale(s);
}

void act_stale(struct scene *s)
{
	uint64_t before = stale.count;

	usleep(GRACE_MS * 1000 / 2);
	/*
	 * One that had begun may come to its end. With shared batches it may be another
	 * one that stands here.
	 */
	if (s->mode != MODE_PARALLEL && (BIT(s->window) & W_UNMAPPED))
		s->unlucky = stale.count <= before + 1;
}

void check_stale(struct scene *s)
{
	usleep(20000);
	stale.stop = true;
	join(stale.thread, "the writer");
	right(!stale.lost, "a store is lost");
	right(load() == stale.count, "the last stores are lost");
	right(!pattern_bad(s->r.map + PAGE, s->r.size - PAGE, s->r.seed, PAGE,
			   s->r.period), "what was there is wrong");
}

/*
 * Gives up the page of the writer. From then on it has another one, whatever its
 * TLB says, and loses nothing that it stores there.
 */
void act_renew(struct scene *s)
{
	double end = now() + GRACE_MS / 2e3;
	uint64_t before;

	stale.renewed = true;
	s->gone = PAGE;
	require(!madvise(s->r.map, PAGE, MADV_DONTNEED), "madvise: %s",
		strerror(errno));
	before = stale.turns;
	/* One turn may have begun before. After the flush it may have to wait. */
	while (stale.turns < before + 2 && now() < end)
		usleep(100);
	if (stale.turns >= before + 2)
		stale.renewed = false;
	else if (s->mode != MODE_PARALLEL && (BIT(s->window) & W_UNMAPPED))
		s->unlucky = true;
}

/* Has the writer a stale TLB? Before the flush it should, and goes on. */
static void expect_stale(struct scene *s)
{
	double end = now() + GRACE_MS / 2e3;
	uint64_t before = stale.count;

	while (stale.count < before + 2 && now() < end)
		usleep(100);
	if (s->mode != MODE_PARALLEL && (BIT(s->window) & W_UNMAPPED))
		s->unlucky = stale.count < before + 2;
}

/* From now on the writer may not write. It may not have counted its last store. */
static void expect_denied(void)
{
	uint64_t before = stale.count;

	usleep(GRACE_MS * 1000 / 2);
	right(stale.count <= before + 1, "it writes where it may not");
}

void act_protect(struct scene *s)
{
	expect_stale(s);
	require(!mprotect(s->r.map, PAGE, PROT_READ), "mprotect: %s",
		strerror(errno));
	expect_denied();
}

void act_take_away(struct scene *s)
{
	expect_stale(s);
	s->gone = PAGE;
	require(!munmap(s->r.map, PAGE), "munmap: %s", strerror(errno));
	expect_denied();
}

void act_shift(struct scene *s)
{
	expect_stale(s);
	remap(s);
	expect_denied();
}

void check_denied(struct scene *s)
{
	join(stale.thread, "the writer");
	if (!s->gone)
		right(*(uint64_t *)s->r.map == stale.count,
		      "its last stores are lost");
	right(!pattern_bad(s->r.map + PAGE, s->r.size - PAGE, s->r.seed, PAGE,
			   s->r.period), "what was there is wrong");
}
