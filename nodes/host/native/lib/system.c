/*
 * System calls by number. syscall(2) of the program is taken over for what this library has in the
 * kernel's place and programs call so: clocks, sleeps, numbers of threads and processes, futexes.
 */
#define _GNU_SOURCE
#include "net.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/random.h>
#include <sys/time.h>

static long kernel(long number, const long arg[6])
{
	register long r10 __asm__("r10") = arg[3];
	register long r8 __asm__("r8") = arg[4];
	register long r9 __asm__("r9") = arg[5];
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(arg[0]), "S"(arg[1]), "d"(arg[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if ((unsigned long)result < -4095ul)
		return result;
	errno = -result;
	return -1;
}

/* Those that a call does not give are read all the same, and unused: they are words on x86-64. */
#define ARGUMENTS(arg)                           \
	do {                                     \
		va_list args_;                   \
		va_start(args_, number);         \
		for (int i_ = 0; i_ < 6; i_++)   \
			arg[i_] = va_arg(args_, long); \
		va_end(args_);                   \
	} while (0)

__attribute__((no_sanitize("address"))) long direct_syscall(long number, ...)
{
	long arg[6];

	ARGUMENTS(arg);
	return kernel(number, arg);
}

static int after_clock_nanosleep(int error)
{
	return error ? fail(error) : 0;
}

#undef syscall
EXPORT __attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	long arg[6];

	ARGUMENTS(arg);
	if (!native.active)
		return kernel(number, arg);
	switch (number) {
	case SYS_gettid:
		return thread_number();
	case SYS_getpid:
		return getpid();
	case SYS_getppid:
		return getppid();
	case SYS_kill:
		return kill(arg[0], arg[1]);
	case SYS_tgkill:
		return tgkill(arg[0], arg[1], arg[2]);
	case SYS_clock_gettime:
		return clock_gettime(arg[0], (struct timespec *)arg[1]);
	case SYS_clock_getres:
		return clock_getres(arg[0], (struct timespec *)arg[1]);
	case SYS_gettimeofday:
		return gettimeofday((struct timeval *)arg[0], (void *)arg[1]);
	case SYS_time:
		return time((time_t *)arg[0]);
	case SYS_nanosleep:
		return nanosleep((struct timespec *)arg[0], (struct timespec *)arg[1]);
	case SYS_clock_nanosleep:
		return after_clock_nanosleep(clock_nanosleep(
			arg[0], arg[1], (struct timespec *)arg[2], (struct timespec *)arg[3]));
	case SYS_sched_yield:
		return sched_yield();
	case SYS_getrandom:
		return getrandom((void *)arg[0], arg[1], arg[2]);
	case SYS_futex:
		return thread_futex((uint32_t *)arg[0], arg[1], arg[2], (struct timespec *)arg[3],
				    arg[5]);
	default:
		return kernel(number, arg);
	}
}
