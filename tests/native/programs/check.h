/* A thing that is not as it should be ends the process with the line's number. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "line %d: not %s: %s\n", __LINE__, #condition, \
				strerror(errno));                                     \
			_exit(1);                                                     \
		}                                                                     \
	} while (0)
