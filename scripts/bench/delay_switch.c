/*
 * delay_switch DELAY_US INTERFACE...
 *
 * An Ethernet switch in user space that holds back each frame for a time: for machines whose kernel
 * has no netem. It learns addresses by port; a full queue drops. Ends when its standard input does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORTS_MAX 8
#define FRAMES 65536
#define FRAME_BYTES 1600
#define BURST 64

struct frame {
	long due_ns;
	int from;
	int length;
	unsigned char bytes[FRAME_BYTES];
};

static struct frame frames[FRAMES];
static unsigned first, next;
static unsigned char addresses[PORTS_MAX][ETH_ALEN];
static int sockets[PORTS_MAX];
static int ports;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int open_port(const char *interface)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
	int on = 1, bytes = 8 << 20;
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(interface),
	};

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		perror(interface);
		exit(1);
	}
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	return fd;
}

static void take(int port, long delay_ns)
{
	for (int i = 0; i < BURST && next - first < FRAMES; i++) {
		struct frame *frame = &frames[next % FRAMES];
		int length = recv(sockets[port], frame->bytes, FRAME_BYTES, MSG_TRUNC);

		if (length <= 0)
			return;
		/* Longer than the MTU: offloads have to be off. */
		if (length > FRAME_BYTES)
			continue;
		frame->length = length;
		frame->from = port;
		frame->due_ns = now_ns() + delay_ns;
		memcpy(addresses[port], frame->bytes + ETH_ALEN, ETH_ALEN);
		next++;
	}
}

static void give(const struct frame *frame)
{
	int to = -1;

	if (!(frame->bytes[0] & 1))
		for (int i = 0; i < ports; i++)
			if (memcmp(addresses[i], frame->bytes, ETH_ALEN) == 0)
				to = i;
	for (int i = 0; i < ports; i++)
		if (i != frame->from && (to < 0 || to == i))
			send(sockets[i], frame->bytes, frame->length, 0);
}

int main(int argc, char **argv)
{
	struct pollfd polled[PORTS_MAX + 1];
	long delay_ns;

	ports = argc - 2;
	if (ports < 1 || ports > PORTS_MAX) {
		fprintf(stderr, "Usage: delay_switch DELAY_US INTERFACE...\n");
		return 2;
	}
	delay_ns = atol(argv[1]) * 1000L;
	for (int i = 0; i < ports; i++) {
		sockets[i] = open_port(argv[i + 2]);
		polled[i] = (struct pollfd){ .fd = sockets[i], .events = POLLIN };
	}
	polled[ports] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	for (;;) {
		struct timespec wait, *limit = NULL;

		if (first != next) {
			long left = frames[first % FRAMES].due_ns - now_ns();

			if (left < 0)
				left = 0;
			wait = (struct timespec){ left / 1000000000L, left % 1000000000L };
			limit = &wait;
		}
		if (ppoll(polled, ports + 1, limit, NULL) < 0 && errno != EINTR)
			return 1;
		if (polled[ports].revents)
			return 0;
		for (int i = 0; i < ports; i++)
			if (polled[i].revents & POLLIN)
				take(i, delay_ns);
		while (first != next && frames[first % FRAMES].due_ns <= now_ns())
			give(&frames[first++ % FRAMES]);
	}
}
