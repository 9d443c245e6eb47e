/*
 * A log that a client keeps on several servers. It writes each record into the persistent memory of all of them by
 * RDMA WRITE, and promises it when all have it. How it knows that they have it is its first argument:
 *
 *   read   a READ behind the WRITE: what the card wrote is in the memory controller when it answers (with DDIO off)
 *   ask    a message to the server, which flushes the record by pmem_persist and answers
 *   write  the WRITE's completion. It says that the record is at the other end, not that it is persistent: wrong
 *
 * A server is this program without arguments. Nothing in it knows of rackmesh, except that a line "promised WHAT" is
 * taken at its word when rack explore cuts the power: see recover_log.c.
 */
#include <infiniband/verbs.h>
#include <libpmem.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "record.h"

#define PORT "18700"
#define SERVERS 8

/* Where a server's log is: its private data as it accepts. */
struct place {
	uint64_t address;
	uint32_t rkey;
};

/* A client's word to a server, and back: flush record `number`; 0: it was the last. */
struct message {
	uint64_t number;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void await(int done, struct ibv_wc *wc, const char *what)
{
	if (done != 1)
		fail(what);
	if (wc->status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
	exit(1);
}

/* An endpoint of one queue pair: listening without a host. */
static struct rdma_cm_id *endpoint(const char *host)
{
	struct rdma_addrinfo hints = { .ai_flags = host ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr made = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *found;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(host, PORT, &hints, &found))
		fail("rdma_getaddrinfo");
	if (rdma_create_ep(&id, found, NULL, &made))
		fail("rdma_create_ep");
	rdma_freeaddrinfo(found);
	return id;
}

static void serve(void)
{
	struct rdma_cm_id *listener = endpoint(NULL), *id;
	struct message message;
	struct ibv_wc wc;
	size_t bytes;
	struct record *log = pmem_map_file(LOG_PATH, 0, 0, 0, &bytes, NULL);

	if (!log)
		fail(LOG_PATH);
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		fail("rdma_get_request");
	struct ibv_mr *region = ibv_reg_mr(id->pd, log, bytes,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						   IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *words = rdma_reg_msgs(id, &message, sizeof message);
	if (!region || !words || rdma_post_recv(id, NULL, &message, sizeof message, words))
		fail("ibv_reg_mr");
	struct place place = { (uintptr_t)log, region->rkey };
	struct rdma_conn_param accepted = {
		.private_data = &place,
		.private_data_len = sizeof place,
		.responder_resources = 1,
	};
	if (rdma_accept(id, &accepted))
		fail("rdma_accept");
	for (;;) {
		await(rdma_get_recv_comp(id, &wc), &wc, "a message of the client");
		uint64_t number = message.number;
		if (number == 0)
			break;
		pmem_persist(&log[number - 1], sizeof *log);
		if (rdma_post_recv(id, NULL, &message, sizeof message, words) ||
		    rdma_post_send(id, NULL, &message, sizeof message, words, 0))
			fail("rdma_post_send");
		await(rdma_get_send_comp(id, &wc), &wc, "an answer to the client");
	}
}

struct server {
	struct rdma_cm_id *id;
	struct place log;
	struct record record;
	struct message message;
	struct ibv_mr *record_region, *message_region;
};

static void connect_to(struct server *server, const char *host)
{
	struct rdma_conn_param asked = { .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };

	server->id = endpoint(host);
	server->record_region = rdma_reg_msgs(server->id, &server->record, sizeof server->record);
	server->message_region = rdma_reg_msgs(server->id, &server->message, sizeof server->message);
	if (!server->record_region || !server->message_region)
		fail("rdma_reg_msgs");
	if (rdma_connect(server->id, &asked))
		fail(host);
	memcpy(&server->log, server->id->event->param.conn.private_data, sizeof server->log);
}

static void send_to(struct server *server, uint64_t number)
{
	server->message.number = number;
	if (rdma_post_send(server->id, NULL, &server->message, sizeof server->message,
			   server->message_region, 0))
		fail("rdma_post_send");
}

/* Begins to make a record persistent: the completion of the last request says that it is. */
static void append(struct server *server, const struct record *record, const char *how)
{
	uint64_t at = server->log.address + (record->number - 1) * sizeof *record;
	struct ibv_wc wc;

	server->record = *record;
	if (rdma_post_write(server->id, NULL, &server->record, sizeof *record, server->record_region, 0,
			    at, server->log.rkey))
		fail("rdma_post_write");
	if (!strcmp(how, "read") &&
	    rdma_post_read(server->id, NULL, &server->message, sizeof server->message,
			   server->message_region, 0, at, server->log.rkey))
		fail("rdma_post_read");
	if (!strcmp(how, "ask")) {
		if (rdma_post_recv(server->id, NULL, &server->message, sizeof server->message,
				   server->message_region))
			fail("rdma_post_recv");
		send_to(server, record->number);
	}
	await(rdma_get_send_comp(server->id, &wc), &wc, "the write of a record");
}

static void await_durable(struct server *server, const char *how)
{
	struct ibv_wc wc;

	if (!strcmp(how, "write"))
		return;
	await(rdma_get_send_comp(server->id, &wc), &wc, "the second request");
	if (!strcmp(how, "ask"))
		await(rdma_get_recv_comp(server->id, &wc), &wc, "the server's answer");
}

int main(int argc, char **argv)
{
	static struct server servers[SERVERS];
	int count = argc - 3;

	if (argc == 1) {
		serve();
		return 0;
	}
	if (count < 1 || count > SERVERS) {
		fprintf(stderr, "native_log, or native_log read|ask|write RECORDS SERVER...\n");
		return 2;
	}
	const char *how = argv[1];
	uint64_t records = strtoull(argv[2], NULL, 10);

	for (int i = 0; i < count; i++)
		connect_to(&servers[i], argv[3 + i]);
	for (uint64_t number = 1; number <= records; number++) {
		struct record record = { .number = number };
		snprintf(record.text, sizeof record.text, "line %lu", number);
		record.sum = sum_of(&record);
		for (int i = 0; i < count; i++)
			append(&servers[i], &record, how);
		for (int i = 0; i < count; i++)
			await_durable(&servers[i], how);
		printf("promised %lu %s\n", number, record.text);
	}
	for (int i = 0; i < count; i++) {
		struct ibv_wc wc;
		send_to(&servers[i], 0);
		await(rdma_get_send_comp(servers[i].id, &wc), &wc, "the last message");
	}
	return 0;
}
