// SPDX-License-Identifier: GPL-2.0-only
/*
 * Breadth-first searches of a random graph: each thread begins one at a vertex of its
 * own, and another one when that is over. A vertex has edges to vertices chosen at
 * random, all in one array, so that those of a vertex are a cache line. A search has a
 * queue of vertices, and for each vertex the edge by which it was found.
 */
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "mark.h"

#define EDGES		16UL	/* of a vertex */
/* Vertices of a step, whose edges are looked at. */
#define VERTICES	16
#define NOT_FOUND	UINT32_MAX
#define ROOT		(UINT32_MAX - 1)

struct tree {
	uint32_t *queue;
	uint32_t *via;		/* by vertex: an edge, ROOT or NOT_FOUND */
	size_t head, tail;
};

static uint32_t *edges;
static size_t nr_vertices;
static struct tree trees[MAX_THREADS];

static uint32_t end_of(size_t edge)
{
	return (mix(edge + 1) >> 32) * nr_vertices >> 32;
}

static bool prepare(void)
{
	uint32_t *next = crew.memory;

	/* An even number: two of them are looked at as one word. */
	nr_vertices = crew.bytes / sizeof(*next) / (EDGES + 2 * crew.nr_workers) & ~1UL;
	edges = next;
	next += nr_vertices * EDGES;
	for (unsigned int i = 0; i < crew.nr_workers; i++) {
		trees[i].via = next;
		trees[i].queue = next + nr_vertices;
		next += 2 * nr_vertices;
	}
	return nr_vertices && nr_vertices * EDGES < ROOT;
}

static void begin_tree(struct worker *worker, struct tree *tree)
{
	uint32_t root = next_random(&worker->seed) % nr_vertices;

	memset(tree->via, 0xff, nr_vertices * sizeof(*tree->via));
	tree->via[root] = ROOT;
	tree->queue[0] = root;
	tree->head = 0;
	tree->tail = 1;
}

static void fill(void)
{
	for (size_t i = 0; i < nr_vertices * EDGES; i++)
		edges[i] = end_of(i);
	for (unsigned int i = 0; i < crew.nr_workers; i++) {
		memset(trees[i].queue, 0, nr_vertices * sizeof(*trees[i].queue));
		begin_tree(&crew.workers[i], &trees[i]);
	}
}

/* No cache has the line of two vertices, or edges, that are next. */
static void miss(struct worker *worker, const uint32_t *item)
{
	const uint64_t *two = (const uint64_t *)((uintptr_t)item & ~7UL);

	if (!missed_is(two, *two))
		worker->load.wrong++;
}

static void look_from(struct worker *worker, struct tree *tree, uint32_t vertex)
{
	size_t first = vertex * EDGES;

	miss(worker, &edges[first]);
	for (size_t edge = first; edge < first + EDGES; edge++) {
		uint32_t *via = &tree->via[edges[edge]];

		miss(worker, via);
		if (*via != NOT_FOUND)
			continue;
		*via = edge;
		tree->queue[tree->tail++] = edges[edge];
	}
}

static void step(struct worker *worker, bool shifted)
{
	struct tree *tree = &trees[worker->number];

	(void)shifted;
	for (int i = 0; i < VERTICES; i++) {
		if (tree->head == tree->tail)
			begin_tree(worker, tree);
		look_from(worker, tree, tree->queue[tree->head++]);
	}
}

/* Searches again, with edges that have been checked; @found has a byte for each vertex. */
static uint64_t check_tree(const struct tree *tree, char *found)
{
	uint64_t wrong = tree->via[tree->queue[0]] != ROOT;
	size_t tail = 1;

	memset(found, 0, nr_vertices);
	found[tree->queue[0]] = true;
	for (size_t i = 0; i < tree->head; i++) {
		size_t first = tree->queue[i] * EDGES;

		for (size_t edge = first; edge < first + EDGES; edge++) {
			uint32_t vertex = edges[edge];

			if (found[vertex])
				continue;
			found[vertex] = true;
			wrong += tree->via[vertex] != edge || tree->queue[tail++] != vertex;
		}
	}
	return wrong + (tail != tree->tail);
}

static void check(struct load *sum)
{
	char *found = malloc(nr_vertices);

	for (size_t i = 0; i < nr_vertices * EDGES; i++)
		sum->wrong += edges[i] != end_of(i);
	for (unsigned int i = 0; i < crew.nr_workers; i++)
		sum->wrong += !found || check_tree(&trees[i], found);
	free(found);
	sum->checked += nr_vertices * (EDGES + 2 * crew.nr_workers) * sizeof(*edges);
}

const struct job search_graph = {
	.prepare = prepare, .fill = fill, .step = step, .check = check,
};
