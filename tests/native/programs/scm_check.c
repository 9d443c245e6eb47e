/*
 * Writes a word to persistent memory in each way that there is, says which words of an earlier life
 * are there, and waits for the power failure. libpmem's functions are those of the preloaded library.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PMEM_FILE_CREATE 1

static void *function(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	if (!found)
		printf("no %s\n", name);
	return found;
}

/* One place of a file that is mapped several times is one memory; and files are read and written. */
static void several(void (*persist)(const void *, size_t))
{
	int fd = open("/scm/log", O_RDWR), prot = PROT_READ | PROT_WRITE;
	char *one = mmap(NULL, 2 * PAGE, prot, MAP_SHARED, fd, 8 * PAGE);
	char *room = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *two = mmap(room + PAGE, PAGE, prot, MAP_SHARED | MAP_FIXED, fd, 9 * PAGE);
	char *copy = mmap(NULL, PAGE, prot, MAP_PRIVATE, fd, 9 * PAGE);
	char bytes[32] = "";
	struct stat status;

	CHECK(one != MAP_FAILED && two == room + PAGE && copy != MAP_FAILED);
	strcpy(copy, "a copy's own");
	strcpy(one + PAGE, "by one");
	CHECK(strcmp(two, "by one") == 0 && strcmp(copy, "a copy's own") == 0);
	strcpy(two + 8, "by two");
	persist(two, 16);
	CHECK(strcmp(one + PAGE + 8, "by two") == 0);
	CHECK(munmap(two, PAGE) == 0);
	strcpy(one + PAGE + 16, "left");
	persist(one + PAGE, 32);
	CHECK(pread(fd, bytes, 32, 9 * PAGE) == 32 && memcmp(bytes, one + PAGE, 32) == 0);
	CHECK(pwrite(fd, "written", 8, 9 * PAGE + 16) == 8 && strcmp(one + PAGE + 16, "written") == 0);
	CHECK(stat("/scm/log", &status) == 0 && status.st_size == 1 << 20 && access("/scm/none", F_OK) < 0);
	CHECK(ftruncate(fd, 2 << 20) < 0 && ftruncate(fd, 1 << 19) == 0 && fsync(fd) == 0);
	CHECK(fstat(fd, &status) == 0 && status.st_size == 1 << 19);
	if (fork() == 0) {
		strcpy(one, "by a child");
		persist(one, 16);
		_exit(0);
	}
	wait(NULL);
	CHECK(strcmp(one, "by a child") == 0);
	CHECK(munmap(one, PAGE) < 0 && munmap(one, 2 * PAGE) == 0);
	close(fd);
	puts("several mappings");
}

int main(void)
{
	void *(*map_file)(const char *, size_t, int, mode_t, size_t *, int *) = function("pmem_map_file");
	void (*persist)(const void *, size_t) = function("pmem_persist");
	void (*flush)(const void *, size_t) = function("pmem_flush");
	void *(*copy_persist)(void *, const void *, size_t) = function("pmem_memcpy_persist");
	size_t length;
	int is_pmem;

	if (map_file("/scm/none", 0, 0, 0, &length, &is_pmem) || errno != ENOENT)
		printf("a file that is not there was mapped\n");
	if (map_file("/scm/log", 1 << 30, PMEM_FILE_CREATE, 0600, &length, &is_pmem) || errno != ENOSPC)
		printf("more was mapped than there is\n");
	char *log = map_file("/scm/log", 0, 0, 0, &length, &is_pmem);
	int fd = open("/scm/other", O_RDWR);
	char *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!log || !is_pmem || other == MAP_FAILED) {
		perror("map");
		return 1;
	}
	printf("%zu B, %ld B:", length, (long)lseek(fd, 0, SEEK_END));
	for (int i = 0; i < 8; i++)
		printf(" [%.16s]", log + i * PAGE);
	printf(" [%.16s] [%.16s] [%.16s] [%.16s]\n", other, log + 8 * PAGE, log + 9 * PAGE,
	       log + 9 * PAGE + 16);

	several(persist);
	char page[PAGE] = "streamed";
	strcpy(log, "persisted");
	persist(log, 16);
	copy_persist(log + PAGE, "copied", 7);
	copy_persist(log + 2 * PAGE, page, sizeof(page));
	strcpy(other, "msynced");
	msync(other, PAGE, MS_SYNC);
	/* None of these has been drained. */
	strcpy(log + 3 * PAGE, "flushed");
	flush(log + 3 * PAGE, 16);
	strcpy(log + 4 * PAGE, "stored");
	int source = open("/proc/cpuinfo", O_RDONLY);
	if (read(source, log + 5 * PAGE, 9) != 9)
		perror("read into persistent memory");
	printf("%.9s\n", log + 5 * PAGE);
	sleep(1);
	return 0;
}
