/*
 * Virtual time for every clock that a program can read: libc's functions, the time stamp counter
 * (trapped by prctl(PR_SET_TSC), since rdtsc is no call), the alarm, and what else would differ
 * between two runs: the process's number, random bytes, the machine's description of its CPU.
 */
#define _GNU_SOURCE
#include "net.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PS_PER_NS 1000ull
#define PS_PER_US 1000000ull
#define PS_PER_S 1000000000000ull
/* Virtual time begins at 2020-01-01 00:00:00 UTC for those clocks that count from 1970. */
#define EPOCH_S 1577836800ull

bool use_locally(uint64_t ps)
{
	raise_alarm_if_due();
	turns++;
	uint64_t end_ps = native.now_ps + native.used_ps + ps;
	/* The host learns of stores by the next request, whatever it is: so it is not put off. */
	if (scm_has_stores)
		return false;
	if (end_ps >= native.lease_ps && !(end_ps < native.unwritten_ps && ahead_may_look()))
		return false;
	native.used_ps += ps;
	return true;
}

static __attribute__((noinline)) uint64_t pass(uint64_t ps)
{
	bool fits = use_locally(ps);

	if (!fits && !scm_has_stores && ahead_may_read_clock()) {
		native.used_ps += ps;
	} else if (!fits) {
		/* Begun first: alarms come between calls, with a lease and without one. */
		request_begin(REQUEST_clock, ARG_clock_WORDS);
		native.used_ps += ps;
		request_send();
	}
	return native.now_ps + native.used_ps;
}

static __attribute__((noinline)) uint64_t pass_swept(uint64_t ps)
{
	uint64_t now = pass(ps);

	stack_sweep(SWEPT_OF_LOOK);
	return now;
}

void virtual_pass(uint64_t ps)
{
	pass_swept(ps);
}

uint64_t virtual_now_ps(void)
{
	return pass_swept(native.clock_ps);
}

static struct timespec since(uint64_t epoch_s, uint64_t ps)
{
	return (struct timespec){ epoch_s + ps / PS_PER_S, ps % PS_PER_S / PS_PER_NS };
}

/* Since 1970, or since the begin: a host that has just started. CPU time is all of the time. */
uint64_t clock_epoch_s(clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_REALTIME_ALARM:
	case CLOCK_TAI:
		return EPOCH_S;
	default:
		return 0;
	}
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!native.active)
		return LIBC(clock_gettime)(clock, now);
	*now = since(clock_epoch_s(clock), virtual_now_ps());
	return 0;
}

EXPORT int clock_getres(clockid_t clock, struct timespec *resolution)
{
	if (!native.active)
		return LIBC(clock_getres)(clock, resolution);
	if (resolution)
		*resolution = (struct timespec){ 0, 1 };
	return 0;
}

EXPORT int timespec_get(struct timespec *now, int base)
{
	if (!native.active)
		return LIBC(timespec_get)(now, base);
	if (base != TIME_UTC)
		return 0;
	*now = since(EPOCH_S, virtual_now_ps());
	return base;
}

/* Its second argument is void * or struct timezone * by the version of libc; both are obsolete. */
EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	if (!native.active)
		return LIBC(gettimeofday)(now, zone);
	struct timespec time = since(EPOCH_S, virtual_now_ps());
	*now = (struct timeval){ time.tv_sec, time.tv_nsec / 1000 };
	if (zone)
		memset(zone, 0, sizeof(struct timezone));
	return 0;
}

EXPORT time_t time(time_t *now)
{
	if (!native.active)
		return LIBC(time)(now);
	time_t seconds = since(EPOCH_S, virtual_now_ps()).tv_sec;
	if (now)
		*now = seconds;
	return seconds;
}

EXPORT clock_t clock(void)
{
	return native.active ? (clock_t)(virtual_now_ps() / PS_PER_US) : LIBC(clock)();
}

bool alarm_restarts(void)
{
	struct sigaction action;

	return LIBC(sigaction)(SIGALRM, NULL, &action) == 0 && action.sa_flags & SA_RESTART;
}

/* The alarm: one timer of the process, by alarm(2) or by setitimer(2) of ITIMER_REAL. */
static uint64_t alarm_interval_ps;
static uint64_t random_state;

static __attribute__((noinline)) void raise_alarm(void)
{
	raise(SIGALRM);
	stack_sweep(SWEPT_OF_SIGNAL);
}

void raise_alarm_if_due(void)
{
	while (native.now_ps + native.used_ps >= native.alarm_ps && native.active && !in_request) {
		native.alarm_ps = alarm_interval_ps ? native.alarm_ps + alarm_interval_ps : NEVER;
		native.alarm_count++;
		raise_alarm();
	}
}

void wait_with_alarm(int kind, uint64_t handle, int events)
{
	while (native.alarm_ps != NEVER && native.active) {
		raise_alarm_if_due();
		uint64_t now = native.now_ps + native.used_ps, alarm = native.alarm_ps;
		if (alarm == NEVER)
			return;
		request_begin(REQUEST_poll, ARG_poll_WORDS)[ARG_poll_timeoutPs] = alarm - now;
		uint64_t *row = request_row(ROW_poll_WORDS);
		row[ROW_poll_kind] = kind;
		row[ROW_poll_handle] = handle;
		row[ROW_poll_events] = events;
		if (request_send() || answer()[ANSWER_ROW_poll_ready])
			return;
	}
}

static uint64_t timer_ps(const struct timeval *time)
{
	return time->tv_sec * PS_PER_S + time->tv_usec * PS_PER_US;
}

static struct timeval timer_value(uint64_t ps)
{
	return (struct timeval){ ps / PS_PER_S, ps % PS_PER_S / PS_PER_US };
}

EXPORT int getitimer(__itimer_which_t which, struct itimerval *value)
{
	if (!native.active)
		return LIBC(getitimer)(which, value);
	if (which != ITIMER_REAL) {
		errno = EINVAL;
		return -1;
	}
	uint64_t now = virtual_now_ps();
	value->it_interval = timer_value(alarm_interval_ps);
	value->it_value = timer_value(native.alarm_ps == NEVER ? 0 : native.alarm_ps - now);
	return 0;
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *value, struct itimerval *old)
{
	if (!native.active)
		return LIBC(setitimer)(which, value, old);
	struct itimerval previous;
	if (getitimer(which, old ? old : &previous) < 0)
		return -1;
	uint64_t ps = timer_ps(&value->it_value);
	native.alarm_ps = ps ? native.now_ps + native.used_ps + ps : NEVER;
	alarm_interval_ps = timer_ps(&value->it_interval);
	return 0;
}

EXPORT unsigned alarm(unsigned seconds)
{
	struct itimerval value = { .it_value.tv_sec = seconds }, old;

	if (!native.active)
		return LIBC(alarm)(seconds);
	setitimer(ITIMER_REAL, &value, &old);
	return old.it_value.tv_sec + (old.it_value.tv_usec > 0);
}

/* A read of the counter: the trap below comes from it, and from any other fault of the program. */
static struct sigaction segv_of_program;

static void on_segv(int signal, siginfo_t *info, void *context)
{
	greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)reg[REG_RIP];

	if (scm_active && info->si_code == SEGV_ACCERR && scm_fault(info->si_addr))
		return;
	if (ahead_took_fault(info))
		return;
	/* The trap of a privileged instruction has no address; a jump to nowhere has its own. */
	if (info->si_code == SI_KERNEL && info->si_addr == NULL && code[0] == 0x0f &&
	    (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9))) {
		unsigned __int128 ticks = pass(native.tsc_ps);
		ticks = ticks * native.ticks_per_us / PS_PER_US;
		reg[REG_RAX] = (uint32_t)ticks;
		reg[REG_RDX] = (uint64_t)ticks >> 32;
		reg[REG_RIP] += code[1] == 0x31 ? 2 : 3;
		if (code[1] != 0x31)
			reg[REG_RCX] = 0; /* rdtscp: the CPU's number */
		return;
	}
	if (segv_of_program.sa_flags & SA_SIGINFO)
		segv_of_program.sa_sigaction(signal, info, context);
	else if (segv_of_program.sa_handler != SIG_DFL && segv_of_program.sa_handler != SIG_IGN)
		segv_of_program.sa_handler(signal);
	else
		LIBC(sigaction)(SIGSEGV, &segv_of_program, NULL); /* the fault comes again */
}

/* The program's own handler of SIGSEGV runs behind ours. */
EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	if (!native.active || signal != SIGSEGV)
		return LIBC(sigaction)(signal, action, old);
	if (old)
		*old = segv_of_program;
	if (action)
		segv_of_program = *action;
	return 0;
}

EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	if (!native.active || number != SIGSEGV)
		return LIBC(signal)(number, handler);
	sigaction(number, &action, &old);
	return old.sa_handler;
}

/* A child has no timer of its parent's, and other random bytes. */
void clock_begin_child(void)
{
	native.alarm_ps = NEVER;
	alarm_interval_ps = 0;
	random_state = 0;
}

static bool counter_traps;

static void trap_counter(bool trap)
{
	if (counter_traps)
		prctl(PR_SET_TSC, trap ? PR_TSC_SIGSEGV : PR_TSC_ENABLE);
}

void clock_start(void)
{
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	LIBC(sigaction)(SIGSEGV, &action, &segv_of_program);
	counter_traps = true;
	trap_counter(true);
}

void clock_stop(void)
{
	trap_counter(false);
	counter_traps = false;
}

/*
 * The trap outlives execve, and the loader of the next program reads the counter. Where a program
 * starts another one, the trap is off until the call returns.
 */
#define UNTRAPPED(call)                        \
	({                                     \
		trap_counter(false);           \
		typeof(call) result_ = (call); \
		trap_counter(true);            \
		result_;                       \
	})

/*
 * In the program's own process, not in a child's: what comes after has neither this library nor a place
 * in the rack's time.
 */
static int before_exec(const char *path)
{
	if (!native.active || native.real_pid != (uint64_t)syscall(SYS_getpid))
		return -1;
	if (!native.is_child)
		native_fail("the program starts %s in its place (exec): expected a child's", path);
	/* In no sandbox it would outlive the program, and the rack. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	request_begin(REQUEST_exec, ARG_exec_WORDS);
	request_send();
	return channel_before_exec();
}

#define EXEC(path, call)                      \
	({                                    \
		int kept_ = before_exec(path); \
		int failed_ = UNTRAPPED(call); \
		channel_after_exec(kept_);    \
		failed_;                      \
	})

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return EXEC(path, LIBC(execve)(path, argv, envp));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return EXEC(file, LIBC(execvpe)(file, argv, envp));
}

EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

/* Their arguments in a row, and the environment behind them: glibc's own call none of the above. */
#define EXEC_LIST(first, call, environment)                                       \
	({                                                                        \
		va_list args_;                                                    \
		size_t count_ = 1;                                                \
		va_start(args_, first);                                           \
		while (va_arg(args_, char *))                                     \
			count_++;                                                 \
		va_end(args_);                                                    \
		char *argv_[count_ + 1];                                          \
		argv_[0] = (char *)first;                                         \
		va_start(args_, first);                                           \
		for (size_t i_ = 1; i_ <= count_; i_++)                           \
			argv_[i_] = va_arg(args_, char *);                        \
		char *const *envp_ = environment;                                 \
		va_end(args_);                                                    \
		call(path, argv_, envp_);                                         \
	})

EXPORT int execl(const char *path, const char *first, ...)
{
	return EXEC_LIST(first, execve, environ);
}

EXPORT int execlp(const char *path, const char *first, ...)
{
	return EXEC_LIST(first, execvpe, environ);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	return EXEC_LIST(first, execve, va_arg(args_, char *const *));
}

/* Its child would be the program, and has no place in the rack's time: it stays where it is. */
EXPORT int daemon(int stay, int keep)
{
	if (native.active)
		native_fail("the program goes to the background (daemon): expected one that stays");
	return LIBC(daemon)(stay, keep);
}

/* The signals by which this library sees loops, counters, and stores stay open to it. */
static const sigset_t *unblockable(int how, const sigset_t *set, sigset_t *copy)
{
	static const int own[] = { SIGSEGV, SIGTRAP, SIGSYS };

	if (!native.active || !set || how == SIG_UNBLOCK)
		return set;
	*copy = *set;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(copy, own[i]);
	sigdelset(copy, TICK_SIGNAL);
	return copy;
}

EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	sigset_t copy;
	return LIBC(sigprocmask)(how, unblockable(how, set, &copy), old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	sigset_t copy;
	return LIBC(pthread_sigmask)(how, unblockable(how, set, &copy), old);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	return UNTRAPPED(LIBC(posix_spawn)(pid, path, actions, attributes, argv, envp));
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[],
			char *const envp[])
{
	return UNTRAPPED(LIBC(posix_spawnp)(pid, file, actions, attributes, argv, envp));
}

EXPORT int system(const char *command)
{
	return UNTRAPPED(LIBC(system)(command));
}

EXPORT FILE *popen(const char *command, const char *type)
{
	return UNTRAPPED(LIBC(popen)(command, type));
}

/* Random bytes: splitmix64 of the host's name and the process's number, so each run has the same. */
static void fill_randomly(void *bytes, size_t length)
{
	if (random_state == 0) {
		random_state = native.pid;
		for (const char *c = native.host; *c; c++)
			random_state = (random_state ^ (uint8_t)*c) * 0x100000001b3ull;
	}
	for (size_t i = 0; i < length; i++) {
		uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		((uint8_t *)bytes)[i] = (z ^ (z >> 31)) & 0xff;
	}
}

EXPORT ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
	if (!native.active)
		return LIBC(getrandom)(bytes, length, flags);
	fill_randomly(bytes, length);
	return length;
}

EXPORT int getentropy(void *bytes, size_t length)
{
	if (!native.active)
		return LIBC(getentropy)(bytes, length);
	fill_randomly(bytes, length);
	return 0;
}

/* A descriptor of a stretch of random bytes, or -1. */
static int open_random(const char *path)
{
	char bytes[1 << 14];

	if (!native.active || (strcmp(path, "/dev/urandom") != 0 && strcmp(path, "/dev/random") != 0))
		return -1;
	fill_randomly(bytes, sizeof(bytes));
	int fd = memfd_create("rackmesh", MFD_CLOEXEC);
	if (fd >= 0 && pwrite(fd, bytes, sizeof(bytes), 0) < 0) {
		syscall(SYS_close, fd);
		return -1;
	}
	return fd;
}

/* A file in place of the machine's: to be read, and no device of the kernel. */
static bool may_open(const char *path, int flags)
{
	if (strncmp(path, "/dev/infiniband/uverbs", strlen("/dev/infiniband/uverbs")) == 0) {
		complain("%s is refused: its commands are the kernel's, expected libibverbs", path);
		errno = ENXIO;
		return false;
	}
	errno = EACCES;
	return (flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC);
}

static int open_file(int folder, const char *path, int flags, mode_t mode)
{
	if (cm_is_path(path))
		return cm_open(flags);
	int fd = scm_open_file(path, flags);
	if (fd != -2)
		return fd;
	fd = open_random(path);
	if (fd >= 0)
		return fd;
	struct path_room room;
	const char *found = found_path(path, &room);
	if (is_own_file(found) && !may_open(path, flags))
		return -1;
	return LIBC(openat)(folder, found, flags, mode);
}

/* The mode is there only with these flags; a register that nobody set is read else, and unused. */
#define MODE_ARGUMENT                                            \
	({                                                       \
		va_list args_;                                   \
		va_start(args_, flags);                          \
		mode_t mode_ = flags & (O_CREAT | __O_TMPFILE) ? \
				       va_arg(args_, mode_t) : 0; \
		va_end(args_);                                   \
		mode_;                                           \
	})

EXPORT int open(const char *path, int flags, ...)
{
	return open_file(AT_FDCWD, path, flags, MODE_ARGUMENT);
}

EXPORT int openat(int folder, const char *path, int flags, ...)
{
	return open_file(folder, path, flags, MODE_ARGUMENT);
}

/* Of fopen's mode. */
static int flags_of(const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;

	return flags | (*mode == 'w' ? O_TRUNC : 0);
}

EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
	struct path_room room;
	int fd = open_random(path);

	if (fd >= 0)
		return fdopen(fd, mode);
	const char *found = found_path(path, &room);
	return !is_own_file(found) || may_open(path, flags_of(mode)) ? LIBC(fopen)(found, mode) : NULL;
}

EXPORT FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict stream)
{
	struct path_room room;
	const char *found = found_path(path, &room);

	if (is_own_file(found) && !may_open(path, flags_of(mode))) {
		fclose(stream);
		return NULL;
	}
	return LIBC(freopen)(found, mode, stream);
}

/* The same on x86-64; _FORTIFY_SOURCE's are called where the flags ask for no mode. */
EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));
EXPORT int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));
EXPORT FILE *fopen64(const char *restrict path, const char *restrict mode)
	__attribute__((alias("fopen")));
EXPORT FILE *freopen64(const char *restrict path, const char *restrict mode, FILE *restrict stream)
	__attribute__((alias("freopen")));

EXPORT int __open_2(const char *path, int flags)
{
	return open_file(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

EXPORT int __openat_2(int folder, const char *path, int flags)
{
	return open_file(folder, path, flags, 0);
}

EXPORT int __openat64_2(int folder, const char *path, int flags)
	__attribute__((alias("__openat_2")));
