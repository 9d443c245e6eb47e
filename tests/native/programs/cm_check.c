/* librdmacm against the rack: what a server and a client see of each other, and what is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 7471

static struct rdma_event_channel *channel;

#define MUST(call)                                                                 \
	do {                                                                       \
		if (call) {                                                        \
			printf("line %d: " #call ": %s\n", __LINE__, strerror(errno)); \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, address, &in.sin_addr);
	return in;
}

static const char *shown(struct sockaddr *address)
{
	static char text[64];
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	snprintf(text, sizeof(text), "%s:%u", inet_ntoa(in->sin_addr), ntohs(in->sin_port));
	return text;
}

/* The next event, shown without what follows the text of its private data. */
static struct rdma_cm_event *next(const char *when)
{
	struct rdma_cm_event *event;

	MUST(rdma_get_cm_event(channel, &event));
	const struct rdma_conn_param *conn = &event->param.conn;
	const char *text = conn->private_data && event->id->ps == RDMA_PS_TCP ? conn->private_data : "";
	printf("%s: %s %d %s\n", when, rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"),
	       event->status, text);
	return event;
}

static void expect(const char *when)
{
	rdma_ack_cm_event(next(when));
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;
	MUST(rdma_create_id(channel, &id, NULL, ps));
	return id;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	MUST(rdma_create_qp(id, NULL, &init));
}

static struct rdma_conn_param with(const char *text)
{
	return (struct rdma_conn_param){ .private_data = text, .private_data_len = strlen(text) + 1,
					 .responder_resources = 2, .initiator_depth = 3,
					 .retry_count = 6, .rnr_retry_count = 5 };
}

/* @param leaves: the process ends when it has a connection, and says nothing. */
static void serve(bool leaves)
{
	struct sockaddr_in any = at("0.0.0.0", PORT);
	struct rdma_cm_id *listener = new_id(RDMA_PS_TCP), *other = new_id(RDMA_PS_TCP);
	struct rdma_cm_id *connected = NULL;

	MUST(rdma_bind_addr(listener, (struct sockaddr *)&any));
	printf("bound to %s, %s device\n", shown(rdma_get_local_addr(listener)),
	       listener->verbs ? "a" : "no");
	printf("the port again: %s\n",
	       rdma_bind_addr(other, (struct sockaddr *)&any) ? strerror(errno) : "bound");
	struct sockaddr_in foreign = at("10.0.0.1", 0);
	printf("a foreign address: %s\n",
	       rdma_bind_addr(other, (struct sockaddr *)&foreign) ? strerror(errno) : "bound");
	MUST(rdma_destroy_id(other));
	MUST(rdma_listen(listener, 4));
	for (;;) {
		struct rdma_cm_event *event = next("server");
		struct rdma_cm_id *id = event->id;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			const struct rdma_conn_param asked = event->param.conn;
			printf("from %s", shown(rdma_get_peer_addr(id)));
			printf(" to %s, %s, depths %u %u, retries %u %u\n",
			       shown(rdma_get_local_addr(id)), ibv_get_device_name(id->verbs->device),
			       asked.responder_resources, asked.initiator_depth, asked.retry_count,
			       asked.rnr_retry_count);
			bool refuse = strcmp(asked.private_data, "yes") != 0;
			rdma_ack_cm_event(event);
			if (refuse) {
				MUST(rdma_reject(id, "because", 8));
				MUST(rdma_destroy_id(id));
				continue;
			}
			struct rdma_conn_param answer = with("hello");
			create_qp(id);
			MUST(rdma_accept(id, &answer));
			connected = id;
			continue;
		}
		bool over = event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT;
		if (event->event == RDMA_CM_EVENT_ESTABLISHED && leaves)
			_exit(0);
		if (event->event == RDMA_CM_EVENT_ESTABLISHED)
			MUST(rdma_disconnect(id));
		rdma_ack_cm_event(event);
		if (over)
			break;
	}
	rdma_destroy_qp(connected);
	MUST(rdma_destroy_id(connected));
	MUST(rdma_destroy_id(listener));
}

static void resolve(struct rdma_cm_id *id, const char *address, int port)
{
	struct sockaddr_in to = at(address, port);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 5));
}

static struct rdma_cm_id *connect_to(const char *when, const char *server, int port,
				     const char *text)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_conn_param param = with(text);

	resolve(id, server, port);
	expect(when);
	MUST(rdma_resolve_route(id, 5));
	expect(when);
	create_qp(id);
	MUST(rdma_connect(id, &param));
	return id;
}

static void end(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id));
}

static void join_group(void)
{
	struct sockaddr_in group = at("239.1.2.3", 0);
	struct rdma_cm_id *id = new_id(RDMA_PS_UDP);
	char gid[INET6_ADDRSTRLEN];

	resolve(id, "239.1.2.3", 0);
	expect("group");
	MUST(rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
	struct rdma_cm_event *event = next("group");
	const struct rdma_ud_param *ud = &event->param.ud;
	inet_ntop(AF_INET6, ud->ah_attr.grh.dgid.raw, gid, sizeof(gid));
	printf("joined %s, queue pair %x, key %x\n", gid, ud->qp_num, ud->qkey);
	rdma_ack_cm_event(event);
	MUST(rdma_leave_multicast(id, (struct sockaddr *)&group));
	MUST(rdma_destroy_id(id));
}

static void ask(const char *server)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *event;

	resolve(id, "10.0.77.7", PORT);
	expect("no host");
	end(id);
	id = connect_to("no listener", server, PORT + 1, "yes");
	expect("no listener");
	end(id);
	id = connect_to("refused", server, PORT, "no");
	expect("refused");
	end(id);
	id = connect_to("accepted", server, PORT, "yes");
	expect("accepted");
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	struct pollfd polled = { channel->fd, POLLIN, 0 };
	while (rdma_get_cm_event(channel, &event) < 0) {
		printf("not yet: %s\n", strerror(errno));
		poll(&polled, 1, -1);
	}
	fcntl(channel->fd, F_SETFL, 0);
	printf("accepted: %s\n", rdma_event_str(event->event));
	/* The id's end waits for its events' acknowledgement: this one's is behind. */
	rdma_ack_cm_event(event);
	struct rdma_event_channel *old = channel;
	channel = rdma_create_event_channel();
	MUST(rdma_migrate_id(id, channel));
	rdma_destroy_event_channel(old);
	expect("migrated");
	end(id);
	join_group();
}

int main(int argc, char **argv)
{
	channel = rdma_create_event_channel();
	if (!channel) {
		perror("rdma_create_event_channel");
		return 1;
	}
	const char *address = NULL;
	if (argc > 2)
		address = inet_ntoa(*(struct in_addr *)gethostbyname(argv[2])->h_addr_list[0]);
	if (argc == 2)
		serve(strcmp(argv[1], "leave") == 0);
	else if (strcmp(argv[1], "wait") == 0)
		/* Until the peer is gone. */
		for (connect_to("waiting", address, PORT, "yes");;)
			expect("waiting");
	else
		ask(address);
	rdma_destroy_event_channel(channel);
	printf("done\n");
	return 0;
}
