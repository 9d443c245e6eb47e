/*
 * Processes of one native program: fork(2), what a child shares with its parent and what it has of its
 * own, waits for it, its end. `fork_check server` and `fork_check client HOST`: a server that forks for
 * each connection. Each line of output has the virtual time.
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *format, ...)
{
	struct timespec now;
	va_list args;

	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%ld us: ", now.tv_sec * 1000000 + now.tv_nsec / 1000);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem;
	pthread_barrier_t barrier;
	pthread_rwlock_t rwlock;
	volatile int flag;
} *shared;

static void share(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_barrierattr_t barrier;
	pthread_rwlockattr_t rwlock;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->mutex, &mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&shared->cond, &cond);
	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &barrier, 2);
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
	pthread_rwlock_init(&shared->rwlock, &rwlock);
	sem_init(&shared->sem, 1, 0);
}

static struct ibv_pd *domain(void)
{
	int count;
	struct ibv_device **devices = ibv_get_device_list(&count);
	struct ibv_context *context = ibv_open_device(devices[0]);

	return ibv_alloc_pd(context);
}

static void child(struct ibv_pd *of_parent)
{
	static char memory[4096];

	say("child %d of %d", getpid(), getppid());
	usleep(1000);
	sem_post(&shared->sem);
	usleep(1000);
	pthread_mutex_lock(&shared->mutex);
	shared->flag = 1;
	pthread_cond_signal(&shared->cond);
	usleep(1000); /* the parent is woken, and waits for the mutex */
	pthread_mutex_unlock(&shared->mutex);
	/* Objects of its parent's are none of its own. */
	CHECK(!ibv_reg_mr(of_parent, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) && errno == EINVAL);
	CHECK(ibv_reg_mr(domain(), memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	pthread_barrier_wait(&shared->barrier);
	pthread_rwlock_wrlock(&shared->rwlock);
	usleep(500);
	shared->flag = 2;
	usleep(700);
	pthread_rwlock_unlock(&shared->rwlock);
	exit(3);
}

static void *segment(void)
{
	static int id = -1;

	if (id < 0)
		id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	CHECK(id >= 0);
	void *at = shmat(id, NULL, 0);
	CHECK(at != (void *)-1);
	return at;
}

/* Linux needs some milliseconds for its last close. */
static int large_file(void)
{
	int fd = memfd_create("large", 0);

	CHECK(fd >= 0 && fallocate(fd, 0, 0, 64 << 20) == 0);
	return fd;
}

static void local(void)
{
	struct rusage usage;
	cpu_set_t cpus;
	siginfo_t info;
	int status;

	share();
	struct ibv_pd *pd = domain();
	CHECK(pd);
	say("parent %d", getpid());
	pid_t pid = fork();
	if (pid == 0)
		child(pd);
	CHECK(pid > 0 && kill(pid, 0) == 0);
	CHECK(sched_getaffinity(pid, sizeof(cpus), &cpus) == 0);
	CHECK(sched_getaffinity(getpid(), sizeof(cpus), &cpus) == 0);
	sem_wait(&shared->sem);
	say("semaphore");
	pthread_mutex_lock(&shared->mutex);
	while (!shared->flag)
		pthread_cond_wait(&shared->cond, &shared->mutex);
	pthread_mutex_unlock(&shared->mutex);
	say("condition, flag %d", shared->flag);
	pthread_barrier_wait(&shared->barrier);
	say("barrier");
	usleep(1);
	pthread_rwlock_rdlock(&shared->rwlock);
	say("rwlock, flag %d", shared->flag);
	CHECK(waitpid(pid + 1, &status, 0) == -1 && errno == ECHILD);
	CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == pid);
	CHECK(wait4(-1, &status, 0, &usage) == pid && usage.ru_utime.tv_sec == 0);
	say("child's code %d", WEXITSTATUS(status));
	CHECK(wait(&status) == -1 && errno == ECHILD);

	/* Spins on memory that a child stores into; signals; another program in a child's place. */
	pid = fork();
	if (pid == 0) {
		usleep(300);
		shared->flag = 3;
		pause();
	}
	while (shared->flag != 3)
		;
	say("spun");
	CHECK(waitpid(pid, &status, WNOHANG) == 0);
	CHECK(kill(pid, SIGTERM) == 0 && waitpid(pid, &status, 0) == pid);
	say("signal %d", WTERMSIG(status));
	CHECK(kill(getppid(), SIGTERM) == -1 && errno == EPERM);
	CHECK(kill(getpid() + 1, 0) == -1 && errno == ESRCH);
	pid = fork();
	if (pid == 0)
		execlp("sh", "sh", "-c", "exit 5", NULL);
	CHECK(waitpid(pid, &status, 0) == pid);
	say("program's code %d", WEXITSTATUS(status));

	/* A segment at two places, a child of a child, a pipe. */
	sem_t *sem = segment();
	sem_init(sem, 1, 0);
	pid = fork();
	if (pid == 0) {
		sem_t *own = segment();
		CHECK(own != sem);
		usleep(200);
		if (fork() == 0) {
			usleep(200);
			sem_post(own);
			_exit(0);
		}
		CHECK(wait(&status) > 0 && status == 0);
		_exit(0);
	}
	sem_wait(sem);
	say("semaphore of a segment");
	CHECK(wait(&status) == pid && status == 0);
	int ends[2];
	int input[2];
	char bytes[8];
	CHECK(pipe(ends) == 0);
	if (fork() == 0) {
		close(ends[0]);
		usleep(300);
		CHECK(write(ends[1], "three", 5) == 5);
		usleep(300);
		exit(0);
	}
	close(ends[1]);
	CHECK(read(ends[0], bytes, sizeof(bytes)) == 5);
	say("read");
	CHECK(read(ends[0], bytes, sizeof(bytes)) == 0);
	say("end of the pipe");
	CHECK(wait(&status) > 0);
	CHECK(pipe2(input, O_CLOEXEC) == 0);
	/* Its end is all of it: also where a descriptor above the pipe's is slow to release. */
	enum { EXITS, KILLED, REPLACED };
	for (int how = EXITS; how <= REPLACED; how++) {
		CHECK(pipe2(ends, O_CLOEXEC) == 0);
		pid = fork();
		if (pid == 0) {
			int slow = large_file();
			usleep(how == KILLED ? 1000000 : 200);
			if (how == EXITS)
				_exit(0);
			CHECK(fcntl(slow, F_SETFD, FD_CLOEXEC) == 0 && dup2(input[0], 0) == 0);
			CHECK(execlp("/no/program", "program", NULL) == -1 && errno == ENOENT);
			execlp("timeout", "timeout", "20", "grep", "-q", "five", NULL);
		}
		close(ends[1]);
		CHECK(how != KILLED || kill(pid, SIGKILL) == 0);
		CHECK(read(ends[0], bytes, sizeof(bytes)) == 0);
		close(ends[0]);
		/* It reads what is written after the end of its descriptors. */
		CHECK(how != REPLACED || write(input[1], "five\n", 5) == 5);
		CHECK(wait(&status) == pid && (how != REPLACED || status == 0));
	}
	say("ends of three children");
	/* One that is left alone ends with the program. */
	if (fork() == 0)
		for (;;)
			pause();
}

static void serve(void)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_family = AF_INET }, *found;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(getaddrinfo(NULL, "7000", &hints, &found) == 0);
	CHECK(bind(listener, found->ai_addr, found->ai_addrlen) == 0 && listen(listener, 5) == 0);
	for (int i = 0; i < 3; i++) {
		int fd = accept(listener, NULL, NULL);
		CHECK(fd >= 0);
		if (fork() == 0) {
			char line[32] = "";
			close(listener);
			CHECK(read(fd, line, sizeof(line)) == 6);
			usleep(1000);
			say("%s", line);
			CHECK(write(fd, line, 6) == 6);
			exit(i);
		}
		/* The child's is open. */
		close(fd);
	}
	close(listener);
	for (int i = 0, status; i < 3; i++) {
		CHECK(wait(&status) > 0);
		say("code %d", WEXITSTATUS(status));
	}
}

static void call(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET }, *found;
	int fds[3];
	char line[8];

	CHECK(getaddrinfo(host, "7000", &hints, &found) == 0);
	for (int i = 0; i < 3; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(connect(fds[i], found->ai_addr, found->ai_addrlen) == 0);
	}
	for (int i = 2; i >= 0; i--) {
		snprintf(line, sizeof(line), "call %d", i);
		CHECK(write(fds[i], line, 6) == 6);
	}
	for (int i = 0; i < 3; i++) {
		CHECK(read(fds[i], line, sizeof(line)) == 6);
		CHECK(read(fds[i], line, sizeof(line)) == 0);
		say("answer and end");
	}
}

int main(int argc, char **argv)
{
	if (argc == 1)
		local();
	else if (argc == 2)
		serve();
	else
		call(argv[2]);
	return 0;
}
