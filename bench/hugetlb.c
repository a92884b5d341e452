// SPDX-License-Identifier: GPL-2.0-only
/* Huge pages that are set aside for those who ask for them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Has @node have so many free hugetlb pages, at least. */
bool reserve_hugetlb(unsigned long folio_kb, unsigned long folios, unsigned long node)
{
	char path[160], text[64];
	unsigned long total, free_pages;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%lu/hugepages/hugepages-%lukB/free_hugepages",
		 node, folio_kb);
	if (read_text(path, text, sizeof(text)) < 0) {
		fail("node %lu has no hugetlb pages of %lu kB", node, folio_kb);
		return false;
	}
	free_pages = strtoul(text, NULL, 10);
	if (free_pages >= folios)
		return true;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%lu/hugepages/hugepages-%lukB/nr_hugepages",
		 node, folio_kb);
	if (read_text(path, text, sizeof(text)) < 0) {
		fail("cannot read %s: %s", path, strerror(errno));
		return false;
	}
	total = strtoul(text, NULL, 10) - free_pages + folios;
	snprintf(text, sizeof(text), "%lu", total);
	if (set_sysfs(path, text) < 0) {
		fail("cannot write %s: %s", path, strerror(errno));
		return false;
	}
	/* The kernel takes what it can get and says nothing. */
	if (read_text(path, text, sizeof(text)) < 0 || strtoul(text, NULL, 10) < total) {
		fail("node %lu has no memory for %lu hugetlb pages of %lu kB", node, folios,
		     folio_kb);
		return false;
	}
	return true;
}
