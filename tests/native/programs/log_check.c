/*
 * Makes words persistent on one host, and promises them, rightly or not; or recovers them, as its first argument says.
 * libpmem's functions are those of the preloaded library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <emmintrin.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define WORDS 3

/* In a cache line of its own: `word` counts where `is_there`. */
struct line {
	uint64_t word;
	char other[48];
	uint64_t is_there;
};

static void (*persist)(const void *, size_t);

static void append(struct line *lines, uint64_t i, const char *how)
{
	struct line *line = &lines[i];

	if (strstr(how, "-begun"))
		printf("began %lu\n", i + 1);
	if (!strncmp(how, "early", 5))
		printf("promised %lu\n", i + 1);
	if (!strncmp(how, "mark-first", 10)) {
		line->is_there = 1;
		usleep(1);
	}
	line->word = i + 1;
	if (!strncmp(how, "mark-last", 9))
		usleep(1);
	line->is_there = 1;
	if (!strncmp(how, "wide", 4))
		lines[i + WORDS].word = 1;
	if (!strncmp(how, "own", 3)) {
		_mm_clflush(line);
		_mm_sfence();
	} else {
		persist(line, sizeof *line);
	}
	if (!strncmp(how, "shared", 6))
		printf("promised/2 %lu\n", i + 1);
	else if (strncmp(how, "silent", 6) && strncmp(how, "early", 5))
		printf("promised %lu\n", i + 1);
	usleep(1);
}

int main(int argc, char **argv)
{
	void *(*map_file)(const char *, size_t, int, mode_t, size_t *, int *) =
		dlsym(RTLD_DEFAULT, "pmem_map_file");
	const char *how = argc > 1 ? argv[1] : "";
	size_t length;
	struct line *lines = map_file("/scm/log", 0, 0, 0, &length, NULL);

	persist = dlsym(RTLD_DEFAULT, "pmem_persist");
	if (strcmp(how, "recover")) {
		for (uint64_t i = 0; i < WORDS; i++)
			append(lines, i, how);
		return 0;
	}
	const char *then = argc > 2 ? argv[2] : "";
	for (uint64_t i = 0; i < WORDS; i++)
		if (lines[i].is_there)
			printf("found %lu\n", lines[i].word);
	if (!strcmp(then, "exit"))
		return 3;
	if (!strcmp(then, "crash"))
		abort();
	if (!strcmp(then, "wait")) {
		sem_t never;
		sem_init(&never, 0, 0);
		sem_wait(&never);
	}
	for (volatile long i = 0; !strcmp(then, "compute"); i++)
		;
	while (!strcmp(then, "sleep"))
		sleep(1);
	if (!strcmp(then, "careful")) {
		lines[WORDS].word = 1;
		persist(&lines[WORDS], sizeof *lines);
	}
	for (uint64_t i = 0; !strcmp(then, "careless") && i < WORDS; i++) {
		if (!lines[i].is_there)
			continue;
		lines[i].is_there = 0;
		persist(&lines[i], sizeof *lines);
		lines[i].is_there = 1;
		persist(&lines[i], sizeof *lines);
	}
	return 0;
}
