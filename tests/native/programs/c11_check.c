/* Threads of C11: each call that may wait for another thread. Each line of output has the virtual time. */
#include <stdio.h>
#include <threads.h>
#include <time.h>

static mtx_t mutex;
static cnd_t cond;
static once_flag once = ONCE_FLAG_INIT;
static int ready, made;

static void say(const char *what, int value)
{
	struct timespec now;

	timespec_get(&now, TIME_UTC);
	printf("%ld us: %s %d\n", now.tv_nsec / 1000, what, value);
}

static void nap(long us)
{
	thrd_sleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

static struct timespec in_us(long us)
{
	struct timespec time;

	timespec_get(&time, TIME_UTC);
	time.tv_nsec += us * 1000;
	return time;
}

static void make(void)
{
	nap(100);
	made++;
}

static int work(void *argument)
{
	int number = *(int *)argument;

	call_once(&once, make);
	say("made", made);
	mtx_lock(&mutex);
	nap(200);
	ready++;
	cnd_signal(&cond);
	mtx_unlock(&mutex);
	thrd_yield();
	if (number == 1)
		thrd_exit(11);
	return number + 10;
}

int main(void)
{
	thrd_t threads[3];
	int numbers[3] = { 0, 1, 2 }, result;

	mtx_init(&mutex, mtx_timed);
	cnd_init(&cond);
	for (int i = 0; i < 3; i++)
		if (thrd_create(&threads[i], work, &numbers[i]) != thrd_success)
			return 1;
	mtx_lock(&mutex);
	struct timespec soon = in_us(50);
	say("time-out of the condition", cnd_timedwait(&cond, &mutex, &soon) == thrd_timedout);
	while (ready < 3)
		cnd_wait(&cond, &mutex);
	mtx_unlock(&mutex);
	for (int i = 0; i < 3; i++) {
		if (thrd_join(threads[i], &result) != thrd_success)
			return 2;
		say("joined", result);
	}
	mtx_lock(&mutex);
	soon = in_us(70);
	say("time-out of the mutex", mtx_timedlock(&mutex, &soon) == thrd_timedout);
	say("busy", mtx_trylock(&mutex) == thrd_busy);
	cnd_destroy(&cond);
	return 0;
}
