/* Threads: each family of calls that may wait for another thread, in virtual time. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t sem;
static int turn, inits;
static struct timespec begin;

static long us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000;
}

static void say(const char *what, long n)
{
	printf("%ld us: %s %ld\n", us(), what, n);
}

static void initialise(void)
{
	inits++;
	usleep(1000);
}

static void *work(void *argument)
{
	long n = (long)argument;

	pthread_once(&once, initialise);
	say("initialised", n);
	pthread_mutex_lock(&mutex);
	usleep(100);
	while (turn != n)
		pthread_cond_wait(&cond, &mutex);
	say("turn", n);
	turn++;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	int serial = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
	if (serial)
		say("the last at the barrier", n);
	if (n == 0)
		pthread_rwlock_wrlock(&rwlock);
	else
		pthread_rwlock_rdlock(&rwlock);
	usleep(10);
	say("lock", n);
	pthread_rwlock_unlock(&rwlock);
	sem_post(&sem);
	if (n == 1)
		pthread_exit((void *)10l);
	return (void *)(n * 2);
}

static void cleanup(void *argument)
{
	say(argument, pthread_mutex_trylock(&mutex));
	pthread_mutex_unlock(&mutex);
}

static void *sleeper(void *argument)
{
	pthread_cleanup_push(cleanup, "cleaned up, the mutex is held by it:");
	if (argument) {
		pthread_mutex_lock(&mutex);
		for (;;)
			pthread_cond_wait(&cond, &mutex);
	}
	for (;;)
		sleep(10);
	pthread_cleanup_pop(0);
	return NULL;
}

static void destroyed(void *value)
{
	/* Behind the end of the thread's function, and a call to the host all the same. */
	say(value, us() > 0);
}

static void *keeper(void *argument)
{
	pthread_setspecific(key, argument);
	return NULL;
}

static void *reader(void *argument)
{
	char text[8] = "";
	int *pipe = argument;
	ssize_t got = read(pipe[0], text, sizeof(text) - 1);
	printf("%ld us: read %zd %s\n", us(), got, text);
	return NULL;
}

static void *small_stack(void *unused)
{
	(void)unused;
	usleep(10);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS], other;
	pthread_attr_t detached;
	struct timespec until;
	void *result;
	int fds[2];

	clock_gettime(CLOCK_MONOTONIC, &begin);
	pthread_barrier_init(&barrier, NULL, THREADS);
	sem_init(&sem, 0, 0);
	for (long n = 0; n < THREADS; n++)
		pthread_create(&threads[n], NULL, work, (void *)n);
	for (int n = 0; n < THREADS; n++)
		sem_wait(&sem);
	for (int n = 0; n < THREADS; n++) {
		pthread_join(threads[n], &result);
		say("joined", (long)result);
	}
	say("inits", inits);

	pthread_mutex_lock(&mutex);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 5000000;
	say(strerror(pthread_cond_timedwait(&cond, &mutex, &until)), 0);
	pthread_mutex_unlock(&mutex);
	until.tv_nsec += 5000000;
	say(sem_timedwait(&sem, &until) ? strerror(errno) : "taken", 1);

	for (long waits = 0; waits < 2; waits++) {
		pthread_create(&other, NULL, sleeper, (void *)waits);
		usleep(1000);
		pthread_cancel(other);
		pthread_join(other, &result);
		say("cancelled", result == PTHREAD_CANCELED);
	}

	pthread_key_create(&key, destroyed);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_create(&other, &detached, keeper, "its data is destroyed");
	usleep(100);
	/* Threads with as little stack as there can be, more than there are at a time. */
	pthread_attr_t small;
	int created = 0;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
	for (int n = 0; n < 3; n++) {
		if (pthread_create(&other, &small, small_stack, NULL) == 0 && pthread_join(other, NULL) == 0)
			created++;
	}
	say("small stacks", created);

	if (pipe(fds) < 0)
		return 1;
	pthread_create(&other, NULL, reader, fds);
	usleep(700);
	if (write(fds[1], "hello", 5) != 5)
		return 1;
	pthread_join(other, NULL);
	say("again to be joined:", pthread_join(other, NULL) == ESRCH);
	/* A thread that waits for ever ends with its process. */
	pthread_create(&other, NULL, sleeper, NULL);
	usleep(100);
	return 7;
}
