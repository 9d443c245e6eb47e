/*
 * Clock reads beyond the lease. A program that reads clocks in a loop, as perftest does for 440 ms to
 * find the rate of its counter, learns nothing from the host but the time, which is known. All else
 * that could differ is what it loads from memory that a card may write. So the thread may run ahead
 * of the rack while it only reads clocks, with that memory protected: a load there, like any
 * other request, first lets the used time pass at the host. System calls would answer EFAULT for
 * protected pages: they are trapped as well (Syscall User Dispatch, Linux 5.11), and wait likewise.
 *
 * Likewise where the card only reads that memory, as it does for each packet that the program sends: the
 * bytes that it finds are those of that instant as long as the thread does not store. Then polls of
 * empty queues need no request either.
 *
 * On a core with other threads each read would be one's turn to give way: there it does not run ahead.
 *
 * What the host sees are fewer requests, with the same times. Where the kernel or the program's memory
 * does not allow it, or with RACKMESH_LEASE=off, each clock read beyond the lease is a request.
 */
#define _GNU_SOURCE
#include "rackmesh.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul
#define REGIONS 64
/* A clock read of the program costs some nanoseconds: a stretch takes a few milliseconds of real time. */
#define MOST_PS 10000000000ull
/* Clock reads in turn, each of them a request, before the thread runs ahead; more after short stretches. */
#define PATIENCE 8
#define PATIENCE_MOST 65536
#define SHORT_READS 64

static struct region {
	const void *owner;
	uint64_t from, to;
} regions[REGIONS];
static bool possible, checked; /* `checked`: all regions are in pages that are rw- */
static unsigned patience = PATIENCE, clock_requests, reads, uncounted;
static unsigned look_patience = 1, look_requests; /* the same of polls and clock reads */
static bool is_look;                              /* the stretch is one of these */
static bool is_ahead;
static volatile uint8_t selector; /* of the kernel: 0 lets system calls pass */

void ahead_add_region(const void *owner, uint64_t address, uint64_t length)
{
	struct region region = { owner, address & -PAGE, (address + length + PAGE - 1) & -PAGE };

	checked = false;
	for (int i = 0; i < REGIONS; i++)
		if (!regions[i].owner) {
			regions[i] = region;
			return;
		}
	uncounted++;
}

void ahead_remove_region(const void *owner)
{
	checked = false;
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].owner == owner) {
			regions[i].owner = NULL;
			return;
		}
	uncounted--;
}

/* The process's mappings, as /proc/self/maps has them; without malloc, which a handler may not call. */
static const char *mappings(void)
{
	static char text[1 << 20];
	size_t length = 0;
	ssize_t count = 0;
	int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && length < sizeof(text) - 1 &&
	       (count = syscall(SYS_read, fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += count;
	if (fd >= 0)
		syscall(SYS_close, fd);
	text[length] = 0;
	return text;
}

bool range_allows(uint64_t from, uint64_t to, bool writes)
{
	uint64_t at = from & -PAGE;

	ahead_end();
	for (const char *line = mappings(), *end; at < to && *line; line = end + 1) {
		char *rest;
		uint64_t begin = strtoul(line, &rest, 16), until = strtoul(rest + 1, &rest, 16);
		/* A page that a program may store into is read-only until it does. */
		bool writable = rest[2] == 'w' || scm_mapped_until(at);
		if (begin <= at && at < until) {
			if (rest[1] != 'r' || (writes && !writable))
				return false;
			at = until;
		}
		end = strchr(line, '\n');
		if (!end)
			break;
	}
	return at >= to;
}

/* Whether all pages of a region are readable and writable and nothing else: so are they restored. */
static bool is_plain(const struct region *region, const char *line)
{
	uint64_t at = region->from;

	while (at < region->to && *line) {
		char *rest;
		uint64_t from = strtoul(line, &rest, 16), to = strtoul(rest + 1, &rest, 16);
		if (from <= at && at < to) {
			if (strncmp(rest, " rw-", 4) != 0)
				return false;
			at = to;
		}
		line = strchr(rest, '\n');
		if (!line++)
			break;
	}
	return at >= region->to;
}

static bool protect(int rights)
{
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].owner &&
		    syscall(SYS_mprotect, regions[i].from, regions[i].to - regions[i].from, rights) < 0)
			return false;
	return true;
}

static bool begin(void)
{
	uint64_t stack = (uint64_t)__builtin_frame_address(0);
	const char *maps = checked ? NULL : mappings();

	if (uncounted || !__libc_single_threaded || native.has_relatives)
		return false;
	for (int i = 0; i < REGIONS; i++) {
		struct region *region = &regions[i];
		if (!region->owner)
			continue;
		/* A signal's frame must fit below the stack's end. */
		if (stack + (1 << 16) > region->from && stack - (1 << 20) < region->to)
			return false;
		if (maps && !is_plain(region, maps))
			return false;
	}
	checked = true;
	if (!protect(PROT_NONE)) {
		protect(PROT_READ | PROT_WRITE);
		return false;
	}
	is_ahead = true;
	reads = 0;
	selector = 1;
	return true;
}

void ahead_end(void)
{
	if (!is_ahead)
		return;
	selector = 0;
	is_ahead = false;
	if (is_look)
		look_patience = 1;
	if (!protect(PROT_READ | PROT_WRITE))
		native_fail("a region's memory cannot be unprotected: %s", strerror(errno));
}

void ahead_note_request(int request)
{
	ahead_end();
	bool look = request == REQUEST_clock || request == REQUEST_poll_cq;
	clock_requests = request == REQUEST_clock ? clock_requests + 1 : 0;
	look_requests = look ? look_requests + 1 : 0;
}

bool ahead_may_read_clock(void)
{
	if (is_ahead) {
		reads++;
		return native.used_ps < MOST_PS;
	}
	is_look = false;
	return possible && native.lease && native.alone && clock_requests >= patience && begin();
}

bool ahead_may_look(void)
{
	if (is_ahead)
		return true;
	is_look = true;
	return possible && native.lease && native.alone && look_requests >= look_patience && begin();
}

/* The thread is about to see what may have changed: the host catches up with it. */
static void catch_up(void)
{
	unsigned longer = look_patience < PATIENCE_MOST ? 2 * look_patience : look_patience;
	if (reads >= SHORT_READS)
		patience = PATIENCE;
	else if (!is_look && patience < PATIENCE_MOST)
		patience *= 2;
	request_begin(REQUEST_clock, ARG_clock_WORDS);
	request_send();
	clock_requests = look_requests = 0;
	if (is_look)
		look_patience = longer;
}

bool ahead_took_fault(const siginfo_t *info)
{
	uint64_t address = (uint64_t)info->si_addr;

	if (!is_ahead || info->si_code != SEGV_ACCERR)
		return false;
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].owner && address >= regions[i].from && address < regions[i].to) {
			catch_up();
			return true;
		}
	return false;
}

static void on_system_call(int number, siginfo_t *info, void *context)
{
	greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	selector = 0;
	catch_up();
	/* The instruction of two bytes again, with the number that it has overwritten. */
	reg[REG_RIP] -= 2;
	reg[REG_RAX] = info->si_syscall;
}

/* Handlers of this library's own signals make system calls that are no business of the program's. */
bool ahead_pause(void)
{
	bool was = selector;
	selector = 0;
	return was;
}

void ahead_resume(bool was)
{
	selector = was && is_ahead;
}

void ahead_start(void)
{
	struct sigaction action = { .sa_sigaction = on_system_call,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART };
	struct {
		void *handler;
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} kernel;

	/* Handlers return by a system call in libc's restorer: that one passes always. */
	if (sigaction(SIGSYS, &action, NULL) < 0 ||
	    syscall(SYS_rt_sigaction, SIGSYS, NULL, &kernel, sizeof(kernel.mask)) < 0)
		return;
	possible = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, kernel.restorer, 16,
			 &selector) == 0;
}

/* A child has no regions of its parent's, and never runs ahead: its relatives may store. */
void ahead_begin_child(void)
{
	memset(regions, 0, sizeof(regions));
	uncounted = 0;
	possible = false;
}

bool mapping_object(const volatile void *address, uint64_t *object, uint64_t *offset)
{
	uint64_t at = (uint64_t)address;

	for (const char *line = mappings(); *line; line++) {
		char *rest;
		uint64_t from = strtoull(line, &rest, 16), to = strtoull(rest + 1, &rest, 16);
		if (from <= at && at < to) {
			bool is_shared = rest[4] == 's';
			uint64_t begin = strtoull(rest + 6, &rest, 16);
			uint64_t major = strtoull(rest + 1, &rest, 16);
			uint64_t minor = strtoull(rest + 1, &rest, 16);
			uint64_t inode = strtoull(rest + 1, &rest, 10);
			if (!is_shared)
				return false;
			/* A segment's inode is its number, which may be 0. */
			*object = (major << 52) ^ (minor << 40) ^ inode;
			*offset = at - from + begin;
			return true;
		}
		line = strchr(line, '\n');
		if (!line)
			break;
	}
	return false;
}

void ahead_stop(void)
{
	ahead_end();
	possible = false;
}
