/*
 * Events of completions by poll, select and epoll on a channel's descriptor, beside a socket:
 * `channel_check server`, `channel_check client HOST`. The client SENDs three times; the server sees
 * each in another way, then the client's end.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

struct end {
	uint32_t qpn;
	union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char buffer[64];

static struct end open_end(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct end end = { 0 };

	context = ibv_open_device(devices[0]);
	CHECK(context);
	ibv_free_device_list(devices);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	CHECK(pd && channel);
	cq = ibv_create_cq(context, 8, NULL, channel, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	CHECK(cq && mr);
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS));
	end.qpn = qp->qp_num;
	CHECK(!ibv_query_gid(context, 1, 0, &end.gid));
	return end;
}

static void connect_end(const struct end *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = peer->qpn,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .ah_attr = { .is_global = 1,
						 .grh = { .dgid = peer->gid, .hop_limit = 64 },
						 .port_num = 1 } };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC |
						IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC));
}

static void post_receive(void)
{
	struct ibv_sge sge = { (uintptr_t)buffer, sizeof(buffer), mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

/* Takes the event that a wait has told of, and its completion; none is left then. */
static void take_event(const char *how)
{
	struct ibv_cq *of;
	void *user;
	struct ibv_wc wc;

	CHECK(ibv_get_cq_event(channel, &of, &user) == 0 && of == cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!ibv_req_notify_cq(cq, 0));
	CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	CHECK(ibv_get_cq_event(channel, &of, &user) == -1 && errno == EAGAIN);
	printf("%s: %s\n", how, buffer);
}

static void serve(int fd)
{
	CHECK(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	for (int i = 0; i < 3; i++)
		post_receive();
	CHECK(!ibv_req_notify_cq(cq, 0));
	struct pollfd polled[] = { { channel->fd, POLLIN, 0 }, { fd, POLLIN, 0 },
				   { context->async_fd, POLLIN, 0 } };
	CHECK(poll(polled, 3, 0) == 0);
	CHECK(write(fd, "r", 1) == 1);
	CHECK(poll(polled, 3, -1) == 1 && polled[0].revents == POLLIN);
	take_event("poll");

	int epoll = epoll_create1(0);
	struct epoll_event event = { EPOLLIN, { .u64 = 7 } };
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event) == 0);
	event.data.u64 = 8;
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(epoll_wait(epoll, &event, 1, 1) == 0);
	CHECK(write(fd, "r", 1) == 1);
	/* epoll's own descriptor is ready when a member is. */
	struct pollfd outer = { epoll, POLLIN, 0 };
	CHECK(poll(&outer, 1, -1) == 1 && outer.revents == POLLIN);
	CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u64 == 7);
	take_event("epoll");

	CHECK(write(fd, "r", 1) == 1);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(channel->fd, &set);
	FD_SET(fd, &set);
	CHECK(select(channel->fd + fd, &set, NULL, NULL, NULL) == 1 && FD_ISSET(channel->fd, &set));
	take_event("select");

	CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u64 == 8);
	char byte;
	CHECK(read(fd, &byte, 1) == 0);
	close(epoll);
	puts("end of the peer");
}

static void ask(int fd)
{
	for (int i = 0; i < 3; i++) {
		char byte;
		struct ibv_sge sge = { (uintptr_t)buffer, sizeof(buffer), mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
		struct ibv_cq *of;
		void *user;
		struct ibv_wc wc;
		CHECK(read(fd, &byte, 1) == 1);
		usleep(20);
		snprintf(buffer, sizeof(buffer), "message %d", i);
		CHECK(!ibv_req_notify_cq(cq, 0) && !ibv_post_send(qp, &wr, &bad));
		CHECK(ibv_get_cq_event(channel, &of, &user) == 0);
		ibv_ack_cq_events(of, 1);
		CHECK(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = argc == 2 ? AI_PASSIVE : 0 };
	struct addrinfo *info;
	struct end own = open_end(), peer;

	CHECK(getaddrinfo(argc == 3 ? argv[2] : NULL, "7472", &hints, &info) == 0);
	int fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (argc == 3) {
		CHECK(connect(fd, info->ai_addr, info->ai_addrlen) == 0);
	} else {
		int listener = fd;
		CHECK(bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 1) == 0);
		fd = accept(listener, NULL, NULL);
		CHECK(fd >= 0 && close(listener) == 0);
	}
	freeaddrinfo(info);
	CHECK(write(fd, &own, sizeof(own)) == sizeof(own));
	CHECK(recv(fd, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer));
	connect_end(&peer);
	if (argc == 3)
		ask(fd);
	else
		serve(fd);
	return 0;
}
