// SPDX-License-Identifier: GPL-2.0-only
/* The meters that movebench was made with. */
#include <stdio.h>
#include <stdlib.h>

#include "meter.h"

const struct meter *meters[MAX_METERS];
int nr_meters;

void add_meter(const struct meter *meter)
{
	if (nr_meters == MAX_METERS) {
		fprintf(stderr, "movebench: more than %d meters\n", MAX_METERS);
		exit(EXIT_FAILURE);
	}
	meters[nr_meters++] = meter;
}
