/*
 * Reads a server's log after a power failure: prints each record that is whole, up to the first that is not. That one
 * was under way, and nobody was promised it; a whole one behind it is a hole, which ends with 1.
 */
#include <libpmem.h>
#include <stdio.h>

#include "record.h"

static int is_whole(const struct record *record, uint64_t number)
{
	return record->number == number && record->sum == sum_of(record);
}

int main(void)
{
	size_t bytes;
	const struct record *log = pmem_map_file(LOG_PATH, 0, 0, 0, &bytes, NULL);
	uint64_t room = bytes / sizeof *log, number = 1;

	if (!log) {
		perror(LOG_PATH);
		return 1;
	}
	for (; number <= room && is_whole(&log[number - 1], number); number++)
		printf("found %lu %s\n", number, log[number - 1].text);
	for (uint64_t behind = number + 1; behind <= room; behind++) {
		if (!is_whole(&log[behind - 1], behind))
			continue;
		fprintf(stderr, "record %lu is not whole, and %lu behind it is\n", number, behind);
		return 1;
	}
	return 0;
}
