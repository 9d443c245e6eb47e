/*
 * A client writes a line of text into a server's memory by RDMA WRITE. Each end is this program: the server
 * without an argument, the client with the server's name. Nothing in it knows of rackmesh: it runs on any
 * machine with a card.
 */
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT "18600"
#define BYTES 4096

/* What one end tells the other over TCP. */
struct end {
	uint32_t qpn;
	uint32_t psn;
	uint32_t rkey;
	uint64_t address;
	union ibv_gid gid;
};

struct card {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct card open_card(struct end *own)
{
	struct card card = { 0 };
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (!devices || !devices[0])
		fail("ibv_get_device_list");
	card.context = ibv_open_device(devices[0]);
	if (!card.context)
		fail("ibv_open_device");
	ibv_free_device_list(devices);
	card.pd = ibv_alloc_pd(card.context);
	card.cq = ibv_create_cq(card.context, 16, NULL, NULL, 0);
	if (!card.pd || !card.cq)
		fail("ibv_create_cq");
	struct ibv_qp_init_attr made = {
		.send_cq = card.cq,
		.recv_cq = card.cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	card.qp = ibv_create_qp(card.pd, &made);
	if (!card.qp)
		fail("ibv_create_qp");
	card.memory = calloc(1, BYTES);
	card.mr = ibv_reg_mr(card.pd, card.memory, BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!card.mr)
		fail("ibv_reg_mr");
	if (ibv_query_gid(card.context, 1, 0, &own->gid))
		fail("ibv_query_gid");
	own->qpn = card.qp->qp_num;
	own->psn = 100;
	own->rkey = card.mr->rkey;
	own->address = (uintptr_t)card.memory;
	return card;
}

static void connect_to(struct card *card, const struct end *own, const struct end *peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr ready = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = peer->gid, .hop_limit = 64 },
			.port_num = 1,
		},
	};
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = own->psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	if (ibv_modify_qp(card->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_modify_qp(card->qp, &ready,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(card->qp, &send,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("ibv_modify_qp");
}

/* The TCP connection by which the ends tell each other where they are. */
static int connect_tcp(const char *server)
{
	struct addrinfo hints = {
		.ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = server ? 0 : AI_PASSIVE,
	};
	struct addrinfo *found;

	if (getaddrinfo(server, PORT, &hints, &found))
		fail("getaddrinfo");
	int made = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
	if (made < 0)
		fail("socket");
	if (server) {
		if (connect(made, found->ai_addr, found->ai_addrlen))
			fail("connect");
		return made;
	}
	if (bind(made, found->ai_addr, found->ai_addrlen) || listen(made, 1))
		fail("listen");
	int client = accept(made, NULL, NULL);
	if (client < 0)
		fail("accept");
	close(made);
	return client;
}

static void send_all(int peer, const void *bytes, size_t length)
{
	if (write(peer, bytes, length) != (ssize_t)length)
		fail("write");
}

static void receive_all(int peer, void *bytes, size_t length)
{
	for (size_t have = 0; have < length;) {
		ssize_t count = read(peer, (char *)bytes + have, length - have);
		if (count <= 0)
			fail("read");
		have += count;
	}
}

static void write_line(struct card *card, const struct end *peer)
{
	int length = snprintf(card->memory, BYTES, "written by RDMA WRITE");
	struct ibv_sge part = { (uintptr_t)card->memory, length + 1, card->mr->lkey };
	struct ibv_send_wr request = {
		.wr_id = 1,
		.sg_list = &part,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = peer->address, .rkey = peer->rkey },
	};
	struct ibv_send_wr *bad;
	struct ibv_wc done;
	int count;

	if (ibv_post_send(card->qp, &request, &bad))
		fail("ibv_post_send");
	while ((count = ibv_poll_cq(card->cq, 1, &done)) == 0)
		;
	if (count < 0 || done.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "the write failed: %s\n", ibv_wc_status_str(done.status));
		exit(1);
	}
	printf("client: %d bytes are written\n", length + 1);
}

int main(int argc, char **argv)
{
	const char *server = argc > 1 ? argv[1] : NULL;
	struct end own = { 0 }, peer;
	struct card card = open_card(&own);
	int tcp = connect_tcp(server);
	char word = 0;

	send_all(tcp, &own, sizeof own);
	receive_all(tcp, &peer, sizeof peer);
	connect_to(&card, &own, &peer);
	/* Both ends are ready when each has a word of the other. */
	send_all(tcp, &word, 1);
	receive_all(tcp, &word, 1);
	if (server) {
		write_line(&card, &peer);
		send_all(tcp, &word, 1);
	} else {
		receive_all(tcp, &word, 1);
		printf("server: %s\n", card.memory);
	}
	close(tcp);
	ibv_destroy_qp(card.qp);
	ibv_dereg_mr(card.mr);
	ibv_destroy_cq(card.cq);
	ibv_dealloc_pd(card.pd);
	ibv_close_device(card.context);
	free(card.memory);
	return 0;
}
