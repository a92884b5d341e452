// SPDX-License-Identifier: GPL-2.0-only
/*
 * What `pagehaul move` does, for guests without Python: the same calls in the same
 * order, for windows of the same size, see src/pagehaul/move/relocate.py: of huge pages
 * that are mapped as such one address, of others what has to be tried. The time that
 * Python takes between them is not there, and some of what the tool does is not: it
 * searches ahead by a thread of its own, goes on where a call has stopped, and looks at
 * huge pages that were split.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workbench.h"

/* Pagehaul's kernel: several CPUs may move the pages of one call. */
#define MOVE_MT			(1L << 15)

#define SMALLEST_WINDOW		(8UL << 20)
#define LARGEST_WINDOW		(256UL << 20)
#define GROWTH			4
#define TRIES			3
#define FEW_BYTES		(64UL << 20)

/* Pages, and huge pages that are named by one address. */
struct both {
	struct pages base, huge;
};

struct work {
	const struct move *move;
	struct frames *frames;
	long flags;
	atomic_bool base_pages;		/* no larger folios were found where it was looked last */
	pthread_mutex_t lock;		/* of what follows */
	struct search *search;		/* where windows come from; NULL: from @again */
	struct both again;		/* those that are tried again */
	size_t next, next_huge;		/* places in @again */
	size_t window, most;		/* pages of the next window, and of any */
	struct both busy;		/* to be tried again */
	pthread_mutex_t of_files;	/* held while hugetlb pages of files move */
};

/* Some pages that are all on the old node, and why they have not moved: an errno. */
struct window {
	struct work *work;
	struct pages pages;
	int *cause;
	bool *arrived;			/* is known of a page */
	struct pages chosen;		/* those that a call names */
	size_t *index;			/* their places in @pages */
};

static uint64_t huge_of(const void *address)
{
	return (uintptr_t)address / HUGE_SIZE;
}

static size_t alignment_of(const void *address)
{
	return (uintptr_t)address & -(uintptr_t)address;
}

static void choose(struct window *window, size_t index)
{
	window->index[window->chosen.nr] = index;
	window->chosen.addresses[window->chosen.nr++] = window->pages.addresses[index];
}

/* Moves what was chosen. */
static void move_chosen(struct window *window)
{
	struct pages *chosen = &window->chosen;

	bool all = call_move_pages(window->work->move, chosen, window->work->flags) == 0;

	for (size_t i = 0; i < chosen->nr; i++) {
		if (all && chosen->status[i] == (int)window->work->move->to)
			window->arrived[window->index[i]] = true;
		if (chosen->status[i] < 0 && chosen->status[i] != STATUS_UNSET)
			window->cause[window->index[i]] = -chosen->status[i];
	}
}

/*
 * The best aligned page of each huge page's room goes first: it tells how large folios
 * are. Returns the number of those that arrived, in @heads.
 */
static size_t move_heads(struct window *window, bool *is_head, void **heads)
{
	const struct pages *pages = &window->pages;
	size_t best = 0, nr = 0;

	window->chosen.nr = 0;
	for (size_t i = 0; i <= pages->nr; i++) {
		if (i && (i == pages->nr ||
			  huge_of(pages->addresses[i]) != huge_of(pages->addresses[best]))) {
			is_head[best] = true;
			choose(window, best);
			best = i;
		} else if (i < pages->nr && alignment_of(pages->addresses[i]) >
			   alignment_of(pages->addresses[best])) {
			best = i;
		}
	}
	move_chosen(window);
	if (!keep_on(window->work->move->pid, &window->chosen, window->work->move->to))
		return 0;
	for (; nr < window->chosen.nr; nr++)
		heads[nr] = window->chosen.addresses[nr];
	return nr;
}

/* The place of a page in a window, its number of pages if it is not there. */
static size_t find(const struct pages *pages, const void *address)
{
	size_t low = 0, high = pages->nr;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (pages->addresses[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < pages->nr && pages->addresses[low] == address ? low : pages->nr;
}

/* Whether a page that was not named has come along, @reach bytes from one that was. */
static bool came_along(struct window *window, const bool *is_head, void **heads, size_t nr,
		       size_t reach)
{
	window->chosen.nr = 0;
	for (size_t i = 0; i < 2 * nr; i++) {
		char *head = heads[i / 2];
		size_t place = find(&window->pages, i % 2 ? head - reach : head + reach);

		if (place < window->pages.nr && !is_head[place] &&
		    window->chosen.nr < window->pages.nr)
			choose(window, place);
	}
	return keep_on(window->work->move->pid, &window->chosen, window->work->move->to) &&
	       window->chosen.nr;
}

static size_t largest_folio(struct window *window, const bool *is_head, void **heads, size_t nr)
{
	for (size_t size = HUGE_SIZE; size > BASE_SIZE; size /= 2)
		if (came_along(window, is_head, heads, nr, size / 2))
			return size < HUGE_SIZE ? 2 * size : size;
	return BASE_SIZE;
}

/*
 * Names all pages, where the last ones were of base pages alone. Pages of a folio that was
 * named before are refused, though they move with it. Keeps those that have not moved;
 * returns whether there are any.
 */
static bool move_at_once(struct window *window)
{
	struct work *work = window->work;
	size_t nr = 0;

	window->chosen.nr = 0;
	for (size_t i = 0; i < window->pages.nr; i++)
		choose(window, i);
	move_chosen(window);
	for (size_t i = 0; i < window->pages.nr; i++) {
		if (!window->arrived[i])
			window->pages.addresses[nr++] = window->pages.addresses[i];
	}
	window->pages.nr = nr;
	if (!nr)
		return false;
	work->base_pages = false;
	memset(window->cause, 0, nr * sizeof(*window->cause));
	memset(window->arrived, 0, nr * sizeof(*window->arrived));
	return keep_on(work->move->pid, &window->pages, work->move->from) && window->pages.nr;
}

/* No two pages of a folio may be named at once: those of one alignment after the other. */
static void move_rest(struct window *window, const bool *is_head, size_t largest)
{
	for (size_t size = largest; size >= BASE_SIZE; size /= 2) {
		window->chosen.nr = 0;
		for (size_t i = 0; i < window->pages.nr; i++) {
			size_t alignment = alignment_of(window->pages.addresses[i]);

			if (!is_head[i] && (largest == BASE_SIZE ||
			    (alignment > largest ? largest : alignment) == size))
				choose(window, i);
		}
		move_chosen(window);
	}
}

/*
 * Where nothing says that a page has arrived, it is asked for. Those that are still on
 * the old node are busy, if nothing else was told of them.
 */
static void note_busy(struct window *window)
{
	const struct move *move = window->work->move;

	window->chosen.nr = 0;
	for (size_t i = 0; i < window->pages.nr; i++)
		if (!window->arrived[i] && (!window->cause[i] || window->cause[i] == EBUSY))
			choose(window, i);
	if (!keep_on(move->pid, &window->chosen, move->from))
		return;
	pthread_mutex_lock(&window->work->lock);
	for (size_t i = 0; i < window->chosen.nr; i++)
		if (!add_pages(&window->work->busy.base, window->chosen.addresses[i], 1))
			break;
	pthread_mutex_unlock(&window->work->lock);
}

static void move_base(struct work *work, struct pages pages)
{
	bool at_once = work->base_pages;
	size_t nr = pages.nr, largest;
	bool *is_head = calloc(nr, sizeof(*is_head));
	void **heads = calloc(nr, sizeof(*heads));
	struct window window = {
		.work = work, .pages = pages, .cause = calloc(nr, sizeof(int)),
		.arrived = calloc(nr, sizeof(bool)),
		.chosen = { calloc(nr, sizeof(void *)), calloc(nr, sizeof(int)), 0, nr },
		.index = calloc(nr, sizeof(size_t)),
	};

	if (!is_head || !heads || !window.cause || !window.arrived || !window.chosen.addresses ||
	    !window.chosen.status || !window.index)
		fail("out of memory");
	else if (keep_near(work->frames, &window.pages) && window.pages.nr &&
		 (!at_once || move_at_once(&window))) {
		nr = move_heads(&window, is_head, heads);
		largest = largest_folio(&window, is_head, heads, nr);
		work->base_pages = largest == BASE_SIZE && !at_once;
		move_rest(&window, is_head, largest);
		note_busy(&window);
	}
	free(is_head);
	free(heads);
	free(window.cause);
	free(window.arrived);
	free(window.index);
	free_pages(&window.chosen);
}

/* Of huge pages that are mapped as such one address is named. */
static void move_huge(struct work *work, struct pages *huge)
{
	const struct move *move = work->move;
	size_t arrived = 0;
	long left;

	if (!keep_on(move->pid, huge, move->from) || !huge->nr)
		return;
	if (move->of_file)
		pthread_mutex_lock(&work->of_files);
	left = call_move_pages(move, huge, work->flags);
	if (move->of_file)
		pthread_mutex_unlock(&work->of_files);
	if (left < 0)
		return;
	for (size_t i = 0; i < huge->nr; i++)
		arrived += huge->status[i] == (int)move->to;
	if (arrived == huge->nr || !keep_on(move->pid, huge, move->from))
		return;
	pthread_mutex_lock(&work->lock);
	for (size_t i = 0; i < huge->nr; i++)
		if (!add_pages(&work->busy.huge, huge->addresses[i], 1))
			break;
	pthread_mutex_unlock(&work->lock);
}

/* Takes some of those that are tried again, so that no folio is in two windows. */
static void take_again(struct work *work, struct both *both)
{
	const struct both *again = &work->again;
	size_t most_huge = work->most / (HUGE_SIZE / BASE_SIZE);

	for (; work->next < again->base.nr; work->next++) {
		void *address = again->base.addresses[work->next];

		if ((both->base.nr >= work->most &&
		     huge_of(address) != huge_of(both->base.addresses[both->base.nr - 1])) ||
		    !add_pages(&both->base, address, 1))
			break;
	}
	for (; work->next_huge < again->huge.nr && both->huge.nr < most_huge; work->next_huge++)
		if (!add_pages(&both->huge, again->huge.addresses[work->next_huge], 1))
			break;
}

/* Takes the next window. The first ones are small: nothing moves until one is known. */
static struct both next_window(struct work *work)
{
	struct both both = { .base.nr = 0 };

	pthread_mutex_lock(&work->lock);
	if (work->search)
		search_pages(work->search, work->window, &both.base, &both.huge);
	else
		take_again(work, &both);
	work->window *= GROWTH;
	if (work->window > work->most)
		work->window = work->most;
	pthread_mutex_unlock(&work->lock);
	return both;
}

/* More than a few that are busy are pinned. */
static bool try_again(const struct both *busy)
{
	size_t bytes = busy->base.nr * BASE_SIZE + busy->huge.nr * HUGE_SIZE;

	return bytes && bytes <= FEW_BYTES;
}

static int compare(const void *one, const void *other)
{
	uintptr_t a = (uintptr_t)*(void *const *)one, b = (uintptr_t)*(void *const *)other;

	return a < b ? -1 : a > b;
}

/* Those that were busy are tried again; callers have added them in any order. */
static void begin_again(struct work *work)
{
	work->again = work->busy;
	work->busy = (struct both) { .base.nr = 0 };
	work->next = work->next_huge = 0;
	if (work->again.base.nr)
		qsort(work->again.base.addresses, work->again.base.nr, sizeof(void *), compare);
	if (work->again.huge.nr)
		qsort(work->again.huge.addresses, work->again.huge.nr, sizeof(void *), compare);
}

static void free_both(struct both *both)
{
	free_pages(&both->base);
	free_pages(&both->huge);
}

static void *move_windows(void *argument)
{
	struct work *work = *(struct work **)argument;
	bool any = true;

	while (any && !failed()) {
		struct both both = next_window(work);

		any = both.base.nr || both.huge.nr;
		if (both.huge.nr)
			move_huge(work, &both.huge);
		if (both.base.nr)
			move_base(work, both.base);
		free_both(&both);
	}
	return NULL;
}

static void move_all(struct work *work)
{
	struct work *each[MAX_CALLERS];

	for (unsigned long i = 0; i < work->move->callers; i++)
		each[i] = work;
	run_threads(move_windows, each, sizeof(each[0]), work->move->callers);
}

/* Pages of a window, several of which each caller has. */
static size_t window_of(const struct move *move)
{
	size_t bytes = resident_bytes(move->pid) / (4 * move->callers);

	bytes = bytes < SMALLEST_WINDOW ? SMALLEST_WINDOW : bytes;
	return (bytes > LARGEST_WINDOW ? LARGEST_WINDOW : bytes) / BASE_SIZE;
}

static bool is_helped(pid_t pid)
{
	return syscall(SYS_move_pages, (long)pid, 0UL, NULL, NULL, NULL,
		       MPOL_MF_MOVE | MOVE_MT) == 0;
}

bool move_as_pagehaul(const struct move *move)
{
	static const long pauses_ms[TRIES] = { 20, 100, 500 };
	struct work work = {
		.move = move, .flags = is_helped(move->pid) ? MOVE_MT : 0,
		.lock = PTHREAD_MUTEX_INITIALIZER, .of_files = PTHREAD_MUTEX_INITIALIZER,
		.frames = open_frames(move->pid, move->from),
		.search = begin_search(move->pid), .window = SMALLEST_WINDOW / BASE_SIZE,
		.most = window_of(move),
	};

	if (work.frames && work.search)
		move_all(&work);
	end_search(work.search);
	work.search = NULL;
	for (int try = 0; try < TRIES && !failed() && try_again(&work.busy); try++) {
		free_both(&work.again);
		begin_again(&work);
		sleep_ns(pauses_ms[try] * NS_OF_MS);
		move_all(&work);
	}
	free_both(&work.again);
	free_both(&work.busy);
	close_frames(work.frames);
	return !failed();
}
