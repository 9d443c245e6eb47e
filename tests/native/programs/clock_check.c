/* Reads the clock until 400 us. */
#include <time.h>

int main(void)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_nsec < 400000);
	return 0;
}
