/*
 * Threads. One thread of a process runs at a time: from the host's reply until its next request. All
 * that a thread may wait for in another one is therefore a request (`futex_wait`, `futex_wake`): the
 * members of each family try by the C library's own functions, which never block then, and wait at the
 * host. Nothing here needs atomic operations: between two requests no other thread runs.
 *
 * Condition variables and barriers are this library's own, in the memory of glibc's.
 */
#define _GNU_SOURCE
#include "net.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PS_PER_NS 1000ull
#define PS_PER_S 1000000000000ull

static struct thread main_thread;
static struct thread *threads = &main_thread; /* all that have not ended, and those to be joined */
static uint64_t last_number;
static pthread_key_t end_key;
static volatile pid_t leaving; /* has handed its turn over, and is about to be no more */

__thread struct thread *this_thread;

void threads_start(void)
{
	main_thread.id = pthread_self();
	main_thread.tid = syscall(SYS_gettid);
	this_thread = &main_thread;
}

struct thread *thread_of(uint64_t number)
{
	for (struct thread *thread = threads; thread; thread = thread->next)
		if (thread->number == number)
			return thread;
	native_fail("the host answers thread %lu: there is none", number);
}

/* The first thread has the process's number; the others' are their own on each host. */
#define TASK(thread) ((pid_t)(native.pid + 10000 * (thread)->number))

pid_t real_task(pid_t task)
{
	for (struct thread *thread = threads; thread; thread = thread->next)
		if (native.active && !thread->ended && task == TASK(thread))
			return thread->tid;
	return task;
}

EXPORT pid_t gettid(void)
{
	return native.active && this_thread ? TASK(this_thread) : (pid_t)syscall(SYS_gettid);
}

static void sleep_while(volatile uint32_t *word, uint32_t value)
{
	while (*word == value)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void set_word(volatile uint32_t *word, uint32_t value)
{
	*word = value;
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void thread_hand_over(struct thread *to)
{
	set_word(&to->turn, 1);
}

void thread_await_turn(void)
{
	sleep_while(&this_thread->turn, 0);
	this_thread->turn = 0;
	/* What a thread does last (its stack, its heap) must not depend on when it is done. */
	while (leaving && syscall(SYS_tgkill, syscall(SYS_getpid), leaving, 0) == 0)
		syscall(SYS_sched_yield);
	leaving = 0;
}

static bool is_threaded(void)
{
	return native.active && this_thread;
}

/* Cancellation: at requests that wait, and where a program tests it. */

static bool is_cancelled(void)
{
	return this_thread && this_thread->cancelled && !this_thread->uncancellable;
}

static void end_if_cancelled(void)
{
	if (!is_cancelled())
		return;
	this_thread->uncancellable = true;
	pthread_exit(PTHREAD_CANCELED);
}

/* Before a request: those that wait are cancellation points, as their calls are (pthreads(7)). */
void thread_asks(int request)
{
	switch (request) {
	case REQUEST_sleep:
	case REQUEST_poll:
	case REQUEST_get_cq_event:
	case REQUEST_get_async_event:
	case REQUEST_cm_get_event:
	case REQUEST_socket_accept:
	case REQUEST_socket_connect:
	case REQUEST_socket_send:
	case REQUEST_socket_receive:
		end_if_cancelled();
	}
}

void thread_answered(int error)
{
	if (error == ECANCELED && !this_thread->defers)
		end_if_cancelled();
}

EXPORT void pthread_testcancel(void)
{
	if (!is_threaded())
		LIBC(pthread_testcancel)();
	else
		end_if_cancelled();
}

EXPORT int pthread_setcancelstate(int state, int *old)
{
	int error = LIBC(pthread_setcancelstate)(state, old);
	if (!error && this_thread)
		this_thread->uncancellable = state == PTHREAD_CANCEL_DISABLE;
	return error;
}

static struct thread *thread_by_id(pthread_t id)
{
	for (struct thread *thread = threads; thread; thread = thread->next)
		if (pthread_equal(thread->id, id))
			return thread;
	return NULL;
}

EXPORT int pthread_cancel(pthread_t id)
{
	struct thread *thread = is_threaded() ? thread_by_id(id) : NULL;

	if (!thread)
		return LIBC(pthread_cancel)(id);
	if (thread->ended)
		return 0;
	thread->cancelled = true;
	if (thread == this_thread || thread->uncancellable)
		return 0;
	request_begin(REQUEST_thread_cancel, ARG_thread_cancel_WORDS)[ARG_thread_cancel_of] =
		thread->number;
	request_send();
	return 0;
}

/* Waits at the host for a wake of `key`: 0, ETIMEDOUT, or ECANCELED. */
static int wait_on(const volatile void *key, uint64_t until_ps, bool cancellable)
{
	int error = 0;

	if (cancellable && is_cancelled())
		return ECANCELED;
	raise_alarm_if_due();
	uint64_t now = native.now_ps + native.used_ps;
	if (until_ps <= now)
		return ETIMEDOUT;
	this_thread->waits_on = key;
	this_thread->defers = true;
	uint64_t *arg = request_begin(REQUEST_futex_wait, ARG_futex_wait_WORDS);
	arg[ARG_futex_wait_key] = (uintptr_t)key;
	arg[ARG_futex_wait_timeoutPs] = until_ps == NEVER ? NEVER : until_ps - now;
	arg[ARG_futex_wait_cancellable] = cancellable;
	error = request_send();
	this_thread->defers = false;
	this_thread->waits_on = NULL;
	return error;
}

static bool has_waiter(const volatile void *key)
{
	for (struct thread *thread = threads; thread; thread = thread->next)
		if (thread->waits_on == key)
			return true;
	return false;
}

static void wake(const volatile void *key, unsigned count)
{
	if (!is_threaded() || !has_waiter(key))
		return;
	int saved = errno;
	uint64_t *arg = request_begin(REQUEST_futex_wake, ARG_futex_wake_WORDS);
	arg[ARG_futex_wake_key] = (uintptr_t)key;
	arg[ARG_futex_wake_count] = count;
	request_send();
	errno = saved;
}

/* When an absolute time of a clock is, in the host's time. */
static uint64_t when(clockid_t clock, const struct timespec *time)
{
	int64_t seconds = time->tv_sec - (int64_t)clock_epoch_s(clock);

	if (seconds < 0)
		return 0;
	return seconds > 1000000 ? (uint64_t)NEVER : seconds * PS_PER_S + time->tv_nsec * PS_PER_NS;
}

/* Descriptors of the machine that threads share. */

const char descriptors_key;

bool threads_share_descriptors(void)
{
	return is_threaded() && threads->next;
}

void thread_waits_on(const volatile void *key)
{
	this_thread->waits_on = key;
}

/* [choice] A system call that finds nothing takes some 0.2 µs. */
#define REFUSED_PS 200000

void descriptors_refused(void)
{
	if (threads_share_descriptors())
		virtual_pass(REFUSED_PS);
}

void descriptors_changed(void)
{
	wake(&descriptors_key, UINT_MAX);
}

void descriptors_await(int fd, int flags)
{
	struct pollfd polled = { fd, POLLIN, 0 };

	if (!threads_share_descriptors() || (flags & MSG_DONTWAIT) || !descriptor_waits(fd))
		return;
	while (poll_now(&polled, 1) == 0)
		if (wait_on(&descriptors_key, NEVER, true) == ECANCELED)
			end_if_cancelled();
}

/* Threads. */

static void forget(struct thread *thread)
{
	struct thread **at = &threads;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	/* A few bytes remain: of a thread that is in use at the host, and of main's. */
	if (thread != &main_thread && thread->joined)
		free(thread);
}

/* The last of the destructors of thread-specific data: others may still make requests. */
static void end_thread(void *data)
{
	struct thread *thread = data;

	if (!native.active)
		return;
	if (++thread->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(end_key, thread);
		return;
	}
	thread->ended = true;
	spin_stop();
	if (thread->detached)
		forget(thread);
	leaving = thread->tid;
	uint64_t *arg = request_begin(REQUEST_thread_exit, ARG_thread_exit_WORDS);
	arg[ARG_thread_exit_key] = (uintptr_t)&thread->ended;
	/* The last thread of a process is answered, and ends the process. */
	if (request_send_last())
		leaving = 0;
	else
		this_thread = NULL;
}

static void *begin_thread(void *data)
{
	struct thread *thread = data;

	this_thread = thread;
	thread->tid = syscall(SYS_gettid);
	in_request = true;
	set_word(&thread->parked, 1);
	thread_await_turn();
	request_begun();
	if (thread->refused)
		return NULL;
	pthread_setspecific(end_key, thread);
	spin_start_thread();
	return thread->function(thread->argument);
}

static void make_key(void)
{
	if (pthread_key_create(&end_key, end_thread))
		native_fail("no thread-specific data is left");
	if (this_thread == &main_thread)
		pthread_setspecific(end_key, &main_thread);
}

EXPORT int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*function)(void *),
			  void *argument)
{
	if (!is_threaded())
		return LIBC(pthread_create)(id, attr, function, argument);
	static bool has_key;
	struct thread *made = calloc(1, sizeof(*made));
	int state = PTHREAD_CREATE_JOINABLE;

	if (!made)
		return EAGAIN;
	if (!has_key)
		make_key();
	has_key = true;
	if (attr)
		pthread_attr_getdetachstate(attr, &state);
	made->number = ++last_number;
	made->function = function;
	made->argument = argument;
	made->detached = state == PTHREAD_CREATE_DETACHED;
	int error = LIBC(pthread_create)(&made->id, attr, begin_thread, made);
	if (error) {
		free(made);
		return error;
	}
	sleep_while(&made->parked, 0);
	*id = made->id;
	made->next = threads;
	threads = made;
	request_begin(REQUEST_thread_create, ARG_thread_create_WORDS)[ARG_thread_create_number] =
		made->number;
	error = request_send();
	if (!error)
		return 0;
	made->refused = true;
	thread_hand_over(made);
	if (!made->detached)
		LIBC(pthread_join)(made->id, NULL);
	made->joined = true;
	forget(made);
	return error;
}

static int join(pthread_t id, void **result, uint64_t until_ps)
{
	struct thread *thread = thread_by_id(id);
	int error = 0;

	if (!thread)
		return ESRCH;
	if (thread == this_thread)
		return EDEADLK;
	while (!thread->ended && !error)
		error = wait_on(&thread->ended, until_ps, true);
	if (error == ECANCELED)
		end_if_cancelled();
	if (!thread->ended)
		return error;
	error = LIBC(pthread_join)(id, result);
	if (!error) {
		thread->joined = true;
		forget(thread);
	}
	return error;
}

EXPORT int pthread_join(pthread_t id, void **result)
{
	return is_threaded() ? join(id, result, NEVER) : LIBC(pthread_join)(id, result);
}

EXPORT int pthread_tryjoin_np(pthread_t id, void **result)
{
	if (!is_threaded())
		return LIBC(pthread_tryjoin_np)(id, result);
	int error = join(id, result, 0);
	return error == ETIMEDOUT ? EBUSY : error;
}

EXPORT int pthread_clockjoin_np(pthread_t id, void **result, clockid_t clock,
				const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(pthread_clockjoin_np)(id, result, clock, time);
	return join(id, result, when(clock, time));
}

EXPORT int pthread_timedjoin_np(pthread_t id, void **result, const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(pthread_timedjoin_np)(id, result, time);
	return join(id, result, when(CLOCK_REALTIME, time));
}

EXPORT int pthread_detach(pthread_t id)
{
	struct thread *thread = is_threaded() ? thread_by_id(id) : NULL;
	int error = LIBC(pthread_detach)(id);

	if (!error && thread) {
		thread->detached = true;
		if (thread->ended)
			forget(thread);
	}
	return error;
}

/* Mutexes. */

static bool is_own(const pthread_mutex_t *mutex)
{
	return mutex->__data.__owner == (int)syscall(SYS_gettid);
}

static int lock_until(pthread_mutex_t *mutex, uint64_t until_ps)
{
	for (;;) {
		int error = LIBC(pthread_mutex_trylock)(mutex);
		if (error != EBUSY)
			return error;
		if ((mutex->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK && is_own(mutex))
			return EDEADLK;
		if (wait_on(mutex, until_ps, false) == ETIMEDOUT)
			return ETIMEDOUT;
	}
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	return is_threaded() ? lock_until(mutex, NEVER) : LIBC(pthread_mutex_lock)(mutex);
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
				   const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(pthread_mutex_clocklock)(mutex, clock, time);
	return lock_until(mutex, when(clock, time));
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(pthread_mutex_timedlock)(mutex, time);
	return lock_until(mutex, when(CLOCK_REALTIME, time));
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int error = LIBC(pthread_mutex_unlock)(mutex);
	if (!error)
		wake(mutex, 1);
	return error;
}

/* Condition variables: the first word counts signals, so that none between unlock and wait is lost. */

static volatile uint64_t *signals_of(pthread_cond_t *cond)
{
	return (volatile uint64_t *)cond;
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ps)
{
	volatile uint64_t *signals = signals_of(cond);
	uint64_t before = *signals;
	int error = pthread_mutex_unlock(mutex);

	if (error)
		return error;
	if (*signals == before)
		error = wait_on(signals, until_ps, true);
	int locked = lock_until(mutex, NEVER);
	if (error == ECANCELED)
		end_if_cancelled();
	return error == ETIMEDOUT ? error : locked;
}

/* Of pthread_condattr_setclock, where glibc 2.25 and newer keep it. */
static clockid_t clock_of(const pthread_cond_t *cond)
{
	return cond->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return is_threaded() ? wait_until(cond, mutex, NEVER) : LIBC(pthread_cond_wait)(cond, mutex);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(pthread_cond_timedwait)(cond, mutex, time);
	return wait_until(cond, mutex, when(clock_of(cond), time));
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(pthread_cond_clockwait)(cond, mutex, clock, time);
	return wait_until(cond, mutex, when(clock, time));
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	if (!is_threaded())
		return LIBC(pthread_cond_signal)(cond);
	++*signals_of(cond);
	wake(cond, 1);
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (!is_threaded())
		return LIBC(pthread_cond_broadcast)(cond);
	++*signals_of(cond);
	wake(cond, UINT_MAX);
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *cond)
{
	return is_threaded() ? 0 : LIBC(pthread_cond_destroy)(cond);
}

/* Semaphores. */

static int take_until(sem_t *sem, uint64_t until_ps)
{
	int error = 0;

	while (LIBC(sem_trywait)(sem) < 0) {
		if (errno != EAGAIN)
			return -1;
		if (error == ETIMEDOUT) {
			errno = error;
			return -1;
		}
		error = wait_on(sem, until_ps, true);
		if (error == ECANCELED)
			end_if_cancelled();
	}
	return 0;
}

EXPORT int sem_wait(sem_t *sem)
{
	return is_threaded() ? take_until(sem, NEVER) : LIBC(sem_wait)(sem);
}

EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(sem_clockwait)(sem, clock, time);
	return take_until(sem, when(clock, time));
}

EXPORT int sem_timedwait(sem_t *sem, const struct timespec *time)
{
	if (!is_threaded())
		return LIBC(sem_timedwait)(sem, time);
	return take_until(sem, when(CLOCK_REALTIME, time));
}

EXPORT int sem_post(sem_t *sem)
{
	int result = LIBC(sem_post)(sem);
	if (result == 0)
		wake(sem, 1);
	return result;
}

/* Read-write locks. */

#define RWLOCK(try, until)                                             \
	do {                                                           \
		int error_;                                            \
		while ((error_ = LIBC(try)(lock)) == EBUSY)            \
			if (wait_on(lock, until, false) == ETIMEDOUT)  \
				return ETIMEDOUT;                      \
		return error_;                                         \
	} while (0)

#define EACH_RWLOCK(name, try)                                                                    \
	EXPORT int pthread_rwlock_##name(pthread_rwlock_t *lock)                                  \
	{                                                                                         \
		if (!is_threaded())                                                               \
			return LIBC(pthread_rwlock_##name)(lock);                                 \
		RWLOCK(try, NEVER);                                                               \
	}                                                                                         \
	EXPORT int pthread_rwlock_clock##name(pthread_rwlock_t *lock, clockid_t clock,            \
					      const struct timespec *time)                        \
	{                                                                                         \
		if (!is_threaded())                                                               \
			return LIBC(pthread_rwlock_clock##name)(lock, clock, time);               \
		RWLOCK(try, when(clock, time));                                                   \
	}                                                                                         \
	EXPORT int pthread_rwlock_timed##name(pthread_rwlock_t *lock, const struct timespec *time) \
	{                                                                                         \
		if (!is_threaded())                                                               \
			return LIBC(pthread_rwlock_timed##name)(lock, time);                      \
		RWLOCK(try, when(CLOCK_REALTIME, time));                                          \
	}

EACH_RWLOCK(rdlock, pthread_rwlock_tryrdlock)
EACH_RWLOCK(wrlock, pthread_rwlock_trywrlock)

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	int error = LIBC(pthread_rwlock_unlock)(lock);
	if (!error)
		wake(lock, UINT_MAX);
	return error;
}

/* Barriers. */

struct barrier {
	unsigned count, arrived;
	volatile uint64_t round;
};
_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "a barrier's memory");

EXPORT int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attr,
				unsigned count)
{
	if (!is_threaded())
		return LIBC(pthread_barrier_init)(barrier, attr, count);
	if (count == 0)
		return EINVAL;
	*(struct barrier *)barrier = (struct barrier){ .count = count };
	return 0;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
	return is_threaded() ? 0 : LIBC(pthread_barrier_destroy)(barrier);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *given)
{
	struct barrier *barrier = (struct barrier *)given;

	if (!is_threaded())
		return LIBC(pthread_barrier_wait)(given);
	if (++barrier->arrived == barrier->count) {
		barrier->arrived = 0;
		barrier->round++;
		wake(&barrier->round, UINT_MAX);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	for (uint64_t round = barrier->round; barrier->round == round;)
		wait_on(&barrier->round, NEVER, false);
	return 0;
}

/* Once: 1 while a thread initialises, 2 when that is done, which is glibc's number, too. */

EXPORT int pthread_once(pthread_once_t *control, void (*function)(void))
{
	volatile pthread_once_t *state = control;

	if (!is_threaded())
		return LIBC(pthread_once)(control, function);
	while (*state == 1)
		wait_on(state, NEVER, false);
	if (*state == 2)
		return 0;
	*state = 1;
	function();
	*state = 2;
	wake(state, UINT_MAX);
	return 0;
}

/* A thread that holds the lock waits at the host: the one that spins lets time pass. */
EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
	if (!is_threaded())
		return LIBC(pthread_spin_lock)(lock);
	while (LIBC(pthread_spin_trylock)(lock))
		virtual_now_ps();
	return 0;
}
