// SPDX-License-Identifier: GPL-2.0-only
/*
 * Servers, and their languages.
 *
 * Debian's redis-server is a link to a program of the package redis-tools, which
 * starts no service where it is installed: its name decides what it is.
 */
#include <stdio.h>
#include <string.h>

#include "job.h"

#define SOCKET	"/tmp/workbench.sock"

/* Puts a value behind the head of a request; returns the length of that. */
static size_t add_value(char *text, size_t head, const char *value, size_t length)
{
	memcpy(text + head, value, length);
	memcpy(text + head + length, "\r\n", 2);
	return head + length + 2;
}

static size_t redis_set(char *text, const char *key, const char *value, size_t length)
{
	int head = sprintf(text, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n", KEY_CHARS, key, length);

	return add_value(text, head, value, length);
}

static size_t redis_get(char *text, const char *key)
{
	return sprintf(text, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", KEY_CHARS, key);
}

static size_t redis_head(char *text, const char *key, size_t length)
{
	(void)key;
	return sprintf(text, "$%zu\r\n", length);
}

static char *const redis_argv[] = {
	"redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--appendonly", "no",
	"--loglevel", "warning", NULL,
};

static const struct service redis = {
	.name = "redis",
	.loader = &by_requests,
	.program = "/usr/bin/redis-check-rdb",
	.argv = redis_argv,
	.socket = SOCKET,
	.set = redis_set,
	.get = redis_get,
	.head = redis_head,
	.tail = ANSWER("\r\n"),
	.stored = ANSWER("+OK\r\n"),
};

static size_t memcached_set(char *text, const char *key, const char *value, size_t length)
{
	int head = sprintf(text, "set %s 0 0 %zu\r\n", key, length);

	return add_value(text, head, value, length);
}

static size_t memcached_get(char *text, const char *key)
{
	return sprintf(text, "get %s\r\n", key);
}

static size_t memcached_head(char *text, const char *key, size_t length)
{
	return sprintf(text, "VALUE %s 0 %zu\r\n", key, length);
}

static char *const memcached_argv[] = {
	"memcached", "-s", SOCKET, "-m", "2048", "-t", "2", NULL,
};

static const struct service memcached = {
	.name = "memcached",
	.loader = &by_requests,
	.program = "/usr/bin/memcached",
	.argv = memcached_argv,
	.socket = SOCKET,
	/* For root it looks for a user's name, and a guest has no list of users. */
	.as_nobody = true,
	.set = memcached_set,
	.get = memcached_get,
	.head = memcached_head,
	.tail = ANSWER("\r\nEND\r\n"),
	.stored = ANSWER("STORED\r\n"),
};

static const struct service threads = {
	.name = "threads", .loader = &by_threads, .job = &touch_pages,
};
static const struct service gups = {
	.name = "gups", .loader = &by_threads, .job = &update_words,
};
static const struct service bfs = {
	.name = "bfs", .loader = &by_threads, .job = &search_graph,
};

const struct service *find_service(const char *name)
{
	static const struct service *const services[] = {
		&redis, &memcached, &postgres, &threads, &gups, &bfs,
	};

	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (!strcmp(services[i]->name, name))
			return services[i];
	return NULL;
}
