/*
 * /dev/infiniband/rdma_cm: the commands that librdmacm writes to it, each a request to the host's
 * connection manager. An answer goes to the address in its command, as the kernel's does
 * (drivers/infiniband/core/ucma.c). Commands for AF_IB answer EINVAL: the library then uses those for
 * IP addresses alone.
 */
#define _GNU_SOURCE
#include "net.h"
#include "objects.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH "/dev/infiniband/rdma_cm"
#define FULL_PKEY 0xffff
/* Of an SA's record: the value is exactly the one that follows. */
#define EXACTLY 2
/* ib_rate: 100 Gb/s. RoCE's path has a rate that nobody reads. */
#define RATE_100_GBPS 16

#define LAYOUT(condition) _Static_assert(condition, "the ABI of rdma_cm, version 4")
LAYOUT(sizeof(struct rdma_ucm_create_id) == 24 && sizeof(struct rdma_ucm_bind_ip) == 40);
LAYOUT(sizeof(struct rdma_ucm_conn_param) == 272 && sizeof(struct rdma_ucm_ud_param) == 304);
LAYOUT(sizeof(struct rdma_ucm_connect) == 288 && sizeof(struct rdma_ucm_accept) == 296);
LAYOUT(sizeof(struct rdma_ucm_event_resp) == 336 && sizeof(struct ib_uverbs_qp_attr) == 144);

bool cm_is_path(const char *path)
{
	return native.active && strcmp(path, PATH) == 0;
}

int cm_open(int flags)
{
	request_begin(REQUEST_cm_create_channel, ARG_cm_create_channel_WORDS);
	int error = request_send();
	if (error)
		return fail(error);
	struct data *data = calloc(1, sizeof(*data));
	int fd = data ? descriptor_open(POLLED_cm, GOT(cm_create_channel, handle)) : -1;
	/* A character device, which the library insists on. */
	int null = fd < 0 ? -1 : syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	if (null < 0) {
		error = errno;
		if (fd >= 0)
			descriptor_close(fd);
		free(data);
		return fail(error);
	}
	syscall(SYS_dup3, null, fd, flags & O_CLOEXEC);
	syscall(SYS_close, null);
	if (flags & O_NONBLOCK)
		syscall(SYS_fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK);
	*data = (struct data){ DATA_CM, 1 };
	descriptor_of(fd)->data = data;
	return fd;
}

void cm_close(uint64_t channel)
{
	ASK(cm_destroy_channel, [ARG_cm_destroy_channel_channel] = channel);
}

static void *response_of(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* AF_INET6's is as long, and is what the structures have room for. */
static bool read_address(const struct sockaddr_in6 *given, uint64_t *family, uint64_t *address,
			 uint64_t *port)
{
	uint32_t host;
	uint16_t number;

	if (!parse_address((const struct sockaddr *)given, sizeof(*given), &host, &number))
		return false;
	*family = given->sin6_family;
	*address = host;
	*port = number;
	return true;
}

static void put_conn(uint64_t *words, const struct rdma_ucm_conn_param *param)
{
	const uint64_t conn[] = { param->qp_num, param->srq, param->responder_resources,
				  param->initiator_depth, param->flow_control, param->retry_count,
				  param->rnr_retry_count };

	_Static_assert(ARG_cm_connect_WORDS - ARG_cm_connect_qp_num == 7, "as CONN of requests.ts");
	_Static_assert(ARG_cm_accept_WORDS - ARG_cm_accept_qp_num == 7, "as CONN of requests.ts");
	memcpy(words, conn, sizeof(conn));
	request_bytes(param->private_data, param->private_data_len);
}

static int create_id(uint64_t channel, const struct rdma_ucm_create_id *cmd)
{
	int error = ASK(cm_create_id, [ARG_cm_create_id_channel] = channel,
			[ARG_cm_create_id_uid] = cmd->uid, [ARG_cm_create_id_ps] = cmd->ps,
			[ARG_cm_create_id_qp_type] = cmd->qp_type);

	if (!error)
		((struct rdma_ucm_create_id_resp *)response_of(cmd->response))->id =
			GOT(cm_create_id, id);
	return error;
}

static int destroy_id(uint64_t channel, const struct rdma_ucm_destroy_id *cmd)
{
	int error = ASK(cm_destroy_id, [ARG_cm_destroy_id_id] = cmd->id);

	(void)channel;
	if (!error)
		((struct rdma_ucm_destroy_id_resp *)response_of(cmd->response))->events_reported =
			GOT(cm_destroy_id, events_reported);
	return error;
}

static int bind_ip(uint64_t channel, const struct rdma_ucm_bind_ip *cmd)
{
	uint64_t family, address, port;

	(void)channel;
	if (!read_address(&cmd->addr, &family, &address, &port))
		return EINVAL;
	return ASK(cm_bind_ip, [ARG_cm_bind_ip_id] = cmd->id, [ARG_cm_bind_ip_family] = family,
		   [ARG_cm_bind_ip_address] = address, [ARG_cm_bind_ip_port] = port);
}

static int resolve_ip(uint64_t channel, const struct rdma_ucm_resolve_ip *cmd)
{
	uint64_t family, address, port, src_family, src_address = 0, src_port = 0;
	bool bound = cmd->src_addr.sin6_family != AF_UNSPEC;

	(void)channel;
	if (!read_address(&cmd->dst_addr, &family, &address, &port))
		return EINVAL;
	if (bound && !read_address(&cmd->src_addr, &src_family, &src_address, &src_port))
		return EINVAL;
	return ASK(cm_resolve_ip, [ARG_cm_resolve_ip_id] = cmd->id,
		   [ARG_cm_resolve_ip_family] = family, [ARG_cm_resolve_ip_bound] = bound,
		   [ARG_cm_resolve_ip_src_address] = src_address,
		   [ARG_cm_resolve_ip_src_port] = src_port,
		   [ARG_cm_resolve_ip_dst_address] = address, [ARG_cm_resolve_ip_dst_port] = port,
		   [ARG_cm_resolve_ip_timeout_ms] = cmd->timeout_ms);
}

static int resolve_route(uint64_t channel, const struct rdma_ucm_resolve_route *cmd)
{
	(void)channel;
	return ASK(cm_resolve_route, [ARG_cm_resolve_route_id] = cmd->id,
		   [ARG_cm_resolve_route_timeout_ms] = cmd->timeout_ms);
}

static void put_gid(uint8_t gid[16], uint32_t address)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	address = htonl(address);
	memcpy(gid + 12, &address, sizeof(address));
}

static int query_route(uint64_t channel, const struct rdma_ucm_query *cmd)
{
	struct rdma_ucm_query_route_resp *resp = response_of(cmd->response);
	int error = ASK(cm_query_route, [ARG_cm_query_route_id] = cmd->id);

	(void)channel;
	if (error)
		return error;
	memset(resp, 0, sizeof(*resp));
	int family = GOT(cm_query_route, family);
	socklen_t length = sizeof(resp->src_addr);
	show_address(family, GOT(cm_query_route, src_address), GOT(cm_query_route, src_port),
		     (struct sockaddr *)&resp->src_addr, &length);
	if (GOT(cm_query_route, dst_address)) {
		length = sizeof(resp->dst_addr);
		show_address(family, GOT(cm_query_route, dst_address), GOT(cm_query_route, dst_port),
			     (struct sockaddr *)&resp->dst_addr, &length);
	}
	if (!GOT(cm_query_route, node_guid))
		return 0;
	resp->node_guid = htobe64(GOT(cm_query_route, node_guid));
	resp->ibdev_index = GOT(cm_query_route, device);
	resp->port_num = GOT(cm_query_route, port_num);
	resp->num_paths = GOT(cm_query_route, num_paths);
	struct ib_user_path_rec *path = &resp->ib_route[0];
	put_gid(path->sgid, GOT(cm_query_route, src_address));
	put_gid(path->dgid, GOT(cm_query_route, dst_address));
	path->pkey = htobe16(FULL_PKEY);
	if (!resp->num_paths)
		return 0;
	path->reversible = 1;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = GOT(cm_query_route, mtu);
	path->rate = RATE_100_GBPS;
	path->packet_life_time = GOT(cm_query_route, packet_life_time);
	path->traffic_class = GOT(cm_query_route, traffic_class);
	path->hop_limit = GOT(cm_query_route, hop_limit);
	return 0;
}

static int connect_id(uint64_t channel, const struct rdma_ucm_connect *cmd)
{
	uint64_t *arg = request_begin(REQUEST_cm_connect, ARG_cm_connect_WORDS);

	(void)channel;
	arg[ARG_cm_connect_id] = cmd->id;
	put_conn(arg + ARG_cm_connect_qp_num, &cmd->conn_param);
	return request_send();
}

static int listen_id(uint64_t channel, const struct rdma_ucm_listen *cmd)
{
	(void)channel;
	return ASK(cm_listen, [ARG_cm_listen_id] = cmd->id, [ARG_cm_listen_backlog] = cmd->backlog);
}

static int accept_id(uint64_t channel, const struct rdma_ucm_accept *cmd)
{
	uint64_t *arg = request_begin(REQUEST_cm_accept, ARG_cm_accept_WORDS);

	(void)channel;
	arg[ARG_cm_accept_id] = cmd->id;
	arg[ARG_cm_accept_uid] = cmd->uid;
	arg[ARG_cm_accept_valid] = cmd->conn_param.valid;
	put_conn(arg + ARG_cm_accept_qp_num, &cmd->conn_param);
	return request_send();
}

static int reject_id(uint64_t channel, const struct rdma_ucm_reject *cmd)
{
	uint64_t *arg = request_begin(REQUEST_cm_reject, ARG_cm_reject_WORDS);

	(void)channel;
	arg[ARG_cm_reject_id] = cmd->id;
	arg[ARG_cm_reject_reason] = cmd->reason;
	request_bytes(cmd->private_data, cmd->private_data_len);
	return request_send();
}

static int disconnect_id(uint64_t channel, const struct rdma_ucm_disconnect *cmd)
{
	(void)channel;
	return ASK(cm_disconnect, [ARG_cm_disconnect_id] = cmd->id);
}

/* The answer's words of an ibv_ah_attr begin at `words`: they are in the order of AH in requests.ts. */
static void take_ah(struct ib_uverbs_ah_attr *ah, const uint64_t *words)
{
#define AH(word) words[ANSWER_cm_get_event_##word - ANSWER_cm_get_event_is_global]
	uint64_t gid[2] = { htobe64(AH(dgid_high)), htobe64(AH(dgid_low)) };

	memset(ah, 0, sizeof(*ah));
	memcpy(ah->grh.dgid, gid, sizeof(gid));
	ah->grh.flow_label = AH(flow_label);
	ah->grh.sgid_index = AH(sgid_index);
	ah->grh.hop_limit = AH(hop_limit);
	ah->grh.traffic_class = AH(traffic_class);
	ah->is_global = AH(is_global);
	ah->sl = AH(sl);
	ah->port_num = AH(port_num);
#undef AH
}

static int init_qp_attr(uint64_t channel, const struct rdma_ucm_init_qp_attr *cmd)
{
	struct ib_uverbs_qp_attr *attr = response_of(cmd->response);
	int error = ASK(cm_init_qp_attr, [ARG_cm_init_qp_attr_id] = cmd->id,
			[ARG_cm_init_qp_attr_qp_state] = cmd->qp_state);

	(void)channel;
	if (error)
		return error;
	memset(attr, 0, sizeof(*attr));
	attr->qp_attr_mask = GOT(cm_init_qp_attr, attr_mask);
#define TAKE(word, field, bit) attr->field = GOT(cm_init_qp_attr, word);
	EACH_QP_FIELD(TAKE)
#undef TAKE
	take_ah(&attr->ah_attr, answer() + ANSWER_cm_init_qp_attr_is_global);
	return 0;
}

static int get_event(int fd, uint64_t channel, const struct rdma_ucm_get_event *cmd, uint16_t room)
{
	bool waits = descriptor_waits(fd);

	if (waits)
		wait_with_alarm(POLLED_cm, channel, POLLIN);
	int error = ASK(cm_get_event, [ARG_cm_get_event_channel] = channel,
			[ARG_cm_get_event_wait] = waits);
	if (error)
		return error;
	size_t words = ANSWER_cm_get_event_WORDS * sizeof(uint64_t);
	size_t length = answer_bytes() - words;
	const void *private_data = (const char *)answer() + words;
	struct rdma_ucm_event_resp resp = {
		.uid = GOT(cm_get_event, uid),
		.id = GOT(cm_get_event, id),
		.event = GOT(cm_get_event, event),
		.status = GOT(cm_get_event, status),
	};
	if (length > RDMA_MAX_PRIVATE_DATA)
		length = RDMA_MAX_PRIVATE_DATA;
	if (GOT(cm_get_event, datagram)) {
		struct rdma_ucm_ud_param *ud = &resp.param.ud;
		ud->qp_num = GOT(cm_get_event, qp_num);
		ud->qkey = GOT(cm_get_event, qkey);
		take_ah(&ud->ah_attr, answer() + ANSWER_cm_get_event_is_global);
		memcpy(ud->private_data, private_data, length);
		ud->private_data_len = length;
	} else {
		struct rdma_ucm_conn_param *conn = &resp.param.conn;
		conn->qp_num = GOT(cm_get_event, qp_num);
		conn->srq = GOT(cm_get_event, srq);
		conn->responder_resources = GOT(cm_get_event, responder_resources);
		conn->initiator_depth = GOT(cm_get_event, initiator_depth);
		conn->flow_control = GOT(cm_get_event, flow_control);
		conn->retry_count = GOT(cm_get_event, retry_count);
		conn->rnr_retry_count = GOT(cm_get_event, rnr_retry_count);
		memcpy(conn->private_data, private_data, length);
		conn->private_data_len = length;
	}
	/* A library older than its last words gets less (ucma_get_event). */
	memcpy(response_of(cmd->response), &resp, room < sizeof(resp) ? room : sizeof(resp));
	return 0;
}

static int set_option(uint64_t channel, const struct rdma_ucm_set_option *cmd)
{
	const void *given = response_of(cmd->optval);
	uint32_t value = 0;

	(void)channel;
	if (cmd->level == RDMA_OPTION_ID) {
		bool is_byte = cmd->optname == RDMA_OPTION_ID_TOS ||
			       cmd->optname == RDMA_OPTION_ID_ACK_TIMEOUT;
		if (cmd->optlen != (is_byte ? sizeof(uint8_t) : sizeof(int)))
			return EINVAL;
		memcpy(&value, given, cmd->optlen);
	}
	return ASK(cm_set_option, [ARG_cm_set_option_id] = cmd->id,
		   [ARG_cm_set_option_level] = cmd->level,
		   [ARG_cm_set_option_optname] = cmd->optname, [ARG_cm_set_option_value] = value);
}

static int notify(uint64_t channel, const struct rdma_ucm_notify *cmd)
{
	(void)channel;
	return ASK(cm_notify, [ARG_cm_notify_id] = cmd->id, [ARG_cm_notify_event] = cmd->event);
}

static int join_ip_mcast(uint64_t channel, const struct rdma_ucm_join_ip_mcast *cmd)
{
	uint64_t family, address, port;

	(void)channel;
	if (!read_address(&cmd->addr, &family, &address, &port))
		return EINVAL;
	int error = ASK(cm_join_mcast, [ARG_cm_join_mcast_id] = cmd->id,
			[ARG_cm_join_mcast_uid] = cmd->uid, [ARG_cm_join_mcast_address] = address);
	if (!error)
		((struct rdma_ucm_create_id_resp *)response_of(cmd->response))->id =
			GOT(cm_join_mcast, id);
	return error;
}

static int join_mcast(uint64_t channel, const struct rdma_ucm_join_mcast *cmd)
{
	struct rdma_ucm_join_ip_mcast ip = { .response = cmd->response, .uid = cmd->uid,
					     .id = cmd->id };

	memcpy(&ip.addr, &cmd->addr, sizeof(ip.addr));
	return join_ip_mcast(channel, &ip);
}

static int leave_mcast(uint64_t channel, const struct rdma_ucm_destroy_id *cmd)
{
	int error = ASK(cm_leave_mcast, [ARG_cm_leave_mcast_id] = cmd->id);

	(void)channel;
	if (!error)
		((struct rdma_ucm_destroy_id_resp *)response_of(cmd->response))->events_reported =
			GOT(cm_leave_mcast, events_reported);
	return error;
}

/* Written to the new channel; the old one's number is in the command. */
static int migrate_id(uint64_t channel, const struct rdma_ucm_migrate_id *cmd)
{
	struct descriptor *from = descriptor_of(cmd->fd);

	if (!from || from->kind != POLLED_cm)
		return EINVAL;
	int error = ASK(cm_migrate_id, [ARG_cm_migrate_id_channel] = channel,
			[ARG_cm_migrate_id_id] = cmd->id);
	if (!error)
		((struct rdma_ucm_migrate_resp *)response_of(cmd->response))->events_reported =
			GOT(cm_migrate_id, events_reported);
	return error;
}

/*
 * The command behind its header: all of it must be there. Libraries before rdma-core 32 write no ECE,
 * which has no meaning here, at the end of CONNECT and ACCEPT.
 */
#define COMMAND(name, type, function) COMMAND_TO(name, type, sizeof(struct type), function)
#define COMMAND_TO(name, type, least, function)                                                \
	case RDMA_USER_CM_CMD_##name: {                                                        \
		struct type command = { 0 };                                                   \
		if (length < (least))                                                          \
			return EINVAL;                                                         \
		memcpy(&command, body, length < sizeof(command) ? length : sizeof(command));   \
		return function(channel, &command);                                            \
	}

static int run_command(int fd, uint64_t channel, const struct rdma_ucm_cmd_hdr *header,
		       const void *body, size_t length)
{
	switch (header->cmd) {
	COMMAND(CREATE_ID, rdma_ucm_create_id, create_id)
	COMMAND(DESTROY_ID, rdma_ucm_destroy_id, destroy_id)
	COMMAND(BIND_IP, rdma_ucm_bind_ip, bind_ip)
	COMMAND(RESOLVE_IP, rdma_ucm_resolve_ip, resolve_ip)
	COMMAND(RESOLVE_ROUTE, rdma_ucm_resolve_route, resolve_route)
	COMMAND(QUERY_ROUTE, rdma_ucm_query, query_route)
	COMMAND_TO(CONNECT, rdma_ucm_connect, offsetof(struct rdma_ucm_connect, ece), connect_id)
	COMMAND(LISTEN, rdma_ucm_listen, listen_id)
	COMMAND_TO(ACCEPT, rdma_ucm_accept, offsetof(struct rdma_ucm_accept, ece), accept_id)
	COMMAND(REJECT, rdma_ucm_reject, reject_id)
	COMMAND(DISCONNECT, rdma_ucm_disconnect, disconnect_id)
	COMMAND(INIT_QP_ATTR, rdma_ucm_init_qp_attr, init_qp_attr)
	COMMAND(SET_OPTION, rdma_ucm_set_option, set_option)
	COMMAND(NOTIFY, rdma_ucm_notify, notify)
	COMMAND(JOIN_IP_MCAST, rdma_ucm_join_ip_mcast, join_ip_mcast)
	COMMAND(JOIN_MCAST, rdma_ucm_join_mcast, join_mcast)
	COMMAND(LEAVE_MCAST, rdma_ucm_destroy_id, leave_mcast)
	COMMAND(MIGRATE_ID, rdma_ucm_migrate_id, migrate_id)
	case RDMA_USER_CM_CMD_GET_EVENT: {
		struct rdma_ucm_get_event command;
		if (length < sizeof(command))
			return EINVAL;
		memcpy(&command, body, sizeof(command));
		return get_event(fd, channel, &command, header->out);
	}
	default:
		return EINVAL;
	}
}

ssize_t cm_write(int fd, uint64_t channel, const void *bytes, size_t length)
{
	struct rdma_ucm_cmd_hdr header;

	if (length < sizeof(header))
		return fail(EINVAL);
	memcpy(&header, bytes, sizeof(header));
	if (header.in + sizeof(header) > length)
		return fail(EINVAL);
	int error = run_command(fd, channel, &header, (const char *)bytes + sizeof(header), header.in);
	return error ? fail(error) : (ssize_t)length;
}
