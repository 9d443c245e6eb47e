/*
 * Counts its lives in the host's SCM, and in each of them steps of a millisecond: lives [STEPS]. A power
 * failure in the middle shows in what the next life finds.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 4096

int main(int argc, char **argv)
{
	unsigned long steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
	int fd = open("/scm/lives", O_RDWR);
	uint64_t *log = fd < 0 ? MAP_FAILED :
				 mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (log == MAP_FAILED) {
		perror("/scm/lives");
		return 1;
	}
	uint64_t life = ++log[0];

	printf("life %lu, behind one of %lu steps\n", life, log[1]);
	for (uint64_t step = 1; step <= steps; step++) {
		usleep(1000);
		log[1] = step;
		msync(log, SIZE, MS_SYNC);
	}
	printf("life %lu ends\n", life);
	return 0;
}
