/*
 * Processes: fork(2), waits for children, signals to them, and what a process has used.
 *
 * A child is a process of the rack with pipes of its own, which its parent makes before the call. Of all
 * processes of a host one runs at a time, so memory that is shared between them is as it is between
 * threads. What the parent has of the cards is not the child's: the host knows its handles as the
 * parent's alone.
 */
#define _GNU_SOURCE
#include "net.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 1024
#define PS_PER_US 1000000ull
#define PS_PER_S 1000000000000ull

/* Those that were not waited for. */
static struct child {
	pid_t pid, real; /* 0: free */
} children[CHILDREN];
static pid_t parent = 1;
static pid_t forking_pid;
int forking_pipes[4] = { -1 };

static struct child *child_of(pid_t pid)
{
	for (int i = 0; pid > 0 && i < CHILDREN; i++)
		if (children[i].pid == pid)
			return &children[i];
	return NULL;
}

static bool has_children(void)
{
	for (int i = 0; i < CHILDREN; i++)
		if (children[i].pid)
			return true;
	return false;
}

void be_process(void)
{
	int pipes[4];

	memcpy(pipes, forking_pipes, sizeof(pipes));
	forking_pipes[0] = -1;
	syscall(SYS_close, pipes[2]);
	syscall(SYS_close, pipes[3]);
	parent = native.pid;
	native.pid = forking_pid;
	native.real_pid = syscall(SYS_getpid);
	native.is_child = native.has_relatives = true;
	memset(children, 0, sizeof(children));
	threads_begin_child();
	clock_begin_child();
	ahead_begin_child();
	sockets_leave_parent();
	channel_begin_child(pipes[0], pipes[1]);
	spin_begin_child();
}

/* Out of the way of the program's own descriptors. */
static int open_high(const char *name, int flags)
{
	int fd = syscall(SYS_openat, folder_fd, name, flags | O_CLOEXEC);
	int high = fd < 0 ? -1 : syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);

	if (fd >= 0)
		syscall(SYS_close, fd);
	return high;
}

static void close_all(int fds[4])
{
	int saved = errno;

	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			syscall(SYS_close, fds[i]);
	errno = saved;
}

/* The child's ends of its pipes, and two that keep them open until the host has its own. */
static bool make_pipes(pid_t pid, int fds[4])
{
	static const char *const names[2] = { "requests", "replies" };

	for (int i = 0; i < 2; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s.%d", names[i], pid);
		if (mkfifoat(folder_fd, name, 0600) < 0)
			return false;
		fds[2 + i] = open_high(name, O_RDWR);
		fds[i] = open_high(name, i == 0 ? O_WRONLY : O_RDONLY);
		if (fds[i] < 0 || fds[2 + i] < 0)
			return false;
	}
	return true;
}

/* Of any process of the program. That of a child of this one: until it can be waited for. */
void await_end(pid_t real)
{
	siginfo_t info;
	int fd = syscall(SYS_pidfd_open, real, 0);

	if (fd < 0 && errno == ESRCH)
		return;
	if (fd < 0) {
		/* Before Linux 5.3, and where a container's rules do not know the call. */
		syscall(SYS_waitid, P_PID, real, &info, WEXITED | WNOWAIT, NULL);
		return;
	}
	struct pollfd poll = { .fd = fd, .events = POLLIN };
	while (syscall(SYS_poll, &poll, 1, -1) < 0 && errno == EINTR)
		;
	syscall(SYS_close, fd);
}

static int open_child(pid_t pid)
{
	request_begin(REQUEST_open_child, ARG_open_child_WORDS)[ARG_open_child_pid] = pid;
	return request_send();
}

/* The host serves the child from now on. */
static int tell_host(pid_t pid, pid_t real)
{
	uint64_t handles[256][2];
	int count = socket_handles(handles, 256);

	if (count > 256)
		native_fail("fork with %d sockets: expected at most 256", count);
	uint64_t *arg = request_begin(REQUEST_forked, ARG_forked_WORDS);
	arg[ARG_forked_pid] = pid;
	arg[ARG_forked_real] = real;
	for (int i = 0; i < count; i++) {
		uint64_t *row = request_row(ROW_forked_WORDS);
		row[ROW_forked_kind] = handles[i][0];
		row[ROW_forked_handle] = handles[i][1];
	}
	return request_send();
}

EXPORT pid_t fork(void)
{
	int fds[4] = { -1, -1, -1, -1 };
	struct child *child = children;

	if (!native.active || !this_thread)
		return LIBC(fork)();
	while (child < children + CHILDREN && child->pid)
		child++;
	if (child == children + CHILDREN)
		return fail(EAGAIN);
	request_begin(REQUEST_fork, ARG_fork_WORDS);
	int error = request_send();
	if (error == ENOSYS)
		return LIBC(fork)();
	if (error)
		return fail(error);
	forking_pid = answer()[ANSWER_fork_pid];
	if (!make_pipes(forking_pid, fds)) {
		close_all(fds);
		return -1;
	}
	/* From now on: an ahead-running clock read would not see what the child stores. */
	native.has_relatives = true;
	memcpy(forking_pipes, fds, sizeof(fds));
	pid_t real = LIBC(fork)();
	if (real == 0)
		return 0;
	forking_pipes[0] = -1;
	error = real < 0 ? errno : open_child(forking_pid);
	/* Its end is the end of its pipes: no other process has them. */
	close_all(fds);
	error = error ? error : tell_host(forking_pid, real);
	if (error) {
		if (real > 0) {
			LIBC(kill)(real, SIGKILL);
			LIBC(waitpid)(real, NULL, 0);
		}
		return fail(error);
	}
	*child = (struct child){ forking_pid, real };
	return child->pid;
}

EXPORT pid_t getpid(void)
{
	return native.active ? (pid_t)native.pid : syscall(SYS_getpid);
}

EXPORT pid_t getppid(void)
{
	return native.active ? parent : syscall(SYS_getppid);
}

/* A child that has ended: NULL and errno; errno 0 where none has and the call does not wait. */
static struct child *ended_child(pid_t pid, int options)
{
	int alarms = native.alarm_count;

	for (;;) {
		raise_alarm_if_due();
		uint64_t now = native.now_ps + native.used_ps;
		uint64_t *arg = request_begin(REQUEST_wait_child, ARG_wait_child_WORDS);
		arg[ARG_wait_child_pid] = pid;
		arg[ARG_wait_child_keep] = (options & WNOWAIT) != 0;
		arg[ARG_wait_child_timeoutPs] = options & WNOHANG ? 0 :
						native.alarm_ps == NEVER ? NEVER :
						native.alarm_ps - now;
		int error = request_send();
		struct child *child = error ? NULL : child_of(answer()[ANSWER_wait_child_pid]);
		if (!error && !child)
			native_fail("the host names a child that there is not");
		raise_alarm_if_due();
		if (child)
			return child;
		errno = error == ETIMEDOUT ? 0 : error;
		if (error != ETIMEDOUT || options & WNOHANG)
			return NULL;
		errno = EINTR;
		if (native.alarm_count != alarms && !alarm_restarts())
			return NULL;
	}
}

/* Times of the machine's CPU say nothing here: all virtual time is the program's (clock(3), too). */
static void show_usage(struct rusage *usage, uint64_t ps)
{
	if (!usage)
		return;
	memset(usage, 0, sizeof(*usage));
	usage->ru_utime = (struct timeval){ ps / PS_PER_S, ps % PS_PER_S / PS_PER_US };
}

/* -1 and 0 are any child's here: groups of processes are the machine's. */
static bool waits_for_relative(pid_t pid)
{
	return native.active && this_thread && (pid > 0 ? child_of(pid) != NULL : has_children());
}

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	if (!waits_for_relative(pid))
		return LIBC(wait4)(pid, status, options, usage);
	struct child *child = ended_child(pid > 0 ? pid : 0, options & ~WNOWAIT);
	if (!child)
		return errno ? -1 : 0;
	/* It has let go of its pipes: as it ends, or for a program in its place, which is waited for. */
	LIBC(wait4)(child->real, status, 0, NULL);
	show_usage(usage, 0);
	pid = child->pid;
	child->pid = 0;
	return pid;
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	return waits_for_relative(pid) ? wait4(pid, status, options, NULL) :
					 LIBC(waitpid)(pid, status, options);
}

EXPORT pid_t wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	pid_t pid = type == P_PID ? (pid_t)id : -1;

	if (!waits_for_relative(pid))
		return LIBC(waitid)(type, id, info, options);
	if (!(options & WEXITED))
		return fail(EINVAL);
	if (info)
		memset(info, 0, sizeof(*info));
	struct child *child = ended_child(pid > 0 ? pid : 0, options);
	if (!child)
		return errno ? -1 : 0;
	int result = LIBC(waitid)(P_PID, child->real, info, options & ~WNOHANG);
	if (info)
		info->si_pid = child->pid;
	if (!(options & WNOWAIT))
		child->pid = 0;
	return result;
}

/* Of a process of the machine: whether the signal ends it, as it neither catches nor ignores it. */
static bool is_deadly(pid_t real, int signal)
{
	char path[64], line[256];
	uint64_t kept = 0, mask;

	if (signal == SIGKILL)
		return true;
	if (signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH || signal == SIGCONT ||
	    signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", real);
	FILE *file = LIBC(fopen)(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "SigBlk: %lx", &mask) == 1 || sscanf(line, "SigIgn: %lx", &mask) == 1 ||
		    sscanf(line, "SigCgt: %lx", &mask) == 1)
			kept |= mask;
	fclose(file);
	return !(kept >> (signal - 1) & 1);
}

/* A child that the rack does not have, by posix_spawn(3) for one: its number is the machine's. */
static bool is_outside_child(pid_t pid)
{
	char path[64], line[256];
	int of = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *file = pid > 0 ? LIBC(fopen)(path, "re") : NULL;
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "PPid: %d", &of);
	if (file)
		fclose(file);
	return of && of == (pid_t)syscall(SYS_getpid);
}

EXPORT int kill(pid_t pid, int signal)
{
	if (!native.active)
		return LIBC(kill)(pid, signal);
	if (pid == (pid_t)native.pid)
		return LIBC(kill)(syscall(SYS_getpid), signal);
	struct child *child = this_thread ? child_of(pid) : NULL;
	if (!child && is_outside_child(pid))
		return LIBC(kill)(pid, signal);
	if (signal == 0)
		return child || pid == parent ? 0 : fail(ESRCH);
	if (signal < 0 || signal >= NSIG)
		return fail(EINVAL);
	if (!child || !is_deadly(child->real, signal)) {
		complain("kill: signal %d to process %d is refused: expected one to a child, which ends it",
			 signal, pid);
		return fail(EPERM);
	}
	if (LIBC(kill)(child->real, signal) < 0)
		return -1;
	siginfo_t info;
	LIBC(waitid)(P_PID, child->real, &info, WEXITED | WNOWAIT);
	request_begin(REQUEST_child_killed, ARG_child_killed_WORDS)[ARG_child_killed_pid] = pid;
	int error = request_send();
	return error ? fail(error) : 0;
}

EXPORT int getrusage(__rusage_who_t who, struct rusage *usage)
{
	if (!native.active)
		return LIBC(getrusage)(who, usage);
	if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN && who != RUSAGE_THREAD)
		return fail(EINVAL);
	show_usage(usage, who == RUSAGE_CHILDREN ? 0 : virtual_now_ps());
	return 0;
}

EXPORT clock_t times(struct tms *used)
{
	if (!native.active)
		return LIBC(times)(used);
	clock_t ticks = virtual_now_ps() / (PS_PER_S / sysconf(_SC_CLK_TCK));
	if (used)
		*used = (struct tms){ .tms_utime = ticks };
	return ticks;
}

/* Calls that name a process or a thread, and are the machine's but for that. */

static pid_t machine_number(pid_t pid)
{
	if (!native.active || pid <= 0)
		return pid;
	struct child *child = child_of(pid);
	pid_t tid = child ? child->real : thread_tid(pid);
	return tid ? tid : pid;
}

#define EACH_CALL(type, name, parameters, arguments)      \
	EXPORT type name parameters                       \
	{                                                 \
		pid_t real = machine_number(pid);         \
		return LIBC(name) arguments;              \
	}

EACH_CALL(int, sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *set), (real, size, set))
EACH_CALL(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (real, size, set))
EACH_CALL(int, sched_setscheduler, (pid_t pid, int policy, const struct sched_param *param),
	  (real, policy, param))
EACH_CALL(int, sched_getscheduler, (pid_t pid), (real))
EACH_CALL(int, sched_setparam, (pid_t pid, const struct sched_param *param), (real, param))
EACH_CALL(int, sched_getparam, (pid_t pid, struct sched_param *param), (real, param))
EACH_CALL(int, sched_rr_get_interval, (pid_t pid, struct timespec *interval), (real, interval))
EACH_CALL(int, prlimit64, (pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit,
			   struct rlimit64 *old), (real, resource, limit, old))
EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit,
		   struct rlimit *old) __attribute__((alias("prlimit64")));
EACH_CALL(pid_t, getpgid, (pid_t pid), (real))
EACH_CALL(pid_t, getsid, (pid_t pid), (real))
EACH_CALL(ssize_t, process_vm_readv, (pid_t pid, const struct iovec *here, unsigned long heres,
	  const struct iovec *there, unsigned long theres, unsigned long flags),
	  (real, here, heres, there, theres, flags))
EACH_CALL(ssize_t, process_vm_writev, (pid_t pid, const struct iovec *here, unsigned long heres,
	  const struct iovec *there, unsigned long theres, unsigned long flags),
	  (real, here, heres, there, theres, flags))

EXPORT int getpriority(__priority_which_t which, id_t who)
{
	return LIBC(getpriority)(which, which == PRIO_PROCESS ? (id_t)machine_number(who) : who);
}

EXPORT int setpriority(__priority_which_t which, id_t who, int priority)
{
	return LIBC(setpriority)(which, which == PRIO_PROCESS ? (id_t)machine_number(who) : who, priority);
}

EXPORT int tgkill(pid_t pid, pid_t tid, int signal)
{
	return LIBC(tgkill)(machine_number(pid), machine_number(tid), signal);
}
