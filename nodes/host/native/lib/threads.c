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
#include <threads.h>
#include <unistd.h>

#define PS_PER_NS 1000ull
#define PS_PER_S 1000000000000ull

static struct thread main_thread;
static struct thread *threads = &main_thread; /* all that have not ended, and those to be joined */
static uint64_t last_number;
static pthread_key_t end_key;
static volatile pid_t leaving; /* has handed its turn over, and is about to be no more */

__thread struct thread *this_thread;

/* Of its parent's threads it has the one that has forked. */
void threads_begin_child(void)
{
	threads = this_thread;
	this_thread->next = NULL;
	this_thread->number = last_number = 0;
	this_thread->tid = syscall(SYS_gettid);
	leaving = 0;
}

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

const char descriptors_key;

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
	case REQUEST_wait_child:
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

/*
 * What a thread waits for: an address of the process, or one that processes share, of which the host
 * knows the object that is mapped there and the place in it.
 */
struct key {
	uint64_t object, at;
};

static struct key key_of(const volatile void *at, bool shared)
{
	struct key key = { 0, (uintptr_t)at };

	if (at == &descriptors_key)
		return (struct key){ OBJECT_descriptors, 0 };
	if (shared && native.has_relatives && !mapping_object(at, &key.object, &key.at))
		return (struct key){ 0, (uintptr_t)at };
	return key;
}

/* Waits at the host for a wake of `key`: 0, ETIMEDOUT, or ECANCELED. */
static int wait_on_key(const volatile void *key, bool shared, uint64_t until_ps, bool cancellable)
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
	struct key place = key_of(key, shared);
	uint64_t *arg = request_begin(REQUEST_futex_wait, ARG_futex_wait_WORDS);
	arg[ARG_futex_wait_object] = place.object;
	arg[ARG_futex_wait_key] = place.at;
	arg[ARG_futex_wait_timeoutPs] = until_ps == NEVER ? NEVER : until_ps - now;
	arg[ARG_futex_wait_cancellable] = cancellable;
	error = request_send();
	this_thread->defers = false;
	this_thread->waits_on = NULL;
	return error;
}

static int wait_on(const volatile void *key, uint64_t until_ps, bool cancellable)
{
	return wait_on_key(key, false, until_ps, cancellable);
}

static bool has_waiter(const volatile void *key)
{
	for (struct thread *thread = threads; thread; thread = thread->next)
		if (thread->waits_on == key)
			return true;
	return false;
}

static void wake_key(const volatile void *key, bool shared, unsigned count)
{
	bool is_elsewhere = native.has_relatives && (shared || key == &descriptors_key);

	if (!is_threaded() || !(is_elsewhere || has_waiter(key)))
		return;
	int saved = errno;
	struct key place = key_of(key, shared);
	uint64_t *arg = request_begin(REQUEST_futex_wake, ARG_futex_wake_WORDS);
	arg[ARG_futex_wake_object] = place.object;
	arg[ARG_futex_wake_key] = place.at;
	arg[ARG_futex_wake_count] = count;
	request_send();
	errno = saved;
}

static void wake(const volatile void *key, unsigned count)
{
	wake_key(key, false, count);
}

/* When an absolute time of a clock is, in the host's time. */
static uint64_t when(clockid_t clock, const struct timespec *time)
{
	int64_t seconds = time->tv_sec - (int64_t)clock_epoch_s(clock);

	if (seconds < 0)
		return 0;
	return seconds > 1000000 ? (uint64_t)NEVER : seconds * PS_PER_S + time->tv_nsec * PS_PER_NS;
}

/* Futexes by hand: of a program's own locks. */

static long futex_wait(uint32_t *word, bool shared, uint32_t value, uint64_t until_ps)
{
	if (*(volatile uint32_t *)word != value)
		return fail(EAGAIN);
	int error = wait_on_key(word, shared, until_ps, false);
	return error ? fail(error) : 0;
}

/* How many a wake of the key wakes. */
static int waiters_of(const volatile void *key)
{
	int count = 0;

	for (struct thread *thread = threads; thread; thread = thread->next)
		count += thread->waits_on == key;
	return count;
}

long thread_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *time,
		  uint32_t bits)
{
	clockid_t clock = operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	bool shared = !(operation & FUTEX_PRIVATE_FLAG);
	uint32_t woken;

	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT: {
		uint64_t now = native.now_ps + native.used_ps;
		uint64_t ps = time ? time->tv_sec * PS_PER_S + time->tv_nsec * PS_PER_NS : NEVER;
		return futex_wait(word, shared, value, ps < NEVER - now ? now + ps : NEVER);
	}
	case FUTEX_WAIT_BITSET:
		if (bits == FUTEX_BITSET_MATCH_ANY)
			return futex_wait(word, shared, value, time ? when(clock, time) : NEVER);
		break;
	case FUTEX_WAKE_BITSET:
		if (bits != FUTEX_BITSET_MATCH_ANY)
			break;
		/* fall through */
	case FUTEX_WAKE:
		woken = waiters_of(word);
		wake_key(word, shared, value);
		return woken < value ? woken : value;
	}
	complain("futex: operation %d is refused: of futexes the rack has wait and wake", operation);
	return fail(ENOSYS);
}

/* The first thread's is the process's; further ones are beyond all numbers of processes. */
#define THREAD_NUMBERS 100000

pid_t thread_number(void)
{
	return native.pid + (this_thread ? this_thread->number : 0) * THREAD_NUMBERS;
}

pid_t thread_tid(pid_t number)
{
	for (struct thread *thread = threads; thread; thread = thread->next)
		if (number == (pid_t)(native.pid + thread->number * THREAD_NUMBERS))
			return thread->tid;
	return 0;
}

EXPORT pid_t gettid(void)
{
	return native.active ? thread_number() : syscall(SYS_gettid);
}

/* Descriptors of the machine that threads share. */


bool threads_share_descriptors(void)
{
	return is_threaded() && (threads->next || native.has_relatives);
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

/* Of pthread_mutexattr_setpshared and its kin, where glibc keeps them. */
static bool is_shared_mutex(const pthread_mutex_t *mutex)
{
	return mutex->__data.__kind & 128;
}

static bool is_shared_cond(const pthread_cond_t *cond)
{
	return cond->__data.__wrefs & 1;
}

static bool is_shared_rwlock(const pthread_rwlock_t *lock)
{
	return lock->__data.__shared;
}

/* sem_init's `pshared`, and sem_open's: FUTEX_PRIVATE_FLAG, behind the 64 bits of value and waiters. */
static bool is_shared_sem(const sem_t *sem)
{
	return ((const int *)sem)[2] != 0;
}

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
		if (wait_on_key(mutex, is_shared_mutex(mutex), until_ps, false) == ETIMEDOUT)
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
	bool shared = is_shared_mutex(mutex);
	int error = LIBC(pthread_mutex_unlock)(mutex);
	if (!error)
		wake_key(mutex, shared, 1);
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
		error = wait_on_key(signals, is_shared_cond(cond), until_ps, true);
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
	wake_key(cond, is_shared_cond(cond), 1);
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (!is_threaded())
		return LIBC(pthread_cond_broadcast)(cond);
	++*signals_of(cond);
	wake_key(cond, is_shared_cond(cond), UINT_MAX);
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
		error = wait_on_key(sem, is_shared_sem(sem), until_ps, true);
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
	bool shared = is_shared_sem(sem);
	int result = LIBC(sem_post)(sem);
	if (result == 0)
		wake_key(sem, shared, 1);
	return result;
}

/* Read-write locks. */

#define RWLOCK(try, until)                                             \
	do {                                                           \
		int error_;                                            \
		while ((error_ = LIBC(try)(lock)) == EBUSY)            \
			if (wait_on_key(lock, is_shared_rwlock(lock), until, false) == ETIMEDOUT) \
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
	bool shared = is_shared_rwlock(lock);
	int error = LIBC(pthread_rwlock_unlock)(lock);
	if (!error)
		wake_key(lock, shared, UINT_MAX);
	return error;
}

/* Barriers. */

struct barrier {
	unsigned count, arrived;
	bool shared;
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
	int shared = PTHREAD_PROCESS_PRIVATE;
	if (attr)
		pthread_barrierattr_getpshared(attr, &shared);
	*(struct barrier *)barrier =
		(struct barrier){ .count = count, .shared = shared == PTHREAD_PROCESS_SHARED };
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
		wake_key(&barrier->round, barrier->shared, UINT_MAX);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	for (uint64_t round = barrier->round; barrier->round == round;)
		wait_on_key(&barrier->round, barrier->shared, NEVER, false);
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

/* C11's threads (threads.h): glibc's are the functions above, by names of its own. */

struct start {
	thrd_start_t function;
	void *argument;
};

static void *run_start(void *data)
{
	struct start start = *(struct start *)data;

	free(data);
	return (void *)(intptr_t)start.function(start.argument);
}

static int thrd_result(int error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

EXPORT int thrd_create(thrd_t *id, thrd_start_t function, void *argument)
{
	struct start *start = malloc(sizeof(*start));

	if (!start)
		return thrd_nomem;
	*start = (struct start){ function, argument };
	int error = pthread_create(id, NULL, run_start, start);
	if (error)
		free(start);
	return error == EAGAIN ? thrd_nomem : thrd_result(error);
}

EXPORT int thrd_join(thrd_t id, int *result)
{
	void *returned;
	int error = pthread_join(id, &returned);

	if (!error && result)
		*result = (intptr_t)returned;
	return thrd_result(error);
}

EXPORT int thrd_detach(thrd_t id)
{
	return thrd_result(pthread_detach(id));
}

/* -1 after a signal, and below it what is no signal's. */
EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left)
{
	int error = clock_nanosleep(CLOCK_REALTIME, 0, time, left);
	return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

EXPORT void thrd_yield(void)
{
	sched_yield();
}

EXPORT int mtx_lock(mtx_t *mutex)
{
	return thrd_result(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

EXPORT int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict time)
{
	return thrd_result(pthread_mutex_timedlock((pthread_mutex_t *)mutex, time));
}

EXPORT int mtx_unlock(mtx_t *mutex)
{
	return thrd_result(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return thrd_result(pthread_cond_wait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex));
}

EXPORT int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
			 const struct timespec *restrict time)
{
	return thrd_result(
		pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, time));
}

EXPORT int cnd_signal(cnd_t *cond)
{
	return thrd_result(pthread_cond_signal((pthread_cond_t *)cond));
}

EXPORT int cnd_broadcast(cnd_t *cond)
{
	return thrd_result(pthread_cond_broadcast((pthread_cond_t *)cond));
}

EXPORT void cnd_destroy(cnd_t *cond)
{
	pthread_cond_destroy((pthread_cond_t *)cond);
}

EXPORT void call_once(once_flag *flag, void (*function)(void))
{
	pthread_once((pthread_once_t *)flag, function);
}
