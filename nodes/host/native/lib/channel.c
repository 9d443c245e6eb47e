/*
 * The library's start and end, the pipes to the host, and the service of the host's accesses to this
 * process's memory while a request waits.
 *
 * The truth of the emulated host's memory is this process's own, so the card reads and writes it
 * here: with process_vm_readv(2) and process_vm_writev(2), which answer EFAULT where a load or a
 * store would raise a signal.
 */
#define _GNU_SOURCE
#include "rackmesh.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct native native = { .alarm_ps = NEVER };
volatile uint64_t turns;
__thread volatile bool in_request;

/*
 * All that this file does by itself are direct system calls: net.c takes over `read`, `write` and
 * their kin, also for this library's own references.
 */

/* Pages of their own that grow by mremap: malloc is not allowed in a signal handler. */
struct buffer {
	char *at;
	size_t length;
	size_t room;
};
static struct buffer out, in;
static size_t message; /* bytes of the message at the begin of `in` */
int requests_fd = -1, replies_fd = -1, folder_fd = -1;
static uint64_t output_bytes[2];

static void buffer_need(struct buffer *buffer, size_t room)
{
	if (room <= buffer->room)
		return;
	size_t grown = buffer->room ? buffer->room : 1 << 16;
	while (grown < room)
		grown *= 2;
	void *at = buffer->at ? mremap(buffer->at, buffer->room, grown, MREMAP_MAYMOVE)
			      : mmap(NULL, grown, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		native_fail("no memory for a message of %zu bytes", room);
	buffer->at = at;
	buffer->room = grown;
}

static void say(const char *format, va_list args)
{
	char line[512];
	int length = snprintf(line, sizeof(line), "rackmesh: ");

	length += vsnprintf(line + length, sizeof(line) - length - 1, format, args);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (syscall(SYS_write, STDERR_FILENO, line, length) < 0) {
		/* It has no standard error. */
	}
}

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

_Noreturn void native_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	_exit(70);
}

/* The host's process is gone, or the host has lost power: the program ends as by SIGKILL. */
static _Noreturn void end_at_once(void)
{
	syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
	_exit(137);
}

/* A program that answers itself, for as long as its lease goes, does not read what would tell it. */
void end_without_host(void)
{
	struct pollfd fd = { .fd = replies_fd };

	if (syscall(SYS_poll, &fd, 1, 0) == 1 && (fd.revents & POLLHUP))
		end_at_once();
}

static void write_whole(const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = syscall(SYS_write, requests_fd, bytes, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			end_at_once();
		bytes += written;
		length -= written;
	}
}

/* Reads until `in` holds so many bytes of the present message. */
static void read_until(size_t length)
{
	buffer_need(&in, length);
	while (in.length < length) {
		ssize_t count = syscall(SYS_read, replies_fd, in.at + in.length,
					in.room - in.length);
		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			end_at_once();
		in.length += count;
	}
}

static bool copy_own_memory(uint64_t address, void *bytes, size_t length, bool to_memory)
{
	struct iovec here = { bytes, length }, there = { (void *)address, length };
	pid_t self = syscall(SYS_getpid);
	ssize_t done = syscall(to_memory ? SYS_process_vm_writev : SYS_process_vm_readv, self, &here,
			       1, &there, 1, 0);

	if (done < 0 && errno != EFAULT)
		native_fail("the card cannot access the program's memory: %s", strerror(errno));
	return done == (ssize_t)length;
}

static void serve_read(uint64_t address, size_t length)
{
	buffer_need(&out, sizeof(uint64_t) + length);
	bool there = copy_own_memory(address, out.at + sizeof(uint64_t), length, false);
	*(uint64_t *)out.at = there ? 0 : EFAULT;
	write_whole(out.at, sizeof(uint64_t) + (there ? length : 0));
}

/* Standard output and error are files: what the program has written so far is their length. */
static void measure_output(void)
{
	for (int i = 0; i < 2; i++) {
		struct stat status;
		if (fstat(STDOUT_FILENO + i, &status) == 0 && S_ISREG(status.st_mode))
			output_bytes[i] = status.st_size;
	}
}

uint64_t *request_begin(int request, size_t args)
{
	size_t length = (HEAD_WORDS + args) * sizeof(uint64_t);

	if (native.active && !this_thread)
		native_fail("a thread that pthread_create has not made calls the host");
	thread_asks(request);
	raise_alarm_if_due();
	if (scm_has_stores)
		scm_send_stores();
	ahead_note_request(request);
	in_request = true;
	buffer_need(&out, length);
	memset(out.at, 0, length);
	((uint64_t *)out.at)[HEAD_request] = request;
	out.length = length;
	return (uint64_t *)out.at + HEAD_WORDS;
}

uint64_t *request_row(size_t words)
{
	size_t at = out.length;

	out.length += words * sizeof(uint64_t);
	buffer_need(&out, out.length);
	return memset(out.at + at, 0, words * sizeof(uint64_t));
}

void request_bytes(const void *bytes, size_t length)
{
	buffer_need(&out, out.length + length);
	memcpy(out.at + out.length, bytes, length);
	out.length += length;
}

/* The next reply, which is kept for its thread; serves the host's accesses to memory before it. */
static struct thread *read_reply(void)
{
	for (;;) {
		/* What comes next begins at the buffer's begin: its words are aligned. */
		memmove(in.at, in.at + message, in.length - message);
		in.length -= message;
		message = MESSAGE_WORDS * sizeof(uint64_t);
		read_until(message);
		uint64_t kind = ((uint64_t *)in.at)[MESSAGE_kind];
		uint64_t length = ((uint64_t *)in.at)[MESSAGE_length];
		uint64_t address = ((uint64_t *)in.at)[MESSAGE_address];
		if (kind == MESSAGE_KIND_read) {
			serve_read(address, length);
			continue;
		}
		if (kind == MESSAGE_KIND_ended) {
			await_end(address);
			continue;
		}
		message += length;
		read_until(message);
		char *bytes = in.at + MESSAGE_WORDS * sizeof(uint64_t);
		if (kind == MESSAGE_KIND_reply) {
			struct thread *thread = thread_of(address);
			struct buffer kept = { thread->reply, 0, thread->reply_room };
			buffer_need(&kept, length);
			thread->reply = kept.at;
			thread->reply_room = kept.room;
			thread->reply_bytes = length;
			memcpy(thread->reply, bytes, length);
			return thread;
		}
		if (kind != MESSAGE_KIND_write)
			end_at_once();
		if (!scm_write(address, bytes, length))
			copy_own_memory(address, bytes, length, true);
	}
}

/*
 * RACKMESH_LEASE, for comparisons: what the library answers itself may change nothing that can be seen.
 * `off`: no reply has its lease, so each poll and each clock read is a request. A number is the seed of a
 * run that is nearly so, for programs that read clocks millions of times: of some hundreds of replies
 * one has its lease, or a part of it; which ones, how many, and the part are drawn.
 */
#define SPARED_LEAST 32
#define SPARED_MOST_BITS 6 /* up to 2047 */
#define PART_MOST_PS 10000000000ull
static enum { LEASE_ON, LEASE_OFF, LEASE_DRAWN } leases;
static uint64_t draw_state, replies_without;

static void leases_start(const char *text)
{
	char *end;

	if (!text || strncmp(text, "on", 2) == 0)
		return;
	leases = strncmp(text, "off", 3) == 0 ? LEASE_OFF : LEASE_DRAWN;
	draw_state = strtoull(text, &end, 10);
	if (leases == LEASE_DRAWN && end == text)
		native_fail("RACKMESH_LEASE is %s: expected on, off, or a number", text);
}

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = draw_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void take_lease(uint64_t now_ps, uint64_t lease_ps, uint64_t unwritten_ps)
{
	native.lease = leases == LEASE_ON || (leases == LEASE_DRAWN && replies_without == 0);
	native.lease_ps = native.lease ? lease_ps : 0;
	native.unwritten_ps = native.lease ? unwritten_ps : 0;
	if (leases != LEASE_DRAWN)
		return;
	if (!native.lease) {
		replies_without--;
		return;
	}
	uint64_t span = (uint64_t)SPARED_LEAST << draw() % SPARED_MOST_BITS;
	replies_without = span + draw() % span;
	uint64_t length_ps = lease_ps > now_ps ? lease_ps - now_ps : 0;
	if (length_ps > PART_MOST_PS)
		length_ps = PART_MOST_PS;
	/* A part, beyond which nothing is answered: not even what the card only reads. */
	if (draw() % 4 == 0 && length_ps) {
		native.lease_ps = native.unwritten_ps = now_ps + draw() % length_ps;
		native.lease = false;
	}
}

/* The thread runs on: what its reply says of time holds. */
static void take_turn(void)
{
	const uint64_t *reply = (uint64_t *)this_thread->reply;

	native.now_ps = reply[REPLY_nowPs];
	take_lease(native.now_ps, reply[REPLY_leasePs], reply[REPLY_unwrittenPs]);
	native.alone = reply[REPLY_alone];
	native.ask = reply[REPLY_ask];
	native.used_ps = 0;
	turns++;
	in_request = false;
	spin_wake();
}

/* Whether the request is one of those that the library may answer itself. */
static bool is_look(void)
{
	uint64_t request = ((uint64_t *)out.at)[HEAD_request];

	return request == REQUEST_poll_cq || request == REQUEST_clock;
}

static void write_request(bool looks)
{
	uint64_t *head = (uint64_t *)out.at;

	/* Polls and clock reads show no output, so that it does not matter which of them are requests. */
	if (!looks)
		measure_output();
	head[HEAD_bytes] = out.length;
	head[HEAD_thread] = this_thread->number;
	head[HEAD_usedPs] = native.used_ps;
	head[HEAD_stdout] = output_bytes[0];
	head[HEAD_stderr] = output_bytes[1];
	write_whole(out.at, out.length);
}

int request_send(void)
{
	if (!native.active) {
		in_request = false;
		return ENODEV;
	}
	int saved = errno;
	bool looks = is_look();
	write_request(looks);
	/* The thread that has asked last reads: the host answers one at a time, and that one runs. */
	struct thread *next = read_reply();
	if (next != this_thread) {
		thread_hand_over(next);
		thread_await_turn();
	}
	take_turn();
	errno = saved;
	int error = ((uint64_t *)this_thread->reply)[REPLY_error];
	thread_answered(error);
	if (!looks)
		stack_sweep(SWEPT_OF_REQUEST);
	return error;
}

bool request_send_last(void)
{
	write_request(is_look());
	struct thread *next = read_reply();
	if (next != this_thread) {
		thread_hand_over(next);
		return false;
	}
	take_turn();
	return true;
}

void request_begun(void)
{
	take_turn();
}

const uint64_t *answer(void)
{
	return (uint64_t *)this_thread->reply + REPLY_WORDS;
}

size_t answer_bytes(void)
{
	return this_thread->reply_bytes - REPLY_WORDS * sizeof(uint64_t);
}

bool is_own_descriptor(int fd)
{
	return native.active && (fd == requests_fd || fd == replies_fd || fd == folder_fd);
}

void *libc_function(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);
	if (!function)
		native_fail("the C library has no %s", name);
	return function;
}

static struct descriptor descriptors[DESCRIPTORS_MOST];

int descriptor_open(int kind, uint64_t handle)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	if (fd >= DESCRIPTORS_MOST) {
		syscall(SYS_close, fd);
		errno = EMFILE;
		return -1;
	}
	if (fd >= 0)
		descriptors[fd] = (struct descriptor){ .open = true, .kind = kind, .handle = handle };
	return fd;
}

struct descriptor *descriptor_of(int fd)
{
	if (fd < 0 || fd >= DESCRIPTORS_MOST)
		return NULL;
	return descriptors[fd].open ? &descriptors[fd] : NULL;
}

bool descriptor_copy(int fd, int to)
{
	if (to >= DESCRIPTORS_MOST)
		return false;
	descriptors[to] = descriptors[fd];
	return true;
}

void descriptor_close(int fd)
{
	if (descriptor_of(fd)) {
		forget_polled(fd);
		descriptors[fd].open = false;
	}
	syscall(SYS_close, fd);
}

bool descriptor_waits(int fd)
{
	return !(syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK);
}

/* The last words of `hello` are text: the host's name and those of its devices, a line each. */
static void read_names(const char *text, size_t length)
{
	char *names = strndup(text, length), *next = names;

	native.host = strsep(&next, "\n");
	for (unsigned i = 0; i < native.devices; i++)
		native.device[i] = next ? strsep(&next, "\n") : "";
}

static void say_hello(void)
{
	uint64_t *arg = request_begin(REQUEST_hello, ARG_hello_WORDS);

	arg[ARG_hello_version] = TABLE_VERSION;
	arg[ARG_hello_pid] = native.real_pid = syscall(SYS_getpid);
	int error = request_send();
	if (error)
		native_fail("the host refuses the program: %s", strerror(error));
	const uint64_t *hello = answer();
	native.pid = hello[ANSWER_hello_pid];
	native.clock_ps = hello[ANSWER_hello_clockPs];
	native.tsc_ps = hello[ANSWER_hello_tscPs];
	native.poll_ps = hello[ANSWER_hello_pollPs];
	native.ticks_per_us = hello[ANSWER_hello_ticksPerUs];
	native.spin_us = hello[ANSWER_hello_spinUs];
	native.stuck_us = hello[ANSWER_hello_stuckUs];
	native.address = hello[ANSWER_hello_address];
	native.devices = hello[ANSWER_hello_devices];
	if (native.devices > sizeof(native.device) / sizeof(native.device[0]))
		native_fail("the host has %lu devices: too many", native.devices);
	read_names((const char *)(hello + ANSWER_hello_WORDS),
		   answer_bytes() - ANSWER_hello_WORDS * sizeof(uint64_t));
}

/* By exit(3) and the end of main; what ends otherwise, the host sees by its end of the pipe. */
static void say_exit(int code, void *unused)
{
	(void)unused;
	if (!native.active)
		return;
	fflush(NULL);
	request_begin(REQUEST_exit, ARG_exit_WORDS)[ARG_exit_code] = code & 0xff;
	request_send();
	spin_stop();
	clock_stop();
	ahead_stop();
	native.active = false;
}

static void copy_descriptor(int from, int to)
{
	if (syscall(SYS_dup3, from, to, O_CLOEXEC) < 0)
		native_fail("descriptor %d cannot be copied: %s", from, strerror(errno));
}

/*
 * The host sees the end of the child at the end of its pipe. Linux releases descriptors that exec closes
 * from the highest to the lowest, so the pipe takes the place of the lowest: when the host sees its end,
 * the others are released. @return the descriptor that was there, as it is now; below 0: there was none.
 */
int channel_before_exec(void)
{
	for (int fd = 0; fd < requests_fd; fd++) {
		int flags = syscall(SYS_fcntl, fd, F_GETFD);
		if (flags < 0 || !(flags & FD_CLOEXEC))
			continue;
		int high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
		if (high < 0)
			return -1;
		copy_descriptor(requests_fd, fd);
		syscall(SYS_close, requests_fd);
		requests_fd = fd;
		return high;
	}
	return -1;
}

void channel_after_exec(int high)
{
	if (high < 0)
		return;
	int fd = requests_fd, failure = errno;
	requests_fd = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
	if (requests_fd < 0)
		native_fail("a child cannot keep its pipe: %s", strerror(errno));
	copy_descriptor(high, fd);
	syscall(SYS_close, high);
	errno = failure;
}

void channel_begin_child(int requests, int replies)
{
	syscall(SYS_close, requests_fd);
	syscall(SYS_close, replies_fd);
	requests_fd = requests;
	replies_fd = replies;
	/* Its parent's last reply was all of it. */
	in.length = message = 0;
	/* Its own first one is for its only thread. */
	read_reply();
	take_turn();
}

/*
 * The child of fork(2) is a process of the rack, if it was made by the program's own call; by others
 * (forkpty) it is none, as two processes cannot share one place in time.
 */
static void be_child(void)
{
	if (!native.active)
		return;
	if (forking_pipes[0] >= 0)
		return be_process();
	native.active = false;
	native.forked = true;
	/* In no sandbox it would outlive the program, and the rack. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	spin_stop();
	clock_stop();
	ahead_stop();
	syscall(SYS_close, requests_fd);
	syscall(SYS_close, replies_fd);
}

/*
 * Equal runs need equal addresses: they stand in rkeys' neighbours, hash tables and output. And the
 * program's name is as it was typed, which no shell and no env(1) gives it.
 */
static void begin_anew(char **argv)
{
	int persona = personality(0xffffffff);
	char *name = getenv("RACKMESH_NAME");
	bool has_name = !name || strcmp(argv[0], name) == 0;

	if (has_name && (persona < 0 || (persona & ADDR_NO_RANDOMIZE)))
		return;
	if (name)
		argv[0] = name;
	if (persona >= 0 && personality(persona | ADDR_NO_RANDOMIZE) < 0)
		native_fail("this machine would give it other addresses in each run: "
			    "expected the right to personality(ADDR_NO_RANDOMIZE), which a container's seccomp profile may refuse (%s)",
			    strerror(errno));
	execve("/proc/self/exe", argv, environ);
	native_fail("cannot start again with fixed addresses: %s", strerror(errno));
}

/*
 * The first of all constructors (the linker's initfirst): those of the program's libraries read clocks,
 * its number, and the host's name. libc's own, which sets `environ`, comes later.
 */
__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
	(void)argc;
	environ = envp;
	const char *fds = getenv("RACKMESH_NATIVE");
	const char *lease = getenv("RACKMESH_LEASE");

	if (!fds || sscanf(fds, "%d,%d", &requests_fd, &replies_fd) != 2)
		return;
	if (!getenv("RACKMESH_INSTRUMENTED"))
		begin_anew(argv);
	unsetenv("RACKMESH_NAME");
	/* The program's name, which was "exe" since then. */
	const char *slash = strrchr(argv[0], '/');
	prctl(PR_SET_NAME, slash ? slash + 1 : argv[0]);
	/* Out of the way of the program's own descriptors, which begin at 3 as everywhere. */
	int high[2] = { syscall(SYS_fcntl, requests_fd, F_DUPFD_CLOEXEC, 900),
			syscall(SYS_fcntl, replies_fd, F_DUPFD_CLOEXEC, 900) };
	if (high[0] < 0 || high[1] < 0)
		native_fail("descriptors %s are not those of the host's pipes", fds);
	syscall(SYS_close, requests_fd);
	syscall(SYS_close, replies_fd);
	requests_fd = high[0];
	replies_fd = high[1];
	int here = syscall(SYS_openat, AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here >= 0) {
		folder_fd = syscall(SYS_fcntl, here, F_DUPFD_CLOEXEC, 900);
		syscall(SYS_close, here);
	}
	leases_start(lease);
	bool instrumented = getenv("RACKMESH_INSTRUMENTED") != NULL;
	unsetenv("RACKMESH_NATIVE");
	unsetenv("RACKMESH_LEASE");
	unsetenv("RACKMESH_INSTRUMENTED");
	unsetenv("LD_PRELOAD");
	setvbuf(stdout, NULL, _IOLBF, 0);
	buffer_need(&out, 1);
	buffer_need(&in, 1);
	threads_start();
	files_start();
	native.active = true;
	say_hello();
	on_exit(say_exit, NULL);
	pthread_atfork(NULL, NULL, be_child);
	/* Checkers of memory (tests/native/memory_checkers_test.ts) execute rdtsc themselves, and cannot be stepped. */
	if (!instrumented) {
		clock_start();
		if (leases != LEASE_OFF)
			ahead_start();
		spin_start();
	}
}
