// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of every kind: made, verified, moved.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/loop.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "migrate_test.h"

/* Migration is best effort: a page may be busy for a moment, or for longer. */
#define PATIENCE_S	30
#define RETRY_US	20000

#define KSM_PAGES	256
#define KSM_WAIT_MS	60000
#define SWAP_MAGIC	"SWAPSPACE2"
#define SWAP_SIZE	(16384 * PAGE)
#define EXT4_SIZE	(96 * MB)
/* mkfs.xfs refuses less. The image is sparse. */
#define XFS_SIZE	(320 * MB)
#define FROZEN_SIZE	(8 * MB)
#define SPARE_HUGE	2

#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"
#define PCP_FRACTION	"/proc/sys/vm/percpu_pagelist_high_fraction"
#define KSM_DIR		"/sys/kernel/mm/ksm"
#define GROUP_PREFIX	"migrate_copy."

/* A directory of our own; its path is all that the tests' processes share. */
static char base[32];
static pid_t main_pid;

#define MAX_SAVED	64

static struct {
	char path[128];
	char text[64];
} saved[MAX_SAVED];
static unsigned int nr_saved;

/* Remember a setting, so that it can be restored at exit. */
static void save(const char *path)
{
	char text[64], *start, *end;

	if (nr_saved == MAX_SAVED || file_read(path, text, sizeof(text)))
		return;
	/* A choice is shown as "always [madvise] never". */
	start = strchr(text, '[');
	end = strchr(text, ']');
	if (start && end)
		*end = '\0';
	start = start && end ? start + 1 : text;
	snprintf(saved[nr_saved].path, sizeof(saved[0].path), "%s", path);
	snprintf(saved[nr_saved].text, sizeof(saved[0].text), "%s", start);
	nr_saved++;
}

static const char *in_base(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return path;
}

/* Is this directory made and mounted by an earlier test? */
static bool is_mounted(const char *name)
{
	struct stat sb, parent;

	mkdir(in_base(name), 0755);
	require(!stat(base, &parent) && !stat(in_base(name), &sb),
		"no temporary directory");
	return sb.st_dev != parent.st_dev;
}

int swap_off(void)
{
	char text[512], *dev;
	int err;

	err = file_read("/proc/swaps", text, sizeof(text));
	if (err)
		return err;
	dev = strstr(text, "/dev/loop");
	if (!dev)
		return -ENODEV;
	dev[strcspn(dev, " \t")] = '\0';
	return swapoff(dev) ? -errno : 0;
}

const char *cgroup_file(const char *group, const char *name)
{
	static char path[160];

	/* Others have cgroups, too. */
	snprintf(path, sizeof(path), "%s/cgroup/%s%s/%s", base, *group ? GROUP_PREFIX : "",
		 group, name);
	return path;
}

int cgroup_write(const char *group, const char *name, const char *value)
{
	return file_write(cgroup_file(group, name), value);
}

int cgroup_make(const char *group, const char *controllers)
{
	int err;

	if (!is_mounted("cgroup") &&
	    mount("cgroup2", in_base("cgroup"), "cgroup2", 0, NULL))
		return -errno;
	err = cgroup_write("", "cgroup.subtree_control", controllers);
	if (err)
		return err;
	return mkdir(cgroup_file(group, ""), 0755) && errno != EEXIST ? -errno : 0;
}

void cgroups_remove(void)
{
	struct dirent *entry;
	DIR *dir;

	dir = opendir(in_base("cgroup"));
	while (dir && (entry = readdir(dir))) {
		if (!strncmp(entry->d_name, GROUP_PREFIX, strlen(GROUP_PREFIX)))
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
	umount2(in_base("cgroup"), MNT_DETACH);
	rmdir(in_base("cgroup"));
}

static void restore(void)
{
	static const char * const mounts[] = {
		"xfs", "ext4", "tmpfs", "huge", "ram"
	};
	unsigned int i;

	if (getpid() != main_pid)
		return;
	for (i = 0; i < nr_saved; i++)
		file_write(saved[i].path, saved[i].text);
	swap_off();
	cgroups_remove();
	for (i = 0; i < ARRAY_SIZE(mounts); i++) {
		umount2(in_base(mounts[i]), MNT_DETACH);
		rmdir(in_base(mounts[i]));
	}
	rmdir(base);
}

/* The largest THP: that of the page table's second level. */
static size_t thp_largest(void)
{
	uint64_t size;

	return file_read_number(THP_DIR "/hpage_pmd_size", &size) ? 0 : size;
}

static void thp_path(char *path, size_t size, size_t folio)
{
	snprintf(path, size, THP_DIR "/hugepages-%zukB/enabled", folio / KB);
}

void hugetlb_path(char *path, size_t size, size_t folio, int node,
		  const char *name)
{
	snprintf(path, size,
		 "/sys/devices/system/node/node%d/hugepages/hugepages-%zukB/%s",
		 node, folio / KB, name);
}

void test_environment(void)
{
	static const char * const paths[] = {
		KNOB_DIR "/enabled", KNOB_DIR "/max_helpers",
		TEST_DIR "/parallel_batches", TEST_DIR "/chunk_kb",
		KNOB_DIR "/non_temporal", KNOB_DIR "/placement",
		KNOB_DIR "/priority", TEST_DIR "/batch_pages",
		MT_PAGE_COPY, KSM_DIR "/run",
		KSM_DIR "/pages_to_scan", KSM_DIR "/sleep_millisecs",
		PCP_FRACTION, PROACTIVENESS,
	};
	size_t folio, largest = thp_largest();
	char path[128];
	unsigned int i;
	int node;

	main_pid = getpid();
	/* Nothing that is mounted here is seen outside. */
	snprintf(base, sizeof(base), "/tmp/migrate_copy.XXXXXX");
	if (!mkdtemp(base) || unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		ksft_exit_skip("no mounts of our own (not root?): %s\n",
			       strerror(errno));
	if (!file_exists("/sys/kernel/debug/sched"))
		mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (!file_exists(TRACING "/trace"))
		mount("tracefs", TRACING, "tracefs", 0, NULL);
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		save(paths[i]);
	for (folio = 2 * PAGE; folio <= largest; folio *= 2) {
		thp_path(path, sizeof(path), folio);
		save(path);
	}
	for (node = 0; node < 8; node++) {
		hugetlb_path(path, sizeof(path), 2 * MB, node, "nr_hugepages");
		save(path);
	}
	/*
	 * Keep the lists of free pages of each CPU short: what lies there is
	 * neither found by compaction nor handed out to other CPUs.
	 */
	file_write(PCP_FRACTION, "1000");
	/* Nobody else moves anything: a page that is on its way is on no node. */
	file_write(PROACTIVENESS, "0");
	atexit(restore);
}

/* A kernel may lack a file system; one that it has must be mounted. */
static void mount_at(const char *source, const char *type, const char *name,
		     const char *options)
{
	if (!mount(source, in_base(name), type, 0, options))
		return;
	if (errno == ENODEV)
		skip("this kernel has no %s", type);
	die("cannot mount %s: %s", type, strerror(errno));
}

/* Mount a file system that needs no device. */
static void mount_virtual(const char *type, const char *name,
			  const char *options)
{
	if (!is_mounted(name))
		mount_at(type, type, name, options);
}

/* Attach a file to a free loop device, whose name is returned in dev. */
static int loop_attach(int fd, char *dev, size_t dev_size)
{
	struct loop_config config = {
		.fd = fd,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};
	int control, nr, loop;

	control = open("/dev/loop-control", O_RDWR);
	if (control < 0)
		skip("this kernel has no loop devices");
	nr = ioctl(control, LOOP_CTL_GET_FREE);
	require(nr >= 0, "no free loop device: %s", strerror(errno));
	close(control);
	snprintf(dev, dev_size, "/dev/loop%d", nr);
	loop = open(dev, O_RDWR);
	require(loop >= 0 && !ioctl(loop, LOOP_CONFIGURE, &config),
		"cannot use %s: %s", dev, strerror(errno));
	return loop;
}

/*
 * Attach a new file of zeroes to a loop device. It lies on ramfs: it cannot be
 * swapped out, and its pages never stand in the way of memory offlining.
 */
static int loop_make(const char *name, size_t size, char *dev, size_t dev_size)
{
	char file[160];
	int fd, loop;

	mount_virtual("ramfs", "ram", NULL);
	snprintf(file, sizeof(file), "%s/ram/%s", base, name);
	fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
	require(fd >= 0 && !ftruncate(fd, size), "cannot make %s: %s", file,
		strerror(errno));
	loop = loop_attach(fd, dev, dev_size);
	close(fd);
	return loop;
}

/* Run a program, its output on stderr; returns its exit status, 127 if absent. */
static int run_program(char *const argv[])
{
	int status = -1;
	pid_t pid;

	pid = fork();
	if (!pid) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void mount_disk(const char *type, size_t size, const char *force)
{
	char program[32], dev[32];
	char *mkfs[5] = { program, "-q", (char *)force, dev, NULL };
	int loop, code;

	if (is_mounted(type))
		return;
	loop = loop_make(type, size, dev, sizeof(dev));
	snprintf(program, sizeof(program), "mkfs.%s", type);
	code = run_program(mkfs);
	if (code == 127)
		skip("%s is not installed", program);
	require(!code, "%s failed: %d", program, code);
	mount_at(dev, type, type, NULL);
	close(loop);
}

/* Returns the name of the directory. */
static const char *mount_backing(enum backing backing)
{
	switch (backing) {
	case BACK_TMPFS:
		mount_virtual("tmpfs", "tmpfs", "size=256m");
		return "tmpfs";
	case BACK_TMPFS_HUGE:
		mount_virtual("tmpfs", "huge", "size=256m,huge=always");
		return "huge";
	case BACK_EXT4:
		mount_disk("ext4", EXT4_SIZE, "-F");
		return "ext4";
	case BACK_XFS:
		mount_disk("xfs", XFS_SIZE, "-f");
		return "xfs";
	case BACK_RAMFS:
		mount_virtual("ramfs", "ram", NULL);
		return "ram";
	default:
		return NULL;
	}
}

/* A file without a name. */
int file_in(enum backing backing, int flags)
{
	const char *name;
	int fd;

	if (backing == BACK_MEMFD) {
		/* Sealed, as a driver wants it that maps it for a device. */
		fd = memfd_create("migrate_copy", MFD_ALLOW_SEALING);
		require(fd >= 0, "no memfd: %s", strerror(errno));
		return fd;
	}
	name = mount_backing(backing);
	fd = open(in_base(name), O_TMPFILE | O_RDWR | flags, 0600);
	require(fd >= 0, "no file in %s: %s", in_base(name), strerror(errno));
	return fd;
}

/*
 * A loop device on a file of an ext4 file system that is frozen: what is
 * written to it with O_DIRECT is in flight until FITHAW on *thaw.
 */
void frozen_device(int *dev, int *thaw)
{
	int fd, first;
	char loop[32];

	fd = file_in(BACK_EXT4, 0);
	*thaw = open(in_base("ext4"), O_RDONLY | O_DIRECTORY);
	require(*thaw >= 0 && !fallocate(fd, 0, 0, FROZEN_SIZE) && !fsync(fd),
		"no file for a loop device");
	first = loop_attach(fd, loop, sizeof(loop));
	close(fd);
	*dev = open(loop, O_RDWR | O_DIRECT);
	/* The device goes with its last user. */
	close(first);
	require(*dev >= 0 && !ioctl(*thaw, FIFREEZE, 0),
		"cannot freeze a file system: %s", strerror(errno));
}

void thaw_all(void)
{
	int fd;

	fd = open(in_base("ext4"), O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return;
	/* An error says that it is not frozen. */
	ioctl(fd, FITHAW, 0);
	close(fd);
}

/* A file with a pattern, open for O_DIRECT. */
int direct_file(size_t size, uint64_t seed)
{
	void *buf = NULL;
	int fd;

	fd = file_in(BACK_EXT4, O_DIRECT);
	require(!posix_memalign(&buf, PAGE, size), "no memory");
	pattern_fill(buf, size, seed, 0, 0);
	require(pwrite(fd, buf, size, 0) == (ssize_t)size,
		"cannot write with O_DIRECT: %s", strerror(errno));
	free(buf);
	return fd;
}

/* Swap to a loop device. Its header is written here: no mkswap is needed. */
void swap_on(void)
{
	char header[PAGE], dev[32], line[256];
	uint32_t info[3] = { 1, SWAP_SIZE / PAGE - 1, 0 };
	int loop;

	if (access("/proc/swaps", F_OK))
		skip("this kernel cannot swap");
	/* A test before this one has done it. */
	if (!file_read("/proc/swaps", line, sizeof(line)) &&
	    strstr(line, "/dev/loop"))
		return;
	loop = loop_make("swap", SWAP_SIZE, dev, sizeof(dev));
	memset(header, 0, sizeof(header));
	memcpy(header + 1024, info, sizeof(info));
	memcpy(header + PAGE - strlen(SWAP_MAGIC), SWAP_MAGIC,
	       strlen(SWAP_MAGIC));
	require(pwrite(loop, header, sizeof(header), 0) == sizeof(header) &&
		!fsync(loop), "cannot write to %s: %s", dev, strerror(errno));
	if (swapon(dev, 0))
		die("cannot swap to a loop device: %s", strerror(errno));
	close(loop);
}

int pages_pin(char *addr, size_t size, size_t step)
{
	struct io_uring_params params = { 0 };
	size_t nr = size / step, i;
	struct iovec *iov;
	int ring, err;

	ring = syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0)
		skip("no io_uring: %s", strerror(errno));
	iov = calloc(nr, sizeof(*iov));
	for (i = 0; i < nr; i++) {
		iov[i].iov_base = addr + i * step;
		iov[i].iov_len = PAGE;
	}
	err = syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, iov, nr);
	require(!err, "cannot register buffers: %s", strerror(errno));
	free(iov);
	return ring;
}

int pages_splice(char *addr, size_t size, size_t step, int *fds)
{
	struct iovec iov = { .iov_len = PAGE };
	size_t at;

	if (pipe2(fds, O_NONBLOCK) ||
	    fcntl(fds[1], F_SETPIPE_SZ, size / step * PAGE) < 0)
		return -errno;
	for (at = 0; at < size; at += step) {
		iov.iov_base = addr + at;
		if (vmsplice(fds[1], &iov, 1, 0) != (ssize_t)PAGE)
			return -errno;
	}
	return 0;
}

/*
 * In a sparse region about every second folio is there, without a rhythm:
 * compaction looks at every 32nd page only where it has not found any free.
 */
static bool is_there(const struct region *r, size_t folio)
{
	return !r->sparse || ((uint32_t)folio * 0x9e3779b1) >> 31;
}

static size_t folios_there(const struct region *r)
{
	size_t i, n = 0;

	for (i = 0; i < r->size / r->folio; i++)
		n += is_there(r, i);
	return n;
}

size_t region_folios(const struct region *r)
{
	return r->kind->flags & KIND_KSM ? KSM_PAGES : folios_there(r);
}

static bool is_file(const struct region *r)
{
	return r->fd >= 0;
}

/* Map at an address that fits the largest folio. */
static bool map(struct region *r)
{
	size_t align = r->folio > 2 * MB ? r->folio : 2 * MB;
	int prot = PROT_READ | PROT_WRITE;
	int flags = MAP_FIXED;
	char *space, *addr;
	size_t i;

	space = mmap(NULL, r->size + align, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		return false;
	addr = (char *)(((uintptr_t)space + align - 1) & ~(align - 1));

	switch (r->kind->backing) {
	case BACK_ANON:
		flags |= MAP_PRIVATE | MAP_ANONYMOUS;
		break;
	case BACK_HUGETLB:
	case BACK_HUGETLB_SHARED:
		flags |= MAP_ANONYMOUS | MAP_HUGETLB;
		/* A shared one is of a file in hugetlbfs. */
		flags |= r->kind->backing == BACK_HUGETLB ? MAP_PRIVATE :
							    MAP_SHARED;
		/* The logarithm of the size tells which pool. */
		flags |= __builtin_ctzl(r->folio) << MAP_HUGE_SHIFT;
		break;
	case BACK_SHMEM:
		flags |= MAP_SHARED | MAP_ANONYMOUS;
		break;
	default:
		if (r->kind->flags & KIND_READ_ONLY) {
			flags |= MAP_PRIVATE;
			prot = PROT_READ;
		} else {
			flags |= MAP_SHARED;
		}
	}
	addr = mmap(addr, r->size, prot, flags, r->fd, 0);
	if (addr == MAP_FAILED) {
		munmap(space, r->size + align);
		return false;
	}
	r->map = addr;
	/* Of a file, map what is cached; more must not be read in. */
	if (is_file(r)) {
		for (i = 0; i < r->size; i += PAGE) {
			if (is_there(r, i / r->folio))
				touch(r->map + i);
		}
	}
	return true;
}

static void unmap(struct region *r)
{
	/* The rest of the reserved space goes with the process. */
	munmap(r->map, r->size);
	r->map = NULL;
}

void thp_only(size_t folio)
{
	size_t other, largest = thp_largest();
	char path[128];

	thp_path(path, sizeof(path), folio);
	if (folio && !file_exists(path))
		skip("this kernel has no THP of that size");
	for (other = 2 * PAGE; other <= largest; other *= 2) {
		thp_path(path, sizeof(path), other);
		require(!file_exists(path) ||
			!file_write(path, other == folio ? "madvise" : "never"),
			"cannot configure THP");
	}
}

/* The nodes whose pools a test has filled. */
static int pool_nodes[2] = { -1, -1 };

static void hugetlb_pools(const struct kind *kind)
{
	uint64_t want = kind->size / kind->folio + SPARE_HUGE;
	uint64_t nr, unused;
	char path[128];
	int i;

	if (pool_nodes[0] < 0)
		nodes_find(&pool_nodes[0], &pool_nodes[1]);
	for (i = 0; i < 2; i++) {
		hugetlb_path(path, sizeof(path), kind->folio, pool_nodes[i],
			     "free_hugepages");
		if (file_read_number(path, &unused))
			skip("no hugetlb pages of that size");
		/* Gigantic pages are reserved on the kernel command line. */
		if (kind->folio > 2 * MB) {
			if (unused < kind->size / kind->folio)
				skip("no 1 GB page on each node: boot with hugepages=");
			continue;
		}
		if (unused >= want)
			continue;
		hugetlb_path(path, sizeof(path), kind->folio, pool_nodes[i],
			     "nr_hugepages");
		require(!file_read_number(path, &nr), "cannot read %s", path);
		nr += want - unused;
		require(!file_write_number(path, nr) &&
			!file_read_number(path, &unused) && unused >= nr,
			"cannot have %llu pages in %s", (unsigned long long)nr,
			path);
	}
}

static bool write_file(struct region *r)
{
	size_t chunk = r->folio;
	size_t offset;
	char *buf;

	buf = malloc(chunk);
	if (!buf)
		return false;
	for (offset = 0; offset < r->size; offset += chunk) {
		pattern_fill(buf, chunk, r->seed, offset, r->period);
		if (pwrite(r->fd, buf, chunk, offset) != (ssize_t)chunk)
			break;
	}
	free(buf);
	if (r->kind->backing == BACK_MEMFD &&
	    fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return false;
	/* Under writeback a page would be waited for. */
	return offset == r->size && !fsync(r->fd);
}

/* Free the folios that are not to be there. */
static bool punch(struct region *r)
{
	size_t folio = r->folio;
	size_t i;
	int err;

	for (i = 0; i < r->size / folio; i++) {
		if (is_there(r, i))
			continue;
		if (is_file(r))
			err = fallocate(r->fd, FALLOC_FL_PUNCH_HOLE |
					FALLOC_FL_KEEP_SIZE, i * folio, folio);
		else
			err = madvise(r->map + i * folio, folio,
				      r->kind->backing == BACK_SHMEM ?
				      MADV_REMOVE : MADV_DONTNEED);
		if (err)
			return false;
	}
	return true;
}

bool ksm_run(bool on)
{
	return !file_write(KSM_DIR "/sleep_millisecs", "0") &&
	       !file_write(KSM_DIR "/pages_to_scan", "10000") &&
	       !file_write(KSM_DIR "/run", on ? "1" : "0");
}

static bool ksm_merge(struct region *r)
{
	size_t i, wrong = 1;
	int waited;

	if (madvise(r->map, r->size, MADV_MERGEABLE) || !ksm_run(true))
		return false;
	for (waited = 0; wrong && waited < KSM_WAIT_MS; waited += 50) {
		usleep(50000);
		for (i = KSM_PAGES, wrong = 0; i < r->size / PAGE; i++)
			wrong += page_pfn(r->map + i * PAGE) !=
				 page_pfn(r->map + i % KSM_PAGES * PAGE);
	}
	ksm_run(false);
	if (wrong)
		ksft_print_msg("%zu pages are not merged\n", wrong);
	return !wrong;
}

/* Is there time for another try? Waits for it. */
static bool try_again(double start)
{
	usleep(RETRY_US);
	return now() < start + PATIENCE_S;
}

bool swap_out(char *addr, size_t size, int node)
{
	double start = now();
	size_t i, missing;

	do {
		if (madvise(addr, size, MADV_PAGEOUT))
			return false;
		for (i = 0, missing = 0; i < size; i += PAGE)
			missing += !!page_pfn(addr + i);
		/*
		 * What another CPU has not put on the LRU lists yet is left
		 * alone. This moves nothing, but has it do so.
		 */
		if (missing)
			sys_migrate_pages(0, node, node);
	} while (missing && try_again(start));
	return !missing;
}

bool region_swap_out(struct region *r, int node)
{
	return swap_out(r->map, r->size, node);
}

/* Mapped again, but not written to: all of it is in the swap cache still. */
bool region_swap_in(struct region *r)
{
	size_t i, missing;

	for (i = 0, missing = 0; i < r->size; i += PAGE) {
		touch(r->map + i);
		missing += !(pfn_flags(page_pfn(r->map + i)) &
			     KPF_SWAPCACHE);
	}
	if (missing)
		ksft_print_msg("%zu pages are not in the swap cache\n", missing);
	return !missing;
}

/* Another seed for what the child writes. */
#define CHILD_SEED(r)	((r)->seed + 0x1234567)

/* Where the child writes, before it owns everything. */
static bool child_half(const struct region *r, size_t i)
{
	return i >= r->size / r->folio / 2;
}

/*
 * The process that shares the memory of its parent. It writes the second half
 * at once. When asked, it verifies, and then takes the first half too.
 */
static void child_main(struct region *r, int talk)
{
	size_t folio = r->folio;
	char answer = 'r', ask = 0;
	bool own = false;
	size_t i, bad;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	do {
		for (i = 0, bad = 0; i < r->size / folio; i++) {
			char *at = r->map + i * folio;
			bool mine = own || child_half(r, i);

			if (!is_there(r, i))
				continue;
			if (ask)
				bad += pattern_bad(at, folio, mine ?
						   CHILD_SEED(r) : r->seed,
						   i * folio, r->period);
			if (ask ? !mine : mine)
				pattern_fill(at, folio, CHILD_SEED(r),
					     i * folio, r->period);
		}
		if (ask) {
			answer = bad ? 'b' : 'g';
			own = true;
		}
	} while (write(talk, &answer, 1) == 1 && read(talk, &ask, 1) == 1);
	_exit(0);
}

static bool child_start(struct region *r)
{
	int pair[2];
	char answer;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return false;
	r->child = fork();
	if (!r->child) {
		close(pair[0]);
		child_main(r, pair[1]);
	}
	close(pair[1]);
	r->talk = pair[0];
	return r->child > 0 && read(r->talk, &answer, 1) == 1;
}

static bool child_intact(struct region *r)
{
	char ask = 'v', answer = 0;

	if (write(r->talk, &ask, 1) != 1 || read(r->talk, &answer, 1) != 1) {
		ksft_print_msg("the child is gone\n");
		return false;
	}
	if (answer != 'g')
		ksft_print_msg("the child sees wrong data\n");
	return answer == 'g';
}

/* Did the kernel give the folios that are wanted? */
static bool folios_as_wanted(struct region *r)
{
	size_t folio = r->folio;
	size_t i, seen, right = 0, wrong = 0;

	for (i = 0; i < r->size / folio; i++) {
		if (!is_there(r, i))
			continue;
		seen = folio_size_at(r->map + i * folio);
		if (seen == folio)
			right++;
		else if (!wrong++)
			ksft_print_msg("folio %zu has %zu bytes\n", i, seen);
	}
	return right == folios_there(r);
}

static bool populate(struct region *r, int node)
{
	const struct kind *kind = r->kind;

	if (is_file(r)) {
		if (!write_file(r) || !punch(r) || !map(r))
			return false;
	} else {
		if (!map(r))
			return false;
		if (kind->backing == BACK_ANON && r->folio > PAGE)
			madvise(r->map, r->size, MADV_HUGEPAGE);
		pattern_fill(r->map, r->size, r->seed, 0, r->period);
		if (!punch(r))
			return false;
	}
	if (kind->flags & KIND_MLOCK &&
	    syscall(SYS_mlock2, r->map, r->size, 1 /* MLOCK_ONFAULT */))
		return false;
	if (kind->flags & KIND_KSM && !ksm_merge(r))
		return false;
	if (kind->flags & KIND_SWAPCACHE &&
	    !(region_swap_out(r, node) && region_swap_in(r)))
		return false;
	if (!folios_as_wanted(r))
		return false;
	if (kind->flags & KIND_UNMAPPED)
		unmap(r);
	return !(kind->flags & KIND_FORK) || child_start(r);
}

static bool in_pages(const struct kind *kind)
{
	return kind->folio < 4 * KB;
}

/* Can there be folios of that size? Base pages may be as large, or larger. */
static bool possible(const struct kind *kind)
{
	char path[128];

	if (in_pages(kind))
		return kind->folio == 1 || kind->folio * PAGE <= thp_largest();
	thp_path(path, sizeof(path), kind->folio);
	switch (kind->backing) {
	case BACK_ANON:
		return file_exists(path);
	case BACK_TMPFS_HUGE:
		/* It has no folios between base pages and the largest ones. */
		return kind->folio == thp_largest();
	default:
		return kind->folio > PAGE;
	}
}

void region_make(struct region *r, const struct kind *kind, int node,
		 bool sparse)
{
	static uint64_t regions;
	bool ok;

	if (!possible(kind))
		skip("no folios of %zu KB here, with base pages of %zu KB",
		     kind->folio / KB, PAGE / KB);
	memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->folio = in_pages(kind) ? kind->folio * PAGE : kind->folio;
	r->size = sparse ? 2 * kind->size : kind->size;
	r->sparse = sparse;
	r->fd = -1;
	r->talk = -1;
	/*
	 * Each of a process has its own, up to 1,024: KSM would merge two regions of
	 * the same content, and the new one would lie where the old one does. A
	 * process ID has 22 bits.
	 */
	r->seed = ((uint64_t)getpid() << 32) + (regions++ << 54);
	if (kind->flags & KIND_KSM) {
		r->period = KSM_PAGES * PAGE;
		if (!file_exists(KSM_DIR))
			skip("this kernel has no KSM");
	}
	if (kind->flags & KIND_SWAPCACHE)
		swap_on();
	if (kind_is_hugetlb(kind))
		hugetlb_pools(kind);
	else
		thp_only(kind->backing == BACK_ANON && r->folio > PAGE ?
			 r->folio : 0);
	if ((kind->backing >= BACK_TMPFS && kind->backing <= BACK_XFS) ||
	    kind->backing == BACK_MEMFD)
		r->fd = file_in(kind->backing, 0);

	ok = !node_bind(node) && populate(r, node);
	require(ok, "cannot make %s on node %d (last error: %s)", kind->name,
		node, strerror(errno));
	node_unbind();
}

/* The next test shall get pages of its own choice of blocks. */
static void hugetlb_release(void)
{
	char path[128];
	int i;

	for (i = 0; i < 2; i++) {
		hugetlb_path(path, sizeof(path), 2 * MB, pool_nodes[i],
			     "nr_hugepages");
		file_write(path, "0");
	}
}

void region_free(struct region *r)
{
	if (r->child > 0) {
		close(r->talk);
		waitpid(r->child, NULL, 0);
	}
	if (r->map)
		unmap(r);
	if (r->fd >= 0)
		close(r->fd);
	if (r->kind && kind_is_hugetlb(r->kind))
		hugetlb_release();
	memset(r, 0, sizeof(*r));
	r->fd = -1;
}

static bool file_intact(struct region *r)
{
	size_t folio = r->folio;
	size_t i, bad = 0;
	char *buf;

	buf = malloc(folio);
	if (!buf)
		return false;
	for (i = 0; i < r->size / folio; i++) {
		if (!is_there(r, i))
			continue;
		if (pread(r->fd, buf, folio, i * folio) != (ssize_t)folio)
			bad++;
		bad += pattern_bad(buf, folio, r->seed, i * folio, r->period);
	}
	free(buf);
	if (bad)
		ksft_print_msg("%zu words read from the file are wrong\n", bad);
	return !bad;
}

bool region_intact(struct region *r)
{
	size_t folio = r->folio;
	size_t i, bad = 0;

	if (is_file(r) && !file_intact(r))
		return false;
	if (r->child && !child_intact(r))
		return false;
	for (i = 0; r->map && i < r->size / folio; i++) {
		if (is_there(r, i))
			bad += pattern_bad(r->map + i * folio, folio, r->seed,
					   i * folio, r->period);
	}
	if (bad)
		ksft_print_msg("%zu words are wrong\n", bad);
	return !bad;
}

bool region_on_node(struct region *r, int node)
{
	size_t folio = r->folio;
	size_t i, bad = 0;

	if (!r->sparse)
		return !pages_elsewhere(r->map, r->size, PAGE, node);
	for (i = 0; i < r->size / folio; i++) {
		if (is_there(r, i))
			bad += pages_elsewhere(r->map + i * folio, folio, PAGE,
					       node);
	}
	return !bad;
}

size_t region_pfns(struct region *r, uint64_t *pfns)
{
	bool unmapped = !r->map;
	size_t i, n = 0;

	if (unmapped && !map(r))
		die("cannot map the file again");
	for (i = 0; i < r->size / r->folio; i++) {
		if (is_there(r, i))
			pfns[n++] = page_pfn(r->map + i * r->folio);
	}
	if (unmapped)
		unmap(r);
	return n;
}

static int move_flag(const struct region *r)
{
	return r->kind->flags & (KIND_SHARED | KIND_FORK | KIND_KSM) ?
	       MPOL_MF_MOVE_ALL : MPOL_MF_MOVE;
}

/* The addresses in steps of so many bytes; of pages elsewhere, if asked. */
static size_t addresses(const struct region *r, size_t step, void **pages,
			int elsewhere_than)
{
	size_t offset, n = 0;

	for (offset = 0; offset < r->size; offset += step) {
		void *page = r->map + offset;
		int node = elsewhere_than < 0 ? -1 : page_node(page);

		if (elsewhere_than < 0 || (node >= 0 && node != elsewhere_than))
			pages[n++] = page;
	}
	return n;
}

/*
 * Names each folio once. The kernel may split a folio, move some of its pieces,
 * and leave others: a repetition names every page that is still elsewhere. Linux
 * 6.12 itself splits anonymous folios that no PMD maps when they move again.
 */
static void print_left(long left, size_t n, const int *status, int to, size_t calls)
{
	int err = left < 0 ? errno : 0;
	size_t i;

	ksft_print_msg("move_pages: %ld of %zu left after %zu calls, errno %d\n",
		       left, n, calls, err);
	for (i = 0; i < n; i++) {
		if (status[i] != to) {
			ksft_print_msg("the first: status %d\n", status[i]);
			break;
		}
	}
}

int region_move_pages(struct region *r, int from, int to)
{
	size_t step = kind_is_hugetlb(r->kind) ? r->folio : PAGE;
	size_t most = r->size / step;
	long left = -1;
	void **pages;
	int *nodes, *status;
	double start = now();
	size_t i, n, calls = 0;

	pages = calloc(most, sizeof(*pages));
	nodes = calloc(most, sizeof(*nodes));
	status = calloc(most, sizeof(*status));
	for (i = 0; i < most; i++)
		nodes[i] = to;
	n = addresses(r, r->folio, pages, -1);
	for (;;) {
		/* No node: what gets no status has not moved. */
		for (i = 0; i < n; i++)
			status[i] = -1;
		left = sys_move_pages(0, n, pages, nodes, status, move_flag(r));
		for (i = 0; !left && i < n; i++)
			left += status[i] != to;
		/* The pieces of a folio that was split by an earlier move. */
		if (!left && step < r->folio)
			left = addresses(r, step, pages, to);
		calls++;
		if (!left || !try_again(start))
			break;
		n = addresses(r, step, pages, to);
		if (!n) {
			left = 0;
			break;
		}
	}
	if (left)
		print_left(left, n, status, to, calls);
	free(pages);
	free(nodes);
	free(status);
	return left ? -1 : 0;
}

int region_mbind(struct region *r, int from, int to)
{
	double start = now();
	int err;

	do {
		err = sys_mbind(r->map, r->size, MPOL_BIND, to,
				move_flag(r) | MPOL_MF_STRICT);
	} while (err && try_again(start));
	if (err)
		ksft_print_msg("mbind: %s\n", strerror(errno));
	return err;
}

int region_migrate_pages(struct region *r, int from, int to)
{
	double start = now();
	int left;

	/*
	 * Pages of the process that cannot be moved at all are counted as well: on
	 * Linux 7.3 one that the kernel has mapped there itself.
	 */
	do {
		left = sys_migrate_pages(0, from, to);
	} while (left && (left < 0 || !region_on_node(r, to)) && try_again(start));
	if (!left || (left > 0 && region_on_node(r, to)))
		return 0;
	ksft_print_msg("migrate_pages: %d left, errno %d\n", left,
		       left < 0 ? errno : 0);
	return -1;
}

/* One node, or two. */
static int cpuset_mems(int node, int other)
{
	char text[32];

	snprintf(text, sizeof(text), "%d,%d", node, other);
	return cgroup_write("test", "cpuset.mems", text);
}

int cpuset_enter(int node)
{
	return cgroup_make("test", "+cpuset") ?: cpuset_mems(node, node) ?:
	       cgroup_write("test", "cgroup.procs", "0");
}

/*
 * A process in a cpuset follows the cpuset's memory nodes, when they change: with
 * both of them nothing moves, but then what was left behind.
 */
int region_cpuset(struct region *r, int from, int to)
{
	static bool inside;
	double start = now();
	int err;

	err = inside ? 0 : cpuset_enter(from);
	inside = true;
	err = err ?: cpuset_mems(to, to);
	while (!err && !region_on_node(r, to) && try_again(start)) {
		err = cpuset_mems(from, to);
		err = err ?: cpuset_mems(to, to);
	}
	if (err)
		ksft_print_msg("cpuset: %s\n", strerror(-err));
	return err ? -1 : 0;
}
