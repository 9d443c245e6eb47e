/* Where its stack, its heap and its libraries are. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	int local;

	printf("%p %p %p %p\n", (void *)&local, malloc(100), malloc(1 << 20), (void *)puts);
	return 0;
}
