/*
 * Writes a word to persistent memory in each way that there is, says which words of an earlier life
 * are there, and waits for the power failure. libpmem's functions are those of the preloaded library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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
	printf(" [%.16s]\n", other);

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
