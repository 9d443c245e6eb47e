/* The parts that net.c (sockets), waits.c (poll and its kin, sleeps), names.c (names of hosts) and rdma_cm.c share. */
#pragma once
#include "rackmesh.h"

#include <netinet/in.h>
#include <poll.h>

#pragma GCC visibility push(hidden)

/* One of these is behind `data` of a descriptor that net.c or waits.c has made. */
enum { DATA_SOCKET, DATA_EPOLL, DATA_CM, DATA_TIMER };

struct data {
	int type;
	int users; /* descriptors that dup(2) made of it */
};

/*
 * A stream socket. Its handle at the host is the descriptor's, once it listens or connects. One of datagrams has none: it is
 * bound, connected and asked for its names, as programs do that want the address of the way to a host.
 */
struct net_socket {
	struct data data;
	int family, type;
	bool bound, listening, connecting, connected;
	uint64_t handle;
	uint16_t local_port, peer_port; /* host order, as the addresses */
	uint32_t local_address, peer_address;
	/* setsockopt's values, which getsockopt returns; none of them changes what the host does. */
	struct {
		int level, name, value;
	} options[16];
	int option_count;
	int64_t receive_ps, send_ps; /* SO_RCVTIMEO, SO_SNDTIMEO: NEVER without */
};

/* A descriptor of the host in a program that runs on it; a fork's child must not touch one. */
static inline struct descriptor *host_descriptor(int fd)
{
	return native.active ? descriptor_of(fd) : NULL;
}
static inline bool lost_by_fork(int fd)
{
	return native.forked && descriptor_of(fd);
}

static inline int fail(int error)
{
	errno = error;
	return -1;
}

/* rdma_cm.c: the device of librdmacm. `channel` is a descriptor's handle. */
bool cm_is_path(const char *path);
int cm_open(int flags);
ssize_t cm_write(int fd, uint64_t channel, const void *bytes, size_t length);
void cm_close(uint64_t channel);

/* names.c: an address of the rack in host order by what a program says; false: complained. */
bool parse_address(const struct sockaddr *given, socklen_t length, uint32_t *address,
		   uint16_t *port);
void show_address(int family, uint32_t address, uint16_t port, struct sockaddr *shown,
		  socklen_t *length);

/* The rack's network is 10.0.0.0/16 (fabric/rack/assembly/network.ts). */
#define NETMASK 0xffff0000u
struct interface {
	char name[16];
	int index, mtu, type; /* as ARPHRD_* */
	short flags;
	unsigned mbps;
	uint8_t mac[6];
	uint32_t address, netmask; /* host order; 0: it has none */
};
const struct interface *interface_of(int place); /* of a device; -1: the loopback */
int interface_ioctl(unsigned long request, void *argument);

/* files.c: where the file of a path is that describes this host or process; else the path itself. */
struct path_room {
	char text[4096];
};
const char *found_path(const char *path, struct path_room *room);
bool is_own_file(const char *found); /* of this library's making */

/*
 * waits.c: as poll(2), over descriptors of the host and the machine's own. `timeout_ps` NEVER: for
 * ever. The number of ready ones, or -1 and EINTR after an alarm.
 */
int wait_for(struct pollfd *fds, nfds_t count, uint64_t timeout_ps);
ssize_t timer_read(int fd, void *bytes, size_t length); /* of a descriptor of kind KIND_TIMER */
/* A look at the machine's descriptors; the watchdog's signal, which no program sees, does not end it. */
int poll_now(struct pollfd *fds, nfds_t count);
/* A call has tried to read or to write: the next edge is a new one (EPOLLET). */
void note_tried(int fd, unsigned events);

/*
 * threads.c: descriptors of the machine that threads of the process write and read (a pipe, a pair of
 * sockets). A call that would wait for another thread waits at the host, until one has written to any.
 */
bool threads_share_descriptors(void);
extern const char descriptors_key;       /* a wake of it: one has written */
void descriptors_await(int fd, int flags); /* until it can be read; `flags` as MSG_DONTWAIT */
void descriptors_refused(void);              /* EAGAIN: a loop of such calls takes time */
void descriptors_changed(void);
void thread_waits_on(const volatile void *key); /* beside other things; NULL: no more */

#pragma GCC visibility pop
