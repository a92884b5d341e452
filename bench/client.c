// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client with several connections, which sends requests to get and to set values
 * and looks at each answer.
 *
 * In a closed loop each connection has one request at a time. In an open loop requests
 * are due at fixed times, whatever became of those before: a request that waits in the
 * client because the server stands still has waited since it was due.
 *
 * A connection has keys of its own, so that its answers can only have the last value
 * that it sent. Each word of a value depends on its key, on how often that was set,
 * and on its place.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "workbench.h"

#define MAX_CONNECTIONS	64
/* Requests of a connection that have no answer yet. */
#define MAX_PENDING	1024
/* While the server is filled, so many are enough to keep it busy. */
#define FILL_PENDING	16
#define HEAD_CHARS	128

struct pending {
	uint64_t due_ns;
	uint32_t key;
	uint32_t version;	/* of the value that a get must find */
	bool set;
};

struct connection {
	int fd;
	unsigned int number;
	struct pending pending[MAX_PENDING];
	unsigned int first, nr_pending;
	char *out, *in;
	size_t out_at, out_end, in_end;
	uint64_t seed;
};

static struct {
	const struct cell *cell;
	struct connection connections[MAX_CONNECTIONS];
	uint32_t *versions;
	uint64_t *weights;		/* of zipfian keys, by rank; else NULL */
	char *value, *expected;
	uint32_t nr_keys;
	size_t out_room, in_room;
	uint64_t next_due_ns, period_ns;
	unsigned int turn;
	struct load load;
	pthread_t thread;
	clockid_t clock;
	bool running;
	volatile bool enough;
} client;

/* Words that differ from those of all other keys and versions, one after the other. */
static void make_value(char *value, uint32_t key, uint32_t version)
{
	uint64_t word = mix((uint64_t)key << 32 | version), *words = (uint64_t *)value;

	for (size_t i = 0; i < client.cell->value_bytes / sizeof(word); i++)
		words[i] = word + i * 0x9e3779b97f4a7c15ULL;
}

static void name_key(char *key, uint32_t number)
{
	snprintf(key, KEY_CHARS + 1, "key:%08u", number);
}

static void send_request(struct connection *c, uint32_t key, bool set, uint64_t due_ns)
{
	const struct service *service = client.cell->service;
	struct pending *pending = &c->pending[(c->first + c->nr_pending++) % MAX_PENDING];
	char name[KEY_CHARS + 1];

	if (c->out_at == c->out_end)
		c->out_at = c->out_end = 0;
	name_key(name, key);
	if (set) {
		make_value(client.value, key, ++client.versions[key]);
		c->out_end += service->set(c->out + c->out_end, name, client.value,
					   client.cell->value_bytes);
	} else {
		c->out_end += service->get(c->out + c->out_end, name);
	}
	*pending = (struct pending) { due_ns, key, client.versions[key], set };
}

/* Whether there is room for one more request. */
static bool has_room(struct connection *c, unsigned int most)
{
	size_t needed = client.cell->value_bytes + HEAD_CHARS;

	if (c->nr_pending >= most)
		return false;
	if (client.out_room - c->out_end < needed && c->out_at) {
		memmove(c->out, c->out + c->out_at, c->out_end - c->out_at);
		c->out_end -= c->out_at;
		c->out_at = 0;
	}
	return client.out_room - c->out_end >= needed;
}

static bool flush(struct connection *c)
{
	while (c->out_at < c->out_end) {
		ssize_t sent = send(c->fd, c->out + c->out_at, c->out_end - c->out_at,
				    MSG_NOSIGNAL);

		if (sent < 0 && errno == EAGAIN)
			return true;
		if (sent <= 0) {
			fail("the server does not listen: %s", strerror(errno));
			return false;
		}
		c->out_at += sent;
	}
	return true;
}

/* Has client.expected be the answer that is due; returns its length. */
static size_t expect(const struct pending *pending)
{
	const struct service *service = client.cell->service;
	char key[KEY_CHARS + 1];
	size_t length, head;

	if (pending->set) {
		memcpy(client.expected, service->stored.text, service->stored.length);
		return service->stored.length;
	}
	name_key(key, pending->key);
	length = client.cell->value_bytes;
	head = service->head(client.expected, key, length);
	make_value(client.value, pending->key, pending->version);
	memcpy(client.expected + head, client.value, length);
	memcpy(client.expected + head + length, service->tail.text, service->tail.length);
	return head + length + service->tail.length;
}

/* The letters of a message, which may have any bytes. */
static const char *printable(const char *text, size_t length)
{
	static char shown[128];
	size_t i;

	for (i = 0; i < length && i < sizeof(shown) - 1; i++)
		shown[i] = isprint((unsigned char)text[i]) ? text[i] : '.';
	shown[i] = '\0';
	return shown;
}

/* Looks at all answers that have come whole. After a wrong one nothing can be told any more. */
static bool take_answers(struct connection *c, bool noted)
{
	ssize_t got = read(c->fd, c->in + c->in_end, client.in_room - c->in_end);
	uint64_t now = now_ns();
	size_t at = 0;

	if (got < 0 && errno == EAGAIN)
		return true;
	if (got <= 0) {
		fail("the server has ended");
		return false;
	}
	c->in_end += got;
	while (c->nr_pending) {
		struct pending *pending = &c->pending[c->first];
		size_t length, come = c->in_end - at;

		if (!come)
			break;
		length = expect(pending);
		/* A wrong answer may be shorter, and nothing would come behind it. */
		if (memcmp(c->in + at, client.expected, come < length ? come : length)) {
			client.load.wrong++;
			fail("a wrong answer for key %u: %s", pending->key,
			     printable(c->in + at, come));
			return false;
		}
		if (come < length)
			break;
		client.load.checked += pending->set ? 0 : client.cell->value_bytes;
		if (noted && !add_request(&client.load, pending->due_ns, now))
			fail("out of memory");
		at += length;
		c->first = (c->first + 1) % MAX_PENDING;
		c->nr_pending--;
	}
	memmove(c->in, c->in + at, c->in_end - at);
	c->in_end -= at;
	return !failed();
}

/* The weight of a rank is one by its number: sums of those of all ranks up to each. */
static bool weigh_ranks(uint32_t nr)
{
	uint64_t sum = 0;

	client.weights = malloc(nr * sizeof(*client.weights));
	for (uint32_t i = 0; client.weights && i < nr; i++)
		client.weights[i] = sum += (1ULL << 40) / (i + 1);
	return client.weights;
}

static uint32_t next_rank(struct connection *c, uint32_t nr)
{
	uint64_t weight = next_random(&c->seed) % client.weights[nr - 1];
	uint32_t first = 0, last = nr - 1;

	while (first < last) {
		uint32_t middle = (first + last) / 2;

		if (client.weights[middle] <= weight)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

static uint32_t next_key(struct connection *c)
{
	unsigned int step = client.cell->connections;
	uint32_t nr = client.nr_keys / step, at;

	/* By a prime number: keys that are asked for often are everywhere in the memory. */
	if (client.weights)
		at = next_rank(c, nr) * 2654435761ULL % nr;
	else
		at = next_random(&c->seed) % nr;
	return at * step + c->number;
}

static void send_any(struct connection *c, uint64_t due_ns)
{
	uint32_t key = next_key(c);

	send_request(c, key, (c->seed >> 40) % 100 < client.cell->sets, due_ns);
}

/* Sends what is due; returns the time until more will be, none in a closed loop. */
static uint64_t send_due(uint64_t now)
{
	if (!client.period_ns) {
		for (unsigned int i = 0; i < client.cell->connections; i++)
			if (!client.connections[i].nr_pending)
				send_any(&client.connections[i], now);
		return UINT64_MAX;
	}
	while (client.next_due_ns <= now) {
		struct connection *c = &client.connections[client.turn];

		if (!has_room(c, MAX_PENDING))
			return UINT64_MAX;
		send_any(c, client.next_due_ns);
		client.next_due_ns += client.period_ns;
		client.turn = (client.turn + 1) % client.cell->connections;
	}
	return client.next_due_ns - now;
}

/* Sends what is ready, and waits for answers. */
static bool exchange(uint64_t most_ns, bool noted)
{
	struct timespec time = { most_ns / 1000000000, most_ns % 1000000000 };
	struct pollfd fds[MAX_CONNECTIONS];
	unsigned int nr = client.cell->connections;

	for (unsigned int i = 0; i < nr; i++) {
		struct connection *c = &client.connections[i];

		if (!flush(c))
			return false;
		fds[i] = (struct pollfd) { c->fd, POLLIN, 0 };
		if (c->out_at < c->out_end)
			fds[i].events |= POLLOUT;
	}
	if (ppoll(fds, nr, most_ns == UINT64_MAX ? NULL : &time, NULL) < 0 && errno != EINTR) {
		fail("ppoll: %s", strerror(errno));
		return false;
	}
	for (unsigned int i = 0; i < nr; i++)
		if (fds[i].revents & (POLLIN | POLLHUP | POLLERR) &&
		    !take_answers(&client.connections[i], noted))
			return false;
	return true;
}

static unsigned int nr_pending(void)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < client.cell->connections; i++)
		sum += client.connections[i].nr_pending;
	return sum;
}

/* Until somebody says that it is enough, and everything has been answered. */
static void *serve(void *unused)
{
	(void)unused;
	/* Else a sleep may last 50 us longer than it should. */
	prctl(PR_SET_TIMERSLACK, 1);
	client.next_due_ns = now_ns();
	while (!failed() && (!client.enough || nr_pending())) {
		uint64_t most = client.enough ? UINT64_MAX : send_due(now_ns());

		if (!exchange(most, true))
			break;
	}
	return NULL;
}

static bool prepare_service(const struct cell *cell)
{
	unlink(cell->service->socket);
	return !cell->service->prepare || cell->service->prepare(cell);
}

/* Returns a socket, or -1. */
static int connect_server(const struct service *service, pid_t *pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, service->socket);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    (!service->greet || service->greet(fd, pid)))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool is_reachable(const struct cell *cell)
{
	pid_t pid;
	int fd = connect_server(cell->service, &pid);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool open_connections(const struct cell *cell)
{
	client.cell = cell;
	client.period_ns = cell->rate ? 1000000000 / cell->rate : 0;
	client.turn = 0;
	client.nr_keys = (cell->mb << 20) / cell->value_bytes / cell->connections *
			 cell->connections;
	client.out_room = FILL_PENDING * (cell->value_bytes + HEAD_CHARS);
	client.in_room = 4 * (cell->value_bytes + HEAD_CHARS);
	if (!client.versions) {
		client.versions = calloc(client.nr_keys, sizeof(*client.versions));
		client.value = malloc(cell->value_bytes);
		client.expected = malloc(cell->value_bytes + 2 * HEAD_CHARS);
		if (!client.versions || !client.value || !client.expected ||
		    (cell->zipf && !weigh_ranks(client.nr_keys / cell->connections))) {
			fail("out of memory");
			return false;
		}
	}
	for (unsigned int i = 0; i < cell->connections; i++) {
		struct connection *c = &client.connections[i];
		pid_t pid = 0;

		if (c->out)
			continue;	/* It is there since the server was filled. */
		*c = (struct connection) {
			.fd = connect_server(cell->service, &pid), .number = i, .seed = i + 1,
			.out = malloc(client.out_room), .in = malloc(client.in_room),
		};
		if (c->fd < 0 || fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 || !c->out || !c->in) {
			fail("cannot connect to the server: %s", strerror(errno));
			return false;
		}
		if (pid)
			add_worker(pid);
	}
	return true;
}

/* Has each process that answers use all memory, and therefore map it. */
static bool use_all(const struct cell *cell)
{
	for (unsigned int i = 0; i < cell->connections; i++) {
		int fd = client.connections[i].fd, flags = fcntl(fd, F_GETFL);

		if (fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 || !cell->service->use_all(fd) ||
		    fcntl(fd, F_SETFL, flags) < 0) {
			fail("the server does not use its memory");
			return false;
		}
	}
	return true;
}

static void close_connections(void)
{
	for (unsigned int i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &client.connections[i];

		if (!c->out)
			continue;
		close(c->fd);
		free(c->out);
		free(c->in);
		*c = (struct connection) { .fd = -1 };
	}
	free(client.versions);
	free(client.weights);
	free(client.value);
	free(client.expected);
	/* The next mover is not to have it. */
	free_load(&client.load);
	client.versions = NULL;
	client.weights = NULL;
	client.value = client.expected = NULL;
}

/* Sets or gets each key once. */
static bool request_all(bool set)
{
	for (uint32_t key = 0; key < client.nr_keys || nr_pending();) {
		for (; key < client.nr_keys; key++) {
			struct connection *c = &client.connections[key % client.cell->connections];

			if (!has_room(c, FILL_PENDING))
				break;
			send_request(c, key, set, 0);
		}
		if (!exchange(UINT64_MAX, false))
			return false;
	}
	return true;
}

static bool fill_server(const struct cell *cell)
{
	return open_connections(cell) && request_all(true) &&
	       (!cell->service->use_all || use_all(cell));
}

static bool verify_server(struct load *load)
{
	client.load.wrong = client.load.checked = 0;
	request_all(false);
	*load = (struct load) {
		.wrong = client.load.wrong, .checked = client.load.checked,
	};
	return !failed();
}

static bool start_load(const struct cell *cell)
{
	if (!open_connections(cell))
		return false;
	client.load.nr = client.load.wrong = client.load.checked = 0;
	client.enough = false;
	if (pthread_create(&client.thread, NULL, serve, NULL)) {
		fail("cannot start a thread");
		return false;
	}
	client.running = true;
	pthread_getcpuclockid(client.thread, &client.clock);
	return true;
}

/* CPU time of the client so far. */
static uint64_t load_cpu_ns(void)
{
	return client.running ? clock_ns(client.clock) : 0;
}

static const struct load *end_load(void)
{
	client.enough = true;
	pthread_join(client.thread, NULL);
	client.running = false;
	return &client.load;
}

const struct loader by_requests = {
	.prepare = prepare_service,
	.reachable = is_reachable,
	.fill = fill_server,
	.start = start_load,
	.end = end_load,
	.verify = verify_server,
	.cpu_ns = load_cpu_ns,
	.close = close_connections,
};
