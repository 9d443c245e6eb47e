/*
 * A client and a server over sockets, for tests of the library that is preloaded into native programs:
 * `net_check server`, `net_check client HOST`. Each line of output is one thing that was looked at; a
 * thing that is not as Linux has it ends the program with the line's number.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PORT "7471"
#define BULK (1 << 20)

static volatile int alarms, pipes;
static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}
static void on_pipe(int signal)
{
	(void)signal;
	pipes++;
}

static double now_us(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static char pattern(size_t at)
{
	return at * 7 + (at >> 8) * 3;
}

static struct addrinfo *found(const char *host, int flags)
{
	struct addrinfo hints = { .ai_flags = flags, .ai_socktype = SOCK_STREAM }, *result;
	int error = getaddrinfo(host, PORT, &hints, &result);
	if (error) {
		fprintf(stderr, "getaddrinfo: %s\n", gai_strerror(error));
		exit(1);
	}
	return result;
}

static int listening(void)
{
	struct addrinfo *info = found(NULL, AI_PASSIVE);
	int one = 1, fd = socket(info->ai_family, info->ai_socktype, info->ai_protocol);
	CHECK(fd >= 3);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	CHECK(bind(fd, info->ai_addr, info->ai_addrlen) == 0);
	CHECK(listen(fd, 8) == 0);
	freeaddrinfo(info);
	return fd;
}

static int accepted(int listener)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof(peer);
	int fd = accept(listener, (struct sockaddr *)&peer, &length);
	CHECK(fd >= 0 && length == sizeof(peer) && peer.sin_family == AF_INET);
	printf("accepted from %s port %d\n", inet_ntoa(peer.sin_addr), ntohs(peer.sin_port));
	return fd;
}

static int connected(const char *host)
{
	struct addrinfo *info = found(host, 0);
	int fd = socket(info->ai_family, info->ai_socktype, 0);
	CHECK(fd >= 3);
	CHECK(connect(fd, info->ai_addr, info->ai_addrlen) == 0);
	freeaddrinfo(info);
	return fd;
}

static void read_whole(int fd, void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t got = read(fd, (char *)bytes + done, length - done);
		CHECK(got > 0);
		done += got;
	}
}

/* Bytes both ways with every call that sends or receives; the end of one direction, then of the other. */
static void stream_server(int listener)
{
	int fd = accepted(listener), copy = dup(fd);
	char bytes[64];

	CHECK(copy > fd && close(fd) == 0);
	fd = copy;
	CHECK(recv(fd, bytes, sizeof(bytes), MSG_PEEK) == 5 && memcmp(bytes, "hello", 5) == 0);
	int unread;
	CHECK(ioctl(fd, FIONREAD, &unread) == 0 && unread == 5);
	CHECK(read(fd, bytes, 2) == 2 && read(fd, bytes + 2, 60) == 3);
	struct iovec parts[2] = { { bytes, 5 }, { " world", 6 } };
	CHECK(writev(fd, parts, 2) == 11);
	char *bulk = malloc(BULK);
	CHECK(recv(fd, bulk, BULK, MSG_WAITALL) == BULK);
	for (size_t i = 0; i < BULK; i++)
		CHECK(bulk[i] == pattern(i));
	CHECK(read(fd, bytes, sizeof(bytes)) == 0);
	CHECK(send(fd, bulk, BULK, 0) == BULK);
	free(bulk);
	CHECK(close(fd) == 0);
	puts("stream: done");
}

static void stream_client(const char *host)
{
	int fd = connected(host), on = 1;
	struct sockaddr_in own, peer;
	socklen_t length = sizeof(own);
	char one[6] = { 0 }, two[16] = { 0 };

	CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0);
	CHECK(getpeername(fd, (struct sockaddr *)&peer, &length) == 0);
	printf("connected from port %d to %s\n", ntohs(own.sin_port), inet_ntoa(peer.sin_addr));
	double from = now_us();
	CHECK(write(fd, "hello", 5) == 5);
	struct iovec parts[2] = { { one, 5 }, { two, 6 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	size_t got = recvmsg(fd, &message, MSG_WAITALL);
	CHECK(got == 11 && !strcmp(one, "hello") && !strcmp(two, " world"));
	printf("answer after %.0f us\n", now_us() - from);
	char *bulk = malloc(BULK);
	for (size_t i = 0; i < BULK; i++)
		bulk[i] = pattern(i);
	CHECK(send(fd, bulk, BULK, 0) == BULK);
	CHECK(shutdown(fd, SHUT_WR) == 0);
	memset(bulk, 0, BULK);
	read_whole(fd, bulk, BULK);
	for (size_t i = 0; i < BULK; i++)
		CHECK(bulk[i] == pattern(i));
	CHECK(read(fd, one, 1) == 0);
	free(bulk);
	signal(SIGPIPE, on_pipe);
	CHECK(write(fd, "x", 1) == -1 && errno == EPIPE && pipes == 1);
	CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE && pipes == 1);
	CHECK(close(fd) == 0);
	CHECK(read(fd, one, 1) == -1 && errno == EBADF);
	puts("stream: done");
}

/* Three connections at once: poll at the server's listener, epoll for what they bring. */
static void waits_server(int listener)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), open = 0, done = 0;
	struct epoll_event event = { EPOLLIN, { .fd = listener } }, events[4];

	CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == -1 && errno == EEXIST);
	CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
	while (done < 3) {
		int count = epoll_wait(epoll, events, 4, -1);
		CHECK(count > 0);
		for (int i = 0; i < count; i++) {
			int fd = events[i].data.fd;
			if (fd == listener) {
				while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
					event = (struct epoll_event){ EPOLLIN | EPOLLET, { .fd = fd } };
					CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
					open++;
				}
				CHECK(errno == EAGAIN);
				continue;
			}
			char bytes[8];
			ssize_t got;
			while ((got = read(fd, bytes, sizeof(bytes))) > 0)
				CHECK(write(fd, bytes, got) == got);
			if (got == 0) {
				CHECK(close(fd) == 0);
				done++;
			} else {
				CHECK(errno == EAGAIN);
			}
		}
	}
	CHECK(epoll_wait(epoll, events, 4, 0) == 0);
	CHECK(fcntl(listener, F_SETFL, 0) == 0);
	close(epoll);
	printf("waits: %d connections\n", open);
}

static void waits_client(const char *host)
{
	struct addrinfo *info = found(host, 0);
	struct pollfd polled[3];
	char bytes[8];

	for (int i = 0; i < 3; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error;
		socklen_t length = sizeof(error);
		CHECK(connect(fd, info->ai_addr, info->ai_addrlen) == -1 && errno == EINPROGRESS);
		CHECK(write(fd, "x", 1) == -1 && errno == EAGAIN);
		polled[i] = (struct pollfd){ fd, POLLOUT, 0 };
		CHECK(poll(&polled[i], 1, -1) == 1 && polled[i].revents == POLLOUT);
		CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
		polled[i].events = POLLIN;
		CHECK(read(fd, bytes, 8) == -1 && errno == EAGAIN);
	}
	double from = now_us();
	CHECK(poll(polled, 3, 5) == 0);
	CHECK(now_us() - from >= 5000 && now_us() - from < 5100);
	CHECK(write(polled[1].fd, "second", 6) == 6);
	CHECK(poll(polled, 3, 1000) == 1 && polled[1].revents == POLLIN);
	CHECK(read(polled[1].fd, bytes, 8) == 6 && !memcmp(bytes, "second", 6));
	CHECK(write(polled[2].fd, "third", 5) == 5);
	fd_set in, out;
	FD_ZERO(&in);
	FD_ZERO(&out);
	for (int i = 0; i < 3; i++)
		FD_SET(polled[i].fd, &in);
	FD_SET(polled[0].fd, &out);
	struct timeval time = { 1, 0 };
	CHECK(select(64, &in, &out, NULL, &time) == 1 && FD_ISSET(polled[0].fd, &out));
	FD_ZERO(&out);
	for (int i = 0; i < 3; i++)
		FD_SET(polled[i].fd, &in);
	CHECK(select(64, &in, NULL, NULL, &time) == 1 && FD_ISSET(polled[2].fd, &in));
	CHECK(!FD_ISSET(polled[0].fd, &in) && time.tv_sec == 0 && time.tv_usec > 999000);
	CHECK(read(polled[2].fd, bytes, 8) == 5);
	for (int i = 0; i < 3; i++)
		close(polled[i].fd);
	freeaddrinfo(info);
	puts("waits: done");
}

/* bind(2) to port 0 gives one, which is the listener's, and nobody else's. */
static void given_port(void)
{
	struct sockaddr_in any = { AF_INET, 0, { htonl(INADDR_ANY) }, { 0 } }, one, other;
	socklen_t length = sizeof(one);
	int fd = socket(AF_INET, SOCK_STREAM, 0), second = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(bind(second, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&one, &length) == 0 && one.sin_port);
	CHECK(getsockname(second, (struct sockaddr *)&other, &length) == 0 && other.sin_port);
	CHECK(one.sin_port != other.sin_port);
	CHECK(listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&other, &length) == 0);
	CHECK(one.sin_port == other.sin_port);
	close(fd);
	close(second);
}

/* A socket of datagrams tells the address of the way to a host, and carries nothing. */
static void datagrams(const struct sockaddr_in *away)
{
	struct sockaddr_in there = { AF_INET, htons(80), { htonl(0x0a000002) }, { 0 } }, own, nobody = { 0 };
	socklen_t length = sizeof(own);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), type;

	CHECK(fd >= 0);
	CHECK(connect(fd, (struct sockaddr *)away, sizeof(*away)) == -1 && errno == ENETUNREACH);
	CHECK(getpeername(fd, (struct sockaddr *)&own, &length) == -1 && errno == ENOTCONN);
	CHECK(connect(fd, (struct sockaddr *)&there, sizeof(there)) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0);
	CHECK(own.sin_addr.s_addr == htonl(0x0a000001) && own.sin_port);
	CHECK(getpeername(fd, (struct sockaddr *)&own, &length) == 0);
	CHECK(own.sin_addr.s_addr == there.sin_addr.s_addr && own.sin_port == htons(80));
	CHECK(connect(fd, (struct sockaddr *)&there, sizeof(there)) == 0);
	CHECK(connect(fd, (struct sockaddr *)&nobody, sizeof(nobody)) == 0);
	CHECK(getpeername(fd, (struct sockaddr *)&own, &length) == -1 && errno == ENOTCONN);
	length = sizeof(type);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM);
	CHECK(listen(fd, 1) == -1 && errno == EOPNOTSUPP);
	CHECK(sendto(fd, "u", 1, 0, (struct sockaddr *)&there, sizeof(there)) == -1 && errno == EOPNOTSUPP);
	close(fd);
}

/* Refusals, and sockets within the process. */
static void refusals(void)
{
	int pair[2];
	char byte;

	CHECK(socket(AF_NETLINK, SOCK_RAW, 20) == -1 && errno == EPROTONOSUPPORT);
	CHECK(socket(AF_INET, SOCK_RAW, 0) == -1 && errno == ESOCKTNOSUPPORT);
	CHECK(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP) == -1 && errno == EPROTONOSUPPORT);
	struct sockaddr_in away = { AF_INET, htons(80), { htonl(0x08080808) }, { 0 } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(fd, (struct sockaddr *)&away, sizeof(away)) == -1 && errno == ENETUNREACH);
	CHECK(read(fd, &byte, 1) == -1 && errno == ENOTCONN);
	close(fd);
	given_port();
	datagrams(&away);
	struct addrinfo *none;
	CHECK(getaddrinfo("example.org", PORT, NULL, &none) == EAI_NONAME);
	CHECK(!gethostbyname("example.org"));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(write(pair[0], "u", 1) == 1);
	struct pollfd polled = { pair[1], POLLIN, 0 };
	CHECK(poll(&polled, 1, -1) == 1 && read(pair[1], &byte, 1) == 1 && byte == 'u');
	double from = now_us();
	CHECK(poll(&polled, 1, 3) == 0 && now_us() - from >= 3000 && now_us() - from < 3100);
	puts("refusals: done");
}

/* timerfd_create(2): periods, reads, waits with other things. */
static void timers(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), other[2];
	struct itimerspec each = { { 0, 2000000 }, { 0, 1000000 } }, old, once = { { 0, 0 }, { 0, 500000 } };
	struct pollfd fds[2];
	uint64_t count;

	CHECK(fd >= 0 && pipe(other) == 0);
	CHECK(timerfd_settime(fd, 0, &each, NULL) == 0);
	double begin = now_us();
	CHECK(read(fd, &count, sizeof(count)) == 8 && count == 1 && (int)((now_us() - begin) / 10) == 100);
	usleep(6500);
	CHECK(read(fd, &count, sizeof(count)) == 8 && count == 3);
	CHECK(timerfd_gettime(fd, &old) == 0 && old.it_interval.tv_nsec == 2000000);
	CHECK(old.it_value.tv_nsec > 1400000 && old.it_value.tv_nsec < 1500000);
	fds[0] = (struct pollfd){ other[0], POLLIN, 0 };
	fds[1] = (struct pollfd){ fd, POLLIN, 0 };
	CHECK(poll(fds, 2, 1) == 0 && poll(fds, 2, 1) == 1 && fds[1].revents == POLLIN);
	CHECK(timerfd_settime(fd, 0, &once, &old) == 0 && old.it_interval.tv_nsec == 2000000);
	int epoll = epoll_create1(0);
	struct epoll_event event = { EPOLLIN, { .u32 = 7 } };
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	begin = now_us();
	CHECK(epoll_wait(epoll, &event, 1, 100) == 1 && event.data.u32 == 7);
	CHECK((int)((now_us() - begin) / 10) == 50);
	CHECK(read(fd, &count, 4) == -1 && errno == EINVAL);
	CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && read(fd, &count, 8) == 8 && count == 1);
	CHECK(read(fd, &count, 8) == -1 && errno == EAGAIN);
	CHECK(timerfd_settime(other[0], 0, &once, NULL) == -1 && errno == EINVAL);
	CHECK(close(fd) == 0 && timerfd_settime(fd, 0, &once, NULL) == -1 && errno == EBADF);
}

static void times(void)
{
	double from = now_us();

	CHECK(usleep(1500) == 0 && now_us() - from >= 1500 && now_us() - from < 1501);
	struct timespec until, left;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 2;
	from = now_us();
	CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == 0);
	CHECK(now_us() - from > 1.9999e6 && now_us() - from < 2.0001e6);
	signal(SIGALRM, on_alarm);
	alarm(1);
	struct timespec long_time = { 60, 0 };
	CHECK(nanosleep(&long_time, &left) == -1 && errno == EINTR && alarms == 1);
	CHECK(left.tv_sec == 58 || left.tv_sec == 59);
	alarm(1);
	CHECK(poll(NULL, 0, -1) == -1 && errno == EINTR && alarms == 2);
	alarm(1);
	CHECK(pause() == -1 && errno == EINTR && alarms == 3);
	timers();
	CHECK(syscall(SYS_gettid) == getpid() && gettid() == getpid());
	CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &until) == 0 && until.tv_sec < 1600000000);
	puts("times: done");
}

static void names(const char *host)
{
	char name[64];
	struct ifaddrs *all;
	int count = 0;

	CHECK(gethostname(name, sizeof(name)) == 0);
	CHECK(getifaddrs(&all) == 0);
	for (struct ifaddrs *each = all; each; each = each->ifa_next)
		count++;
	freeifaddrs(all);
	struct hostent *entry = gethostbyname(host);
	CHECK(entry && entry->h_addrtype == AF_INET && entry->h_length == 4);
	printf("host %s has %d interfaces; %s is %s\n", name, count, host,
	       inet_ntoa(*(struct in_addr *)entry->h_addr_list[0]));
}

static void receive_timeout(const char *host)
{
	int fd = connected(host);
	struct timeval time = { 0, 2000 };
	char byte;

	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) == 0);
	double from = now_us();
	CHECK(recv(fd, &byte, 1, 0) == -1 && errno == EAGAIN);
	CHECK(now_us() - from >= 2000 && now_us() - from < 2100);
	time.tv_usec = 0;
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) == 0);
	struct sigaction action = { .sa_handler = on_alarm };
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	alarm(1);
	CHECK(recv(fd, &byte, 1, 0) == -1 && errno == EINTR && alarms == 1);
	/* With SA_RESTART the call goes on: the answer comes after two seconds. */
	action.sa_flags = SA_RESTART;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	alarm(1);
	from = now_us();
	CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'l' && alarms == 2);
	CHECK(now_us() - from > 1.5e6);
	alarms = 0;
	FILE *stream = fdopen(dup(fd), "r");
	char line[16];
	CHECK(stream && fgets(line, sizeof(line), stream) && !strcmp(line, "ate\n"));
	CHECK(fclose(stream) == 0);
	CHECK(dup2(fd, 40) == 40 && close(fd) == 0);
	/* The connection is still there. */
	CHECK(write(40, "end", 3) == 3 && close(40) == 0);
	puts("time-out: done");
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "server") == 0) {
		int listener = listening();
		stream_server(listener);
		waits_server(listener);
		int fd = accepted(listener);
		char bytes[4];
		sleep(3);
		CHECK(dprintf(fd, "%s", "late\n") == 5);
		read_whole(fd, bytes, 3);
		CHECK(read(fd, bytes, 1) == 0);
		close(fd);
		close(listener);
	} else if (argc == 3 && strcmp(argv[1], "client") == 0) {
		names(argv[2]);
		stream_client(argv[2]);
		waits_client(argv[2]);
		receive_timeout(argv[2]);
		refusals();
		times();
	} else {
		fprintf(stderr, "net_check server, or net_check client HOST\n");
		return 2;
	}
	return 0;
}
