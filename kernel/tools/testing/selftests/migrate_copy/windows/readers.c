// SPDX-License-Identifier: GPL-2.0-only
/*
 * Those who read it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/uio.h>

#include "windows.h"

void act_read(struct scene *s)
{
	char *buf = malloc(s->r.size);
	ssize_t n = pread(s->r.fd, buf, s->r.size, 0);

	require(n == (ssize_t)s->r.size, "read: %zd", n);
	right(!pattern_bad(buf, s->r.size, s->r.seed, 0, s->r.period),
	      "a read has seen something else");
	free(buf);
}

#define READAHEAD	(64 * KB)

/* How many pages of the second half are cached. */
static size_t cached(struct scene *s)
{
	size_t half = s->r.size / 2, n = 0, i;
	unsigned char there[half / PAGE];

	require(!mincore(s->r.map + half, half, there), "mincore: %s",
		strerror(errno));
	for (i = 0; i < half / PAGE; i++)
		n += there[i] & 1;
	return n;
}

/* The second half has to be read again, while the first one moves. */
void before_readahead(struct scene *s)
{
	size_t half = s->r.size / 2;

	s->absent = half;
	require(!madvise(s->r.map + half, half, MADV_DONTNEED) &&
		!posix_fadvise(s->r.fd, half, half, POSIX_FADV_DONTNEED),
		"cannot drop the second half");
	require(!cached(s), "the second half is cached still");
}

void act_readahead(struct scene *s)
{
	double end = now() + GATE_MS / 2e3;
	size_t i;

	/* Of all of it at once, only the beginning would be read. */
	for (i = 0; i < s->r.size; i += 2 * READAHEAD) {
		require(!posix_fadvise(s->r.fd, i, READAHEAD,
				       POSIX_FADV_WILLNEED) &&
			!readahead(s->r.fd, i + READAHEAD, READAHEAD),
			"readahead: %s", strerror(errno));
	}
	while (cached(s) < s->r.size / 2 / PAGE && now() < end)
		usleep(1000);
	require(cached(s) == s->r.size / 2 / PAGE, "it is not read ahead");
	act_read(s);
}

void before_fault(struct scene *s)
{
	s->map = mmap(NULL, s->r.size, PROT_READ, MAP_SHARED, s->r.fd, 0);
	require(s->map != MAP_FAILED, "cannot map it twice");
}

void act_fault(struct scene *s)
{
	right(!pattern_bad(s->map, s->r.size, s->r.seed, 0, s->r.period),
	      "a fault has found something else");
}

void act_write_file(struct scene *s)
{
	char *buf = malloc(s->r.folio);

	pattern_fill(buf, s->r.folio, OTHER_SEED(s), 0, 0);
	require(pwrite(s->r.fd, buf, s->r.folio, 0) == (ssize_t)s->r.folio,
		"write: %s", strerror(errno));
	s->written = s->r.folio;
	free(buf);
}

void check_file(struct scene *s)
{
	char *buf = malloc(s->r.size);

	check_content(s);
	require(pread(s->r.fd, buf, s->r.size, 0) == (ssize_t)s->r.size,
		"read: %s", strerror(errno));
	right(!memcmp(buf, s->r.map, s->r.size),
	      "the file is not what is mapped");
	free(buf);
}

/* A call has a reference to each page that it reads, up to 1024 of them: few at a time. */
void act_process_read(struct scene *s)
{
	size_t size = s->r.size, part = PAGE * SOME_STAY / 2, done;
	char *buf = malloc(size);

	for (done = 0; done < size; done += part) {
		size_t len = size - done < part ? size - done : part;
		struct iovec from = { s->r.map + done, len };
		struct iovec to = { buf + done, len };

		require(process_vm_readv(getpid(), &to, 1, &from, 1, 0) ==
			(ssize_t)len, "process_vm_readv: %s",
			strerror(errno));
	}
	right(!pattern_bad(buf, size, s->r.seed, 0, s->r.period),
	      "process_vm_readv has seen something else");
	free(buf);
}
