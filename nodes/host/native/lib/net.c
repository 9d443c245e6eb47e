/*
 * Sockets: TCP between the hosts of the rack, which the host's process carries (sockets.ts), and
 * what reads, writes and closes descriptors. Descriptors of the machine itself (files, pipes, sockets
 * of AF_UNIX) stay libc's.
 */
#define _GNU_SOURCE
#include "net.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes of one request: more are several, which take no time between them. */
#define PART_BYTES (64u << 10)

static struct net_socket *socket_of(struct descriptor *descriptor)
{
	struct data *data = descriptor ? descriptor->data : NULL;
	return data && data->type == DATA_SOCKET ? (struct net_socket *)data : NULL;
}

/* The socket of a call; NULL: not the host's, or `*error` is set. */
static struct net_socket *socket_at(int fd, int *error)
{
	struct descriptor *descriptor = host_descriptor(fd);
	struct net_socket *socket = socket_of(descriptor);

	*error = lost_by_fork(fd) ? EBADF : descriptor && !socket ? ENOTSOCK : 0;
	return *error ? NULL : socket;
}

/* Of a descriptor of the machine: threads of the process may be at its other end. */
#define READ_NATIVE(fd, flags, call)         \
	({                                   \
		descriptors_await(fd, flags); \
		typeof(call) result_ = call; \
		if (result_ < 0 && errno == EAGAIN) { \
			descriptors_refused(); \
			errno = EAGAIN;      \
		}                            \
		result_;                     \
	})
#define WRITE_NATIVE(call)                   \
	({                                   \
		typeof(call) result_ = call; \
		descriptors_changed();       \
		result_;                     \
	})

/* In a function that has `fd` and takes over only the host's sockets: `socket` is one behind this. */
#define HOST_SOCKET_OR(call)                              \
	int error_;                                       \
	struct net_socket *socket = socket_at(fd, &error_); \
	if (error_)                                       \
		return fail(error_);                      \
	if (!socket)                                      \
		return call

static int add_socket(struct net_socket *made, int flags, uint8_t kind)
{
	int fd = descriptor_open(kind, made->handle);

	if (fd < 0) {
		free(made);
		return -1;
	}
	descriptor_of(fd)->data = made;
	made->data.users = 1;
	if (flags & SOCK_NONBLOCK)
		syscall(SYS_fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK);
	if (!(flags & SOCK_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	return fd;
}

static struct net_socket *new_socket(int family, int type)
{
	struct net_socket *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->data.type = DATA_SOCKET;
	made->family = family;
	made->type = type;
	made->receive_ps = made->send_ps = NEVER;
	return made;
}

static int protocol_of(int type)
{
	return type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
}

EXPORT int socket(int family, int type, int protocol)
{
	if (!native.active)
		return LIBC(socket)(family, type, protocol);
	/* Linux's own networks: the rack's host has none of the machine's. */
	if (family == AF_NETLINK || socket_refused(family, protocol))
		return fail(EPROTONOSUPPORT);
	if (family == AF_UNIX)
		return LIBC(socket)(family, type, protocol);
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (family != AF_INET && family != AF_INET6) {
		complain("socket: address family %d is refused: the rack carries TCP over IPv4", family);
		return fail(EAFNOSUPPORT);
	}
	bool known = kind == SOCK_STREAM || kind == SOCK_DGRAM;
	if (!known || (protocol != 0 && protocol != protocol_of(kind))) {
		complain("socket: type %d, protocol %d are refused: the rack carries TCP alone", kind,
			 protocol);
		return fail(known ? EPROTONOSUPPORT : ESOCKTNOSUPPORT);
	}
	struct net_socket *made = new_socket(family, kind);
	if (!made)
		return fail(ENOMEM);
	return add_socket(made, type, POLLED_socket);
}

void sockets_leave_parent(void)
{
	for (int fd = 0; fd < DESCRIPTORS_MOST; fd++) {
		struct descriptor *descriptor = descriptor_of(fd);
		if (!descriptor)
			continue;
		switch (descriptor->kind) {
		case POLLED_channel:
		case POLLED_async:
		case POLLED_cm:
		case KIND_COMMAND:
			descriptor->kind = KIND_LOST;
			descriptor->data = NULL;
		}
	}
}

int socket_handles(uint64_t (*handles)[2], int most)
{
	int count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MOST; fd++) {
		struct descriptor *descriptor = descriptor_of(fd);
		struct net_socket *socket = socket_of(descriptor);
		bool known = !socket || !socket->handle;
		for (int i = 0; i < count && i < most && !known; i++)
			known = handles[i][1] == socket->handle;
		if (known)
			continue;
		if (count < most) {
			handles[count][0] = descriptor->kind;
			handles[count][1] = socket->handle;
		}
		count++;
	}
	return count;
}

EXPORT int socketpair(int family, int type, int protocol, int pair[2])
{
	/* Within the process or to its children: the kernel's. */
	return LIBC(socketpair)(family, type, protocol, pair);
}

EXPORT int bind(int fd, const struct sockaddr *given, socklen_t length)
{
	HOST_SOCKET_OR(LIBC(bind)(fd, given, length));
	uint32_t address;
	uint16_t port;

	if (!parse_address(given, length, &address, &port))
		return fail(EINVAL);
	if (socket->bound || socket->connected || socket->connecting)
		return fail(EINVAL);
	if (address != 0 && address >> 24 != IN_LOOPBACKNET && address != native.address)
		return fail(EADDRNOTAVAIL);
	socket->bound = true;
	socket->local_address = address;
	socket->local_port = port;
	return 0;
}

/* The socket has this handle at the host from now on: in all its descriptors. */
static void set_handle(struct net_socket *socket, uint8_t kind, uint64_t handle)
{
	socket->handle = handle;
	for (int fd = 0, left = socket->data.users; left > 0 && fd < DESCRIPTORS_MOST; fd++) {
		struct descriptor *descriptor = descriptor_of(fd);
		if (!descriptor || descriptor->data != socket)
			continue;
		descriptor->kind = kind;
		descriptor->handle = handle;
		left--;
	}
}

EXPORT int listen(int fd, int backlog)
{
	HOST_SOCKET_OR(LIBC(listen)(fd, backlog));
	if (socket->type != SOCK_STREAM)
		return fail(EOPNOTSUPP);
	if (socket->listening)
		return 0;
	if (socket->connected || socket->connecting)
		return fail(EINVAL);
	uint64_t *arg = request_begin(REQUEST_socket_listen, ARG_socket_listen_WORDS);
	arg[ARG_socket_listen_port] = socket->local_port;
	arg[ARG_socket_listen_backlog] = backlog < 0 ? 0 : backlog;
	int error = request_send();
	if (error)
		return fail(error);
	socket->listening = true;
	socket->local_port = answer()[ANSWER_socket_listen_port];
	set_handle(socket, POLLED_listener, answer()[ANSWER_socket_listen_handle]);
	return 0;
}

/*
 * Before a call that may block: waits as SO_RCVTIMEO and SO_SNDTIMEO say, and for alarms. 0, EAGAIN
 * when the time is over, or EINTR.
 */
static int wait_until_ready(int fd, struct net_socket *socket, int events)
{
	int64_t ps = events == POLLOUT ? socket->send_ps : socket->receive_ps;
	struct pollfd polled = { fd, events, 0 };

	while (ps != NEVER || native.alarm_ps != NEVER) {
		int ready = wait_for(&polled, 1, ps);
		if (ready >= 0)
			return ready > 0 ? 0 : EAGAIN;
		/* With a time-out of the socket no call is begun again (signal(7)). */
		if (errno != EINTR || ps != NEVER || !alarm_restarts())
			return errno;
	}
	return 0;
}

EXPORT int accept4(int fd, struct sockaddr *restrict peer, socklen_t *restrict length, int flags)
{
	HOST_SOCKET_OR(LIBC(accept4)(fd, peer, length, flags));
	bool waits = descriptor_waits(fd);

	if (!socket->listening)
		return fail(EINVAL);
	note_tried(fd, POLLIN);
	int error = waits ? wait_until_ready(fd, socket, POLLIN) : 0;
	if (error)
		return fail(error);
	uint64_t *arg = request_begin(REQUEST_socket_accept, ARG_socket_accept_WORDS);
	arg[ARG_socket_accept_listener] = socket->handle;
	arg[ARG_socket_accept_wait] = waits;
	error = request_send();
	if (error)
		return fail(error);
	struct net_socket *made = new_socket(socket->family, SOCK_STREAM);
	if (!made)
		return fail(ENOMEM);
	made->bound = made->connected = true;
	made->handle = answer()[ANSWER_socket_accept_handle];
	made->peer_address = answer()[ANSWER_socket_accept_address];
	made->peer_port = answer()[ANSWER_socket_accept_port];
	made->local_address = native.address;
	made->local_port = socket->local_port;
	if (peer)
		show_address(made->family, made->peer_address, made->peer_port, peer, length);
	return add_socket(made, flags, POLLED_socket);
}

EXPORT int accept(int fd, struct sockaddr *restrict peer, socklen_t *restrict length)
{
	if (!host_descriptor(fd) && !lost_by_fork(fd))
		return LIBC(accept)(fd, peer, length);
	return accept4(fd, peer, length, 0);
}

/* SO_ERROR, and whether the connection stands. */
static int socket_status(struct net_socket *socket, bool take,
			 uint64_t status[ANSWER_socket_status_WORDS])
{
	uint64_t *arg = request_begin(REQUEST_socket_status, ARG_socket_status_WORDS);
	arg[ARG_socket_status_socket] = socket->handle;
	arg[ARG_socket_status_take] = take;
	int error = request_send();
	if (error)
		return error;
	memcpy(status, answer(), ANSWER_socket_status_WORDS * sizeof(uint64_t));
	if (status[ANSWER_socket_status_connected]) {
		socket->connecting = false;
		socket->connected = true;
	}
	if (status[ANSWER_socket_status_error] && socket->connecting)
		socket->connecting = false;
	return 0;
}

static int go_on_connecting(struct net_socket *socket)
{
	uint64_t status[ANSWER_socket_status_WORDS];
	int error = socket_status(socket, true, status);

	if (!error)
		error = status[ANSWER_socket_status_error];
	if (error)
		return fail(error);
	return socket->connected ? 0 : fail(EALREADY);
}

static void close_handle(struct net_socket *socket)
{
	if (!socket->handle)
		return;
	request_begin(REQUEST_socket_close, ARG_socket_close_WORDS)[ARG_socket_close_socket] =
		socket->handle;
	request_send();
}

/* Dynamic ports (RFC 6335). */
#define FIRST_DYNAMIC_PORT 49152
#define LAST_PORT 65535

/* Its peer may be another one later, or none (AF_UNSPEC). */
static int connect_datagrams(struct net_socket *socket, const struct sockaddr *given, socklen_t length)
{
	static uint16_t last_port = LAST_PORT;
	uint32_t address;
	uint16_t port;

	socket->connected = false;
	if (given->sa_family == AF_UNSPEC)
		return 0;
	if (!parse_address(given, length, &address, &port))
		return fail(EAFNOSUPPORT);
	bool is_own = address >> 24 == IN_LOOPBACKNET;
	if (!is_own && (address & NETMASK) != (native.address & NETMASK))
		return fail(ENETUNREACH);
	socket->connected = true;
	socket->peer_address = address;
	socket->peer_port = port;
	socket->local_address = is_own ? INADDR_LOOPBACK : native.address;
	if (!socket->local_port)
		socket->local_port = last_port = last_port < LAST_PORT ? last_port + 1 : FIRST_DYNAMIC_PORT;
	return 0;
}

EXPORT int connect(int fd, const struct sockaddr *given, socklen_t length)
{
	HOST_SOCKET_OR(LIBC(connect)(fd, given, length));
	uint32_t address;
	uint16_t port;

	if (socket->type == SOCK_DGRAM)
		return connect_datagrams(socket, given, length);

	if (socket->connected)
		return fail(EISCONN);
	if (socket->listening)
		return fail(EOPNOTSUPP);
	if (socket->connecting)
		return go_on_connecting(socket);
	if (!parse_address(given, length, &address, &port))
		return fail(given->sa_family == AF_UNSPEC ? EINVAL : EAFNOSUPPORT);
	/* A connection that was refused before: the host has closed nothing. */
	close_handle(socket);
	set_handle(socket, POLLED_socket, 0);
	note_tried(fd, POLLOUT);
	bool waits = descriptor_waits(fd) && native.alarm_ps == NEVER && socket->send_ps == NEVER;
	uint64_t *arg = request_begin(REQUEST_socket_connect, ARG_socket_connect_WORDS);
	arg[ARG_socket_connect_address] = address;
	arg[ARG_socket_connect_port] = port;
	arg[ARG_socket_connect_local_port] = socket->local_port;
	arg[ARG_socket_connect_wait] = waits;
	int error = request_send();
	if (error == ENETUNREACH)
		complain("connect to %u.%u.%u.%u: no host of the rack has that address", address >> 24,
			 address >> 16 & 255, address >> 8 & 255, address & 255);
	if (error)
		return fail(error);
	set_handle(socket, POLLED_socket, answer()[ANSWER_socket_connect_handle]);
	socket->local_address = native.address;
	socket->local_port = answer()[ANSWER_socket_connect_port];
	socket->peer_address = address;
	socket->peer_port = port;
	socket->connected = answer()[ANSWER_socket_connect_connected];
	socket->connecting = !socket->connected;
	if (socket->connected)
		return 0;
	if (!descriptor_waits(fd))
		return fail(EINPROGRESS);
	error = wait_until_ready(fd, socket, POLLOUT);
	if (error)
		return fail(error == EAGAIN ? EINPROGRESS : error);
	return go_on_connecting(socket);
}

/* The error of a call on the stream; a connect that did not wait is asked for its result here. */
static int refuse_stream(struct net_socket *socket)
{
	uint64_t status[ANSWER_socket_status_WORDS];

	if (socket->type == SOCK_DGRAM) {
		complain("datagrams of UDP are refused: the rack carries TCP alone");
		return EOPNOTSUPP;
	}
	if (socket->connected)
		return 0;
	if (!socket->connecting)
		return ENOTCONN;
	int error = socket_status(socket, true, status);
	if (error)
		return error;
	if (status[ANSWER_socket_status_error])
		return status[ANSWER_socket_status_error];
	return socket->connected ? 0 : EAGAIN;
}

static ssize_t send_bytes(int fd, struct net_socket *socket, const char *bytes, size_t length,
			  int flags)
{
	bool waits = descriptor_waits(fd) && !(flags & MSG_DONTWAIT);
	size_t done = 0;
	int error = refuse_stream(socket);

	if (error)
		return fail(error == ENOTCONN && !(flags & MSG_NOSIGNAL) ? EPIPE : error);
	note_tried(fd, POLLOUT);
	do {
		size_t part = length - done < PART_BYTES ? length - done : PART_BYTES;
		if (waits && (error = wait_until_ready(fd, socket, POLLOUT)))
			break;
		uint64_t *arg = request_begin(REQUEST_socket_send, ARG_socket_send_WORDS);
		arg[ARG_socket_send_socket] = socket->handle;
		arg[ARG_socket_send_wait] = waits;
		request_bytes(bytes + done, part);
		error = request_send();
		if (error)
			break;
		size_t sent = answer()[ANSWER_socket_send_sent];
		done += sent;
		if (sent < part && !waits)
			break;
	} while (done < length);
	if (done > 0 || !error)
		return done;
	if (error == EPIPE && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	return fail(error);
}

static ssize_t receive_bytes(int fd, struct net_socket *socket, char *bytes, size_t length,
			     int flags)
{
	bool waits = descriptor_waits(fd) && !(flags & MSG_DONTWAIT);
	bool peeks = flags & MSG_PEEK;
	size_t done = 0, got;
	int error = refuse_stream(socket);

	if (error)
		return fail(error);
	note_tried(fd, POLLIN);
	do {
		size_t part = length - done < PART_BYTES ? length - done : PART_BYTES;
		if (waits && (error = wait_until_ready(fd, socket, POLLIN)))
			break;
		uint64_t *arg = request_begin(REQUEST_socket_receive, ARG_socket_receive_WORDS);
		arg[ARG_socket_receive_socket] = socket->handle;
		arg[ARG_socket_receive_most] = part;
		arg[ARG_socket_receive_wait] = waits;
		arg[ARG_socket_receive_peek] = peeks;
		error = request_send();
		if (error)
			break;
		got = answer_bytes();
		if (!(flags & MSG_TRUNC))
			memcpy(bytes + done, answer(), got);
		done += got;
		/* Whole parts of a large read: what is there at this instant follows. */
		if (got == part && !(flags & MSG_WAITALL))
			waits = false;
		else if (!(flags & MSG_WAITALL))
			break;
	} while (got > 0 && done < length && !peeks);
	return done > 0 || !error ? (ssize_t)done : fail(error);
}

EXPORT ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	HOST_SOCKET_OR(WRITE_NATIVE(LIBC(send)(fd, bytes, length, flags)));
	return send_bytes(fd, socket, bytes, length, flags);
}

EXPORT ssize_t sendto(int fd, const void *bytes, size_t length, int flags,
		      const struct sockaddr *to, socklen_t to_length)
{
	HOST_SOCKET_OR(WRITE_NATIVE(LIBC(sendto)(fd, bytes, length, flags, to, to_length)));
	return to && socket->type == SOCK_STREAM ? fail(EISCONN) : send_bytes(fd, socket, bytes, length, flags);
}

EXPORT ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
	HOST_SOCKET_OR(READ_NATIVE(fd, flags, LIBC(recv)(fd, bytes, length, flags)));
	return receive_bytes(fd, socket, bytes, length, flags);
}

EXPORT ssize_t recvfrom(int fd, void *restrict bytes, size_t length, int flags,
			struct sockaddr *restrict from, socklen_t *restrict from_length)
{
	HOST_SOCKET_OR(READ_NATIVE(fd, flags, LIBC(recvfrom)(fd, bytes, length, flags, from, from_length)));
	if (from_length)
		*from_length = 0;
	return receive_bytes(fd, socket, bytes, length, flags);
}

static ssize_t vector_length(const struct iovec *parts, int count)
{
	ssize_t length = 0;

	if (count < 0 || count > IOV_MAX)
		return -1;
	for (int i = 0; i < count; i++)
		if (__builtin_add_overflow(length, parts[i].iov_len, &length))
			return -1;
	return length;
}

static ssize_t send_vector(int fd, struct net_socket *socket, const struct iovec *parts, int count,
			   int flags)
{
	ssize_t length = vector_length(parts, count);
	if (length < 0)
		return fail(EINVAL);
	if (count == 1)
		return send_bytes(fd, socket, parts[0].iov_base, length, flags);
	char *bytes = malloc(length + 1), *at = bytes;
	if (!bytes)
		return fail(ENOMEM);
	for (int i = 0; i < count; i++)
		at = mempcpy(at, parts[i].iov_base, parts[i].iov_len);
	ssize_t sent = send_bytes(fd, socket, bytes, length, flags);
	int error = errno;
	free(bytes);
	errno = error;
	return sent;
}

static ssize_t receive_vector(int fd, struct net_socket *socket, const struct iovec *parts,
			      int count, int flags)
{
	ssize_t length = vector_length(parts, count);
	if (length < 0)
		return fail(EINVAL);
	if (count == 1)
		return receive_bytes(fd, socket, parts[0].iov_base, length, flags);
	char *bytes = malloc(length + 1), *at = bytes;
	if (!bytes)
		return fail(ENOMEM);
	ssize_t got = receive_bytes(fd, socket, bytes, length, flags);
	int error = errno;
	for (int i = 0; i < count && at < bytes + (got > 0 ? got : 0); i++) {
		size_t left = bytes + got - at;
		size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
		memcpy(parts[i].iov_base, at, part);
		at += part;
	}
	free(bytes);
	errno = error;
	return got;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	HOST_SOCKET_OR(WRITE_NATIVE(LIBC(sendmsg)(fd, message, flags)));
	if (message->msg_name)
		return fail(EISCONN);
	if (message->msg_controllen)
		return fail(EINVAL);
	return send_vector(fd, socket, message->msg_iov, message->msg_iovlen, flags);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	HOST_SOCKET_OR(READ_NATIVE(fd, flags, LIBC(recvmsg)(fd, message, flags)));
	message->msg_namelen = 0;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	return receive_vector(fd, socket, message->msg_iov, message->msg_iovlen, flags);
}

/* Reads and writes of the host's other descriptors: a completion channel has no bytes. */
#define HOST_STREAM_OR(call)                                                   \
	struct net_socket *socket = socket_of(host_descriptor(fd));            \
	if (lost_by_fork(fd))                                                  \
		return fail(EBADF);                                            \
	if (!socket && host_descriptor(fd))                                    \
		return fail(EINVAL);                                           \
	if (!socket)                                                           \
		return call

EXPORT ssize_t read(int fd, void *bytes, size_t length)
{
	struct descriptor *descriptor = host_descriptor(fd);

	scm_will_store(bytes, length);
	if (descriptor && descriptor->kind == KIND_TIMER)
		return timer_read(fd, bytes, length);
	if (scm_is_file(fd))
		return scm_read(fd, bytes, length);
	HOST_STREAM_OR(READ_NATIVE(fd, 0, LIBC(read)(fd, bytes, length)));
	return receive_bytes(fd, socket, bytes, length, 0);
}

EXPORT ssize_t write(int fd, const void *bytes, size_t length)
{
	struct descriptor *descriptor = host_descriptor(fd);

	if (descriptor && descriptor->kind == POLLED_cm)
		return cm_write(fd, descriptor->handle, bytes, length);
	if (scm_is_file(fd))
		return scm_file_write(fd, bytes, length);
	HOST_STREAM_OR(WRITE_NATIVE(LIBC(write)(fd, bytes, length)));
	return send_bytes(fd, socket, bytes, length, 0);
}

/* Of a file below /scm, part by part. */
static ssize_t scm_vector(int fd, const struct iovec *parts, int count, bool writes)
{
	ssize_t done = 0;

	for (int i = 0; i < count; i++) {
		void *at = parts[i].iov_base;
		size_t length = parts[i].iov_len;
		ssize_t part = writes ? scm_file_write(fd, at, length) : scm_read(fd, at, length);
		if (part < 0)
			return done ? done : -1;
		done += part;
		if ((size_t)part < length)
			break;
	}
	return done;
}

EXPORT ssize_t readv(int fd, const struct iovec *parts, int count)
{
	if (scm_is_file(fd))
		return scm_vector(fd, parts, count, false);
	HOST_STREAM_OR(READ_NATIVE(fd, 0, LIBC(readv)(fd, parts, count)));
	return receive_vector(fd, socket, parts, count, 0);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
	if (scm_is_file(fd))
		return scm_vector(fd, parts, count, true);
	HOST_STREAM_OR(WRITE_NATIVE(LIBC(writev)(fd, parts, count)));
	return send_vector(fd, socket, parts, count, 0);
}

/* Those that _FORTIFY_SOURCE calls in their place. */
_Noreturn void __chk_fail(void);

EXPORT ssize_t __read_chk(int fd, void *bytes, size_t length, size_t room)
{
	if (length > room)
		__chk_fail();
	return read(fd, bytes, length);
}

EXPORT ssize_t __recv_chk(int fd, void *bytes, size_t length, size_t room, int flags)
{
	if (length > room)
		__chk_fail();
	return recv(fd, bytes, length, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *restrict bytes, size_t length, size_t room, int flags,
			      struct sockaddr *restrict from, socklen_t *restrict from_length)
{
	if (length > room)
		__chk_fail();
	return recvfrom(fd, bytes, length, flags, from, from_length);
}

EXPORT int shutdown(int fd, int how)
{
	HOST_SOCKET_OR(WRITE_NATIVE(LIBC(shutdown)(fd, how)));
	if (!socket->handle)
		return fail(ENOTCONN);
	uint64_t *arg = request_begin(REQUEST_socket_shutdown, ARG_socket_shutdown_WORDS);
	arg[ARG_socket_shutdown_socket] = socket->handle;
	arg[ARG_socket_shutdown_how] = how;
	int error = request_send();
	return error ? fail(error) : 0;
}

EXPORT int getsockname(int fd, struct sockaddr *restrict shown, socklen_t *restrict length)
{
	HOST_SOCKET_OR(LIBC(getsockname)(fd, shown, length));
	/* bind(2) to port 0 has given it one. */
	if (socket->type == SOCK_STREAM && socket->bound && !socket->local_port) {
		request_begin(REQUEST_socket_port, ARG_socket_port_WORDS);
		int error = request_send();
		if (error)
			return fail(error);
		socket->local_port = answer()[ANSWER_socket_port_port];
	}
	show_address(socket->family, socket->local_address, socket->local_port, shown, length);
	return 0;
}

EXPORT int getpeername(int fd, struct sockaddr *restrict shown, socklen_t *restrict length)
{
	HOST_SOCKET_OR(LIBC(getpeername)(fd, shown, length));
	if (!socket->connected)
		return fail(ENOTCONN);
	show_address(socket->family, socket->peer_address, socket->peer_port, shown, length);
	return 0;
}

static int64_t timeout_of(const struct timeval *time)
{
	int64_t ps = time->tv_sec * 1000000000000ll + time->tv_usec * 1000000ll;
	return ps ? ps : NEVER;
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	HOST_SOCKET_OR(LIBC(setsockopt)(fd, level, name, value, length));
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
		if (length < sizeof(struct timeval))
			return fail(EINVAL);
		*(name == SO_RCVTIMEO ? &socket->receive_ps : &socket->send_ps) = timeout_of(value);
		return 0;
	}
	if (length < sizeof(int))
		return 0;
	int at = 0, most = sizeof(socket->options) / sizeof(socket->options[0]);
	while (at < socket->option_count &&
	       (socket->options[at].level != level || socket->options[at].name != name))
		at++;
	if (at == most)
		return 0;
	if (at == socket->option_count)
		socket->option_count++;
	socket->options[at].level = level;
	socket->options[at].name = name;
	memcpy(&socket->options[at].value, value, sizeof(int));
	return 0;
}

static int take_error(struct net_socket *socket)
{
	uint64_t status[ANSWER_socket_status_WORDS];

	if (socket->listening || !socket->handle)
		return 0;
	int error = socket_status(socket, true, status);
	return error ? error : (int)status[ANSWER_socket_status_error];
}

static bool known_option(struct net_socket *socket, int level, int name, int *value)
{
	for (int i = 0; i < socket->option_count; i++) {
		if (socket->options[i].level != level || socket->options[i].name != name)
			continue;
		*value = socket->options[i].value;
		return true;
	}
	*value = 0;
	if (level == IPPROTO_TCP)
		return name == TCP_NODELAY || name == TCP_QUICKACK || name == TCP_CORK ||
		       name == TCP_KEEPIDLE || name == TCP_KEEPINTVL || name == TCP_KEEPCNT ||
		       name == TCP_USER_TIMEOUT;
	if (level == IPPROTO_IP || level == IPPROTO_IPV6)
		return true;
	if (level != SOL_SOCKET)
		return false;
	switch (name) {
	case SO_ERROR:
		*value = take_error(socket);
		return true;
	case SO_TYPE:
		*value = socket->type;
		return true;
	case SO_DOMAIN:
		*value = socket->family;
		return true;
	case SO_PROTOCOL:
		*value = protocol_of(socket->type);
		return true;
	case SO_ACCEPTCONN:
		*value = socket->listening;
		return true;
	case SO_RCVBUF:
	case SO_SNDBUF:
		*value = 131072; /* BUFFER_BYTES of tcp_connection.ts */
		return true;
	default:
		return true;
	}
}

EXPORT int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict length)
{
	HOST_SOCKET_OR(LIBC(getsockopt)(fd, level, name, value, length));
	int found;

	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
		int64_t ps = name == SO_RCVTIMEO ? socket->receive_ps : socket->send_ps;
		struct timeval time = { 0, 0 };
		if (ps != NEVER)
			time = (struct timeval){ ps / 1000000000000ll, ps % 1000000000000ll / 1000000 };
		*length = *length < sizeof(time) ? *length : sizeof(time);
		memcpy(value, &time, *length);
		return 0;
	}
	if (!known_option(socket, level, name, &found))
		return fail(ENOPROTOOPT);
	*length = *length < sizeof(found) ? *length : sizeof(found);
	memcpy(value, &found, *length);
	return 0;
}

/* The last descriptor of a socket is gone. */
static void free_data(struct data *data, uint64_t handle)
{
	if (--data->users > 0)
		return;
	if (data->type == DATA_CM)
		cm_close(handle);
	if (data->type == DATA_SOCKET)
		close_handle((struct net_socket *)data);
	free(data);
}

EXPORT int close(int fd)
{
	struct descriptor *descriptor = descriptor_of(fd);

	if (is_own_descriptor(fd))
		return fail(EBADF);
	scm_close(fd);
	if (!descriptor)
		return WRITE_NATIVE(LIBC(close)(fd));
	struct data *data = descriptor->data;
	uint64_t handle = descriptor->handle;
	descriptor_close(fd);
	if (data && native.active)
		free_data(data, handle);
	return 0;
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	unsigned from = first;

	for (unsigned fd = first; fd <= last && fd < DESCRIPTORS_MOST; fd++) {
		if (is_own_descriptor(fd)) {
			if (fd > from && LIBC(close_range)(from, fd - 1, flags) < 0)
				return -1;
			from = fd + 1;
		} else if (!(flags & CLOSE_RANGE_CLOEXEC) && descriptor_of(fd)) {
			close(fd);
		}
	}
	return from > last && from > first ? 0 : LIBC(close_range)(from, last, flags);
}

EXPORT void closefrom(int first)
{
	close_range(first < 0 ? 0 : first, ~0u, 0);
}

/* `made` is a copy of `fd` that the kernel has made. */
static int note_copy(int fd, int made)
{
	struct descriptor *descriptor = descriptor_of(fd);

	if (made < 0 || !descriptor)
		return made;
	if (!descriptor_copy(fd, made)) {
		LIBC(close)(made);
		return fail(EMFILE);
	}
	if (descriptor->data)
		((struct data *)descriptor->data)->users++;
	return made;
}

EXPORT int dup(int fd)
{
	return note_copy(fd, LIBC(dup)(fd));
}

EXPORT int dup3(int fd, int to, int flags)
{
	if (fd != to && descriptor_of(to) && syscall(SYS_fcntl, fd, F_GETFD) >= 0)
		close(to);
	return note_copy(fd, LIBC(dup3)(fd, to, flags));
}

EXPORT int dup2(int fd, int to)
{
	if (fd == to)
		return syscall(SYS_fcntl, fd, F_GETFD) < 0 ? -1 : to;
	return dup3(fd, to, 0);
}

/* Arguments are a number or an address: a word on x86-64. */
EXPORT int fcntl(int fd, int command, ...)
{
	va_list args;

	va_start(args, command);
	long argument = va_arg(args, long);
	va_end(args);
	int result = LIBC(fcntl)(fd, command, argument);
	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? note_copy(fd, result) : result;
}

EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list args;

	va_start(args, request);
	void *argument = va_arg(args, void *);
	va_end(args);
	if (lost_by_fork(fd))
		return fail(EBADF);
	struct net_socket *socket = socket_of(host_descriptor(fd));
	/* FIONBIO is the kernel's, of any descriptor. */
	if (!socket || request == FIONBIO || request == FIOCLEX || request == FIONCLEX)
		return LIBC(ioctl)(fd, request, argument);
	if (request != FIONREAD && request != TIOCOUTQ)
		return interface_ioctl(request, argument);
	if (socket->listening)
		return fail(EINVAL);
	uint64_t status[ANSWER_socket_status_WORDS] = { 0 };
	int error = socket->handle ? socket_status(socket, false, status) : 0;
	if (error)
		return fail(error);
	*(int *)argument = request == FIONREAD ? status[ANSWER_socket_status_unread] :
						 status[ANSWER_socket_status_unsent];
	return 0;
}

EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
	/* As of files that have no pages: programs then read and write. */
	if (descriptor_of(to) || descriptor_of(from))
		return fail(EINVAL);
	return LIBC(sendfile)(to, from, offset, count);
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	HOST_SOCKET_OR(LIBC(sendmmsg)(fd, messages, count, flags));
	unsigned done = 0;
	for (; done < count; done++) {
		ssize_t sent = sendmsg(fd, &messages[done].msg_hdr, flags);
		if (sent < 0)
			break;
		messages[done].msg_len = sent;
	}
	return done > 0 || count == 0 ? (int)done : -1;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
		    struct timespec *timeout)
{
	HOST_SOCKET_OR(LIBC(recvmmsg)(fd, messages, count, flags, timeout));
	/* The first bytes are enough, as with MSG_WAITFORONE: a stream has no messages. */
	if (count == 0)
		return 0;
	ssize_t got = recvmsg(fd, &messages[0].msg_hdr, flags & ~MSG_WAITFORONE);
	if (got < 0)
		return -1;
	messages[0].msg_len = got;
	return 1;
}

/* stdio calls the kernel by itself: a stream of a socket reads and writes by the functions above. */
static ssize_t cookie_read(void *fd, char *bytes, size_t length)
{
	return read((intptr_t)fd, bytes, length);
}

static ssize_t cookie_write(void *fd, const char *bytes, size_t length)
{
	ssize_t written = write((intptr_t)fd, bytes, length);
	return written < 0 ? 0 : written;
}

static int cookie_close(void *fd)
{
	return close((intptr_t)fd);
}

EXPORT FILE *fdopen(int fd, const char *mode)
{
	if (!socket_of(host_descriptor(fd)))
		return LIBC(fdopen)(fd, mode);
	cookie_io_functions_t functions = { cookie_read, cookie_write, NULL, cookie_close };
	return fopencookie((void *)(intptr_t)fd, mode, functions);
}

EXPORT int vdprintf(int fd, const char *restrict format, va_list args)
{
	char *text;

	if (!socket_of(host_descriptor(fd)))
		return LIBC(vdprintf)(fd, format, args);
	int length = vasprintf(&text, format, args);
	if (length < 0)
		return -1;
	int written = write(fd, text, length);
	int error = errno;
	free(text);
	errno = error;
	return written;
}

EXPORT int dprintf(int fd, const char *restrict format, ...)
{
	va_list args;

	va_start(args, format);
	int written = vdprintf(fd, format, args);
	va_end(args);
	return written;
}

EXPORT int __vdprintf_chk(int fd, int flag, const char *restrict format, va_list args)
{
	(void)flag;
	return vdprintf(fd, format, args);
}

EXPORT int __dprintf_chk(int fd, int flag, const char *restrict format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	int written = vdprintf(fd, format, args);
	va_end(args);
	return written;
}
