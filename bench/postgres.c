// SPDX-License-Identifier: GPL-2.0-only
/*
 * PostgreSQL, and how it is spoken to: version 3 of its protocol, with statements that
 * a connection prepares once, and values as they are.
 *
 * All values are in its shared buffers, which each process of it maps as soon as it
 * has used them: a connection has a process, and each of these has used all. Whose
 * memory is moved is the first of them. A row has a page of its own with room for its
 * next version, so that the table does not grow. The table is not logged: a log would
 * only fill the memory of a guest without disks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workbench.h"

#define PROGRAMS	"/usr/lib/postgresql/*/bin/"
#define DATA		POSTGRES_DIR "/data"
#define USERS		"/etc/passwd"

/* What is not for values: its other shared memory, and the index. */
#define MORE_MB		64
/* A value, the next version of it, and what a row has besides. */
#define ROW_BYTES	8192
#define LEAST_BYTES	2800
#define MOST_BYTES	4000

#define BUFFER		4096
/* It has so many seconds for what is not measured. */
#define ANSWER_S	30

static char program[PATH_MAX], make_data[PATH_MAX], buffers[64], huge_pages[32];

static char *const make_argv[] = {
	make_data, "--pgdata=" DATA, "--username=postgres", "--auth=trust", "--no-sync",
	"--no-locale", "--encoding=SQL_ASCII", "--wal-segsize=1", "--no-instructions", NULL,
};

static char *const argv[] = {
	program, "-D", DATA, "-c", "listen_addresses=",
	"-c", "unix_socket_directories=" POSTGRES_DIR, "-c", buffers,
	/* What is written to files takes the memory of the guest, and is not asked for. */
	"-c", "fsync=off", "-c", "wal_level=minimal", "-c", "max_wal_senders=0",
	"-c", "autovacuum=off", "-c", "checkpoint_timeout=1d", "-c", "bgwriter_lru_maxpages=0",
	"-c", "dynamic_shared_memory_type=mmap", "-c", "jit=off", "-c", huge_pages,
	/* A process that shares a scan with others would not map all of it. */
	"-c", "max_parallel_workers_per_gather=0", "-c", "log_min_messages=warning", NULL,
};

static bool find_program(const char *name, char *path)
{
	char pattern[sizeof(PROGRAMS) + 32];
	glob_t found;
	bool good;

	snprintf(pattern, sizeof(pattern), PROGRAMS "%s", name);
	good = glob(pattern, 0, NULL, &found) == 0;
	if (good)
		snprintf(path, PATH_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
	else
		fail("there is no %s", pattern);
	globfree(&found);
	return good;
}

/* It asks who it is. */
static bool have_user(void)
{
	FILE *file;

	if (access(USERS, F_OK) == 0)
		return true;
	mkdir("/etc", 0755);
	file = fopen(USERS, "w");
	if (!file || fprintf(file, "nobody:x:%d:%d:nobody:/tmp:/bin/sh\n", NOBODY, NOBODY) < 0 ||
	    fclose(file))
		fail("cannot write " USERS ": %s", strerror(errno));
	return !failed();
}

/* As many on either node as its memory needs, which then goes from one to the other. */
static bool reserve_memory(const struct cell *cell, unsigned long mb)
{
	unsigned long folios = (mb + MORE_MB) / (HUGE_SIZE >> 20);

	snprintf(huge_pages, sizeof(huge_pages), "huge_pages=%s", cell->huge ? "on" : "off");
	return !cell->huge || (reserve_hugetlb(HUGE_SIZE >> 10, folios, cell->from) &&
			       reserve_hugetlb(HUGE_SIZE >> 10, folios, cell->to));
}

static bool prepare(const struct cell *cell)
{
	unsigned long mb = cell->mb * ROW_BYTES / cell->value_bytes + MORE_MB;
	pid_t pid;
	int status;

	if (cell->value_bytes < LEAST_BYTES || cell->value_bytes > MOST_BYTES) {
		fail("a value has %d to %d bytes", LEAST_BYTES, MOST_BYTES);
		return false;
	}
	if (!find_program("postgres", program) || !find_program("initdb", make_data) ||
	    !have_user() || !reserve_memory(cell, mb))
		return false;
	snprintf(buffers, sizeof(buffers), "shared_buffers=%luMB", mb);
	if (access(DATA, F_OK) == 0)
		return true;
	mkdir(POSTGRES_DIR, 0700);
	if (chown(POSTGRES_DIR, NOBODY, NOBODY) < 0) {
		fail("cannot make " POSTGRES_DIR ": %s", strerror(errno));
		return false;
	}
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(127);
		execv(make_argv[0], make_argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		fail("%s failed", make_data);
		return false;
	}
	return true;
}

/* --- messages: a letter, the length of what follows with that of itself, and that --- */

struct message {
	char *text;
	size_t length, begin;
};

static void add_bytes(struct message *m, const void *bytes, size_t length)
{
	memcpy(m->text + m->length, bytes, length);
	m->length += length;
}

static void add_string(struct message *m, const char *string)
{
	add_bytes(m, string, strlen(string) + 1);
}

static void add_16(struct message *m, uint16_t number)
{
	number = htons(number);
	add_bytes(m, &number, sizeof(number));
}

static void add_32(struct message *m, uint32_t number)
{
	number = htonl(number);
	add_bytes(m, &number, sizeof(number));
}

static void begin(struct message *m, char letter)
{
	add_bytes(m, &letter, 1);
	m->begin = m->length;
	add_32(m, 0);
}

static void end(struct message *m)
{
	uint32_t length = htonl(m->length - m->begin);

	memcpy(m->text + m->begin, &length, sizeof(length));
}

static void add_value(struct message *m, const char *value, size_t length)
{
	add_32(m, length);
	add_bytes(m, value, length);
}

/* Runs a prepared statement with a key and perhaps a value. */
static size_t call(char *text, const char *statement, const char *key, const char *value,
		   size_t length)
{
	struct message m = { .text = text };

	begin(&m, 'B');
	add_string(&m, "");
	add_string(&m, statement);
	add_16(&m, 1);		/* One format for all: */
	add_16(&m, 1);		/* as it is */
	add_16(&m, value ? 2 : 1);
	add_value(&m, key, KEY_CHARS);
	if (value)
		add_value(&m, value, length);
	add_16(&m, 1);
	add_16(&m, 1);
	end(&m);
	begin(&m, 'E');
	add_string(&m, "");
	add_32(&m, 0);		/* All rows */
	end(&m);
	begin(&m, 'S');
	end(&m);
	return m.length;
}

static size_t set(char *text, const char *key, const char *value, size_t length)
{
	return call(text, "set", key, value, length);
}

static size_t get(char *text, const char *key)
{
	return call(text, "get", key, NULL, 0);
}

#define BOUND	"2\0\0\0\4"
#define READY	"Z\0\0\0\5I"

static size_t head(char *text, const char *key, size_t length)
{
	struct message m = { .text = text };

	(void)key;
	add_bytes(&m, BOUND, sizeof(BOUND) - 1);
	begin(&m, 'D');
	add_16(&m, 1);
	add_32(&m, length);
	m.length += length;
	end(&m);
	return m.length - length;
}

/* --- what a connection begins with, one message after the other --- */

/* Sends a message, and reads answers until all is done; notes which process answers. */
static bool ask(int fd, const struct message *m, pid_t *pid)
{
	char answer[BUFFER], letter;
	bool good = send(fd, m->text, m->length, MSG_NOSIGNAL) == (ssize_t)m->length;
	uint32_t length, number;

	do {
		if (!read_all(fd, &letter, 1) ||
		    !read_all(fd, &length, sizeof(length)))
			return false;
		length = ntohl(length) - sizeof(length);
		if (length >= sizeof(answer) || !read_all(fd, answer, length))
			return false;
		if (letter == 'K') {
			memcpy(&number, answer, sizeof(number));
			*pid = ntohl(number);
		}
		/* It also tells what is wrong on stderr. */
		if (letter == 'E')
			return false;
	} while (letter != 'Z');
	return good;
}

static bool query(int fd, const char *text)
{
	char buffer[BUFFER];
	struct message m = { .text = buffer };

	begin(&m, 'Q');
	add_string(&m, text);
	end(&m);
	return ask(fd, &m, NULL);
}

static void prepare_statement(struct message *m, const char *name, const char *text)
{
	begin(m, 'P');
	add_string(m, name);
	add_string(m, text);
	add_16(m, 0);
	end(m);
}

static bool greet(int fd, pid_t *pid)
{
	struct timeval most = { .tv_sec = ANSWER_S };
	char buffer[BUFFER];
	struct message m = { .text = buffer };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	add_32(&m, 0);
	add_32(&m, 3 << 16);	/* The version */
	add_string(&m, "user");
	add_string(&m, "postgres");
	add_string(&m, "");
	end(&m);
	if (!ask(fd, &m, pid) ||
	    !query(fd, "SET client_min_messages = error;"
		   "CREATE UNLOGGED TABLE IF NOT EXISTS pairs (k text PRIMARY KEY, v bytea) "
		   "WITH (fillfactor = 50);"
		   "ALTER TABLE pairs ALTER v SET STORAGE PLAIN"))
		return false;
	m.length = 0;
	prepare_statement(&m, "get", "SELECT v FROM pairs WHERE k = $1");
	prepare_statement(&m, "set", "INSERT INTO pairs VALUES ($1, $2) "
			  "ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v");
	begin(&m, 'S');
	end(&m);
	return ask(fd, &m, NULL);
}

static bool use_all(int fd)
{
	return query(fd, "SELECT sum(length(v)) FROM pairs");
}

const struct service postgres = {
	.name = "postgres",
	.loader = &by_requests,
	.prepare = prepare,
	.program = program,
	.argv = argv,
	.socket = POSTGRES_DIR "/.s.PGSQL.5432",
	.as_nobody = true,
	.with_huge = true,
	.shared = true,
	.greet = greet,
	.use_all = use_all,
	.set = set,
	.get = get,
	.head = head,
	.tail = ANSWER("C\0\0\0\15SELECT 1\0" READY),
	.stored = ANSWER(BOUND "C\0\0\0\17INSERT 0 1\0" READY),
};
