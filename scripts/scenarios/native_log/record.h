/* A record of the log: one cache line of persistent memory. */
#ifndef RECORD_H
#define RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LOG_PATH "/scm/log"

struct record {
	uint64_t number; /* from 1; 0: none was written here */
	char text[48];
	uint64_t sum; /* of all that is before it */
};

/* FNV-1a */
static inline uint64_t sum_of(const struct record *record)
{
	const unsigned char *bytes = (const unsigned char *)record;
	uint64_t sum = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < offsetof(struct record, sum); i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3ull;
	return sum;
}

#endif
