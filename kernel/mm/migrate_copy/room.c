// SPDX-License-Identifier: GPL-2.0-only
/*
 * Room for the pairs of large jobs: for so many at a time, others are small ones. It
 * is allocated before a job can be large, and kept, as somebody may have it.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/slab.h>

#include "internal.h"

#define NR_ROOMS	16U

static struct migrate_copy_room *rooms;
static unsigned int nr_rooms;
static unsigned long rooms_used;

/**
 * migrate_copy_rooms_alloc() - Make room, unless there is some.
 *
 * Without memory there is none, and jobs are small.
 *
 * Context: Process context, may sleep. Not twice at the same time.
 */
void migrate_copy_rooms_alloc(void)
{
	nr_rooms = min(num_possible_cpus(), NR_ROOMS);
	if (!rooms)
		/* Pairs with the acquire in migrate_copy_room_get(). */
		smp_store_release(&rooms, kvmalloc_array(nr_rooms, sizeof(*rooms), GFP_KERNEL));
}

/**
 * migrate_copy_room_get() - Get room for the pairs of a large job.
 *
 * Context: Any.
 * Return: The room, to be given back by migrate_copy_room_put(); NULL if there is
 * none.
 */
struct migrate_copy_room *migrate_copy_room_get(void)
{
	/* Pairs with the release in migrate_copy_rooms_alloc(). */
	struct migrate_copy_room *room = smp_load_acquire(&rooms);
	unsigned int i;

	for (i = 0; room && i < nr_rooms; i++) {
		if (!test_and_set_bit_lock(i, &rooms_used))
			return &room[i];
	}
	return NULL;
}

/**
 * migrate_copy_room_put() - Give room back.
 * @room: The room.
 *
 * Context: Any.
 */
void migrate_copy_room_put(struct migrate_copy_room *room)
{
	clear_bit_unlock(room - rooms, &rooms_used);
}
