/*
 * The public functions of libibverbs over requests, and the context's extensions. Those that only
 * compute (names of statuses, rates, copies from the kernel's forms) stay libibverbs' own; all others
 * must be here, since they read what only the real library puts behind a context. What a rack's card
 * does not have answers EOPNOTSUPP, as does libibverbs for an extension that is null.
 */
#define _GNU_SOURCE
#include "net.h"
#include "objects.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The inline forms of the header are for programs. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

/* What programs were compiled with; those that newer headers make longer grow at the far end. */
#define LAYOUT(condition) _Static_assert(condition, "the ABI of libibverbs 44")
LAYOUT(sizeof(struct ibv_context) == 328 && sizeof(struct ibv_device) == 664);
LAYOUT(offsetof(struct ibv_context, ops.poll_cq) == 96);
LAYOUT(offsetof(struct ibv_context, ops.req_notify_cq) == 104);
LAYOUT(offsetof(struct ibv_context, ops.post_srq_recv) == 168);
LAYOUT(offsetof(struct ibv_context, ops.post_send) == 208);
LAYOUT(offsetof(struct ibv_context, ops.post_recv) == 216);
LAYOUT(offsetof(struct ibv_context, async_fd) == 268);
LAYOUT(offsetof(struct ibv_context, abi_compat) == 320);
LAYOUT(sizeof(struct verbs_context) >= 648);
LAYOUT(sizeof(struct verbs_context) - offsetof(struct verbs_context, query_port) == 648);
LAYOUT(sizeof(struct ibv_qp) == 160 && sizeof(struct ibv_cq) == 128);
LAYOUT(sizeof(struct ibv_qp_ex) >= 352 && offsetof(struct ibv_qp_ex, wr_atomic_write) == 344);
LAYOUT(sizeof(struct ibv_cq_ex) == 288 && sizeof(struct ibv_srq) == 128);
LAYOUT(sizeof(struct ibv_mr) == 48 && sizeof(struct ibv_wc) == 48);
LAYOUT(sizeof(struct ibv_send_wr) == 128 && sizeof(struct ibv_recv_wr) == 32);
LAYOUT(sizeof(struct ibv_port_attr) == 52 && sizeof(struct ibv_device_attr_ex) == 400);
LAYOUT(sizeof(struct ibv_qp_init_attr_ex) == 136);

static struct cq *cqs;
static struct qp *qps;
static struct srq *srqs;

int ask(int request, size_t words, const uint64_t *args)
{
	memcpy(request_begin(request, words), args, words * sizeof(*args));
	return request_send();
}

int failed(int error)
{
	if (error)
		errno = error;
	return error;
}

static void *allocate(size_t size)
{
	void *object = calloc(1, size);
	if (!object)
		native_fail("no memory for an object of %zu bytes", size);
	return object;
}

/* Takes an object out of its list. */
#define FORGET(list, object)                              \
	do {                                              \
		typeof(list) *at_ = &(list);              \
		while (*at_ && *at_ != (object))          \
			at_ = &(*at_)->next;              \
		if (*at_)                                 \
			*at_ = (object)->next;            \
	} while (0)
#define FIND(list, field, wanted)                         \
	({                                                \
		typeof(list) at_ = (list);                \
		while (at_ && at_->field != (wanted))     \
			at_ = at_->next;                  \
		at_;                                      \
	})

/* Devices: their pointers never change, as librdmacm expects. */

static struct ibv_device devices[sizeof(native.device) / sizeof(native.device[0])];

static struct ibv_device *device_at(unsigned i)
{
	struct ibv_device *device = &devices[i];

	if (device->node_type == 0) {
		device->node_type = IBV_NODE_CA;
		device->transport_type = IBV_TRANSPORT_IB;
		snprintf(device->name, sizeof(device->name), "%s", native.device[i]);
		snprintf(device->dev_name, sizeof(device->dev_name), "uverbs%u", i);
		snprintf(device->dev_path, sizeof(device->dev_path),
			 "/sys/class/infiniband_verbs/uverbs%u", i);
		snprintf(device->ibdev_path, sizeof(device->ibdev_path), "/sys/class/infiniband/%s",
			 native.device[i]);
	}
	return device;
}

EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	size_t number = native.active ? native.devices : 0;
	struct ibv_device **list = allocate((number + 1) * sizeof(*list));

	for (size_t i = 0; i < number; i++)
		list[i] = device_at(i);
	if (count)
		*count = number;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return device - devices;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	static uint64_t guids[sizeof(devices) / sizeof(devices[0])];
	size_t place = device - devices;

	/* Opened once for it: an open device stays open at the host. */
	if (!guids[place]) {
		if (failed(ASK(open_device, [ARG_open_device_place] = place)))
			return 0;
		guids[place] = GOT(open_device, guid);
	}
	return htobe64(guids[place]);
}

static int query_device(unsigned device, struct ibv_device_attr *attr)
{
	int error = ASK(query_device, [ARG_query_device_device] = device);

	memset(attr, 0, sizeof(*attr));
	if (error)
		return error;
	uint64_t version = GOT(query_device, fw_ver); /* three numbers, 16 bits for each of the last two */
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%lu.%lu.%lu", version >> 32,
		 version >> 16 & 0xffff, version & 0xffff);
	attr->node_guid = htobe64(GOT(query_device, node_guid));
	attr->sys_image_guid = htobe64(GOT(query_device, sys_image_guid));
#define TAKE(name) attr->name = GOT(query_device, name)
	TAKE(max_mr_size);
	TAKE(page_size_cap);
	TAKE(vendor_id);
	TAKE(vendor_part_id);
	TAKE(hw_ver);
	TAKE(max_qp);
	TAKE(max_qp_wr);
	TAKE(device_cap_flags);
	TAKE(max_sge);
	TAKE(max_sge_rd);
	TAKE(max_cq);
	TAKE(max_cqe);
	TAKE(max_mr);
	TAKE(max_pd);
	TAKE(max_qp_rd_atom);
	TAKE(max_res_rd_atom);
	TAKE(max_qp_init_rd_atom);
	TAKE(atomic_cap);
	TAKE(max_mw);
	TAKE(max_mcast_grp);
	TAKE(max_mcast_qp_attach);
	TAKE(max_total_mcast_qp_attach);
	TAKE(max_ah);
	TAKE(max_srq);
	TAKE(max_srq_wr);
	TAKE(max_srq_sge);
	TAKE(max_pkeys);
	TAKE(phys_port_cnt);
#undef TAKE
	return 0;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return failed(query_device(device_of(context), attr));
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *result, size_t size)
{
	struct ibv_device_attr_ex attr = { 0 };
	int error = query_device(device_of(context), &attr.orig_attr);

	(void)input;
	if (error)
		return failed(error);
	attr.odp_caps.general_caps = GOT(query_device, odp_general);
	attr.odp_caps.per_transport_caps.rc_odp_caps = GOT(query_device, odp_rc);
	attr.odp_caps.per_transport_caps.uc_odp_caps = GOT(query_device, odp_uc);
	attr.odp_caps.per_transport_caps.ud_odp_caps = GOT(query_device, odp_ud);
	attr.completion_timestamp_mask = GOT(query_device, timestamp_mask);
	attr.hca_core_clock = GOT(query_device, core_clock_khz);
	attr.device_cap_flags_ex = GOT(query_device, device_cap_flags_ex);
	attr.phys_port_cnt_ex = attr.orig_attr.phys_port_cnt;
	memset(result, 0, size);
	memcpy(result, &attr, size < sizeof(attr) ? size : sizeof(attr));
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *result, size_t size)
{
	struct ibv_port_attr attr = { .max_vl_num = 1 };
	int error = ASK(query_port, [ARG_query_port_device] = device_of(context),
			[ARG_query_port_port] = port);

	if (error)
		return failed(error);
#define TAKE(name) attr.name = GOT(query_port, name)
	TAKE(state);
	TAKE(max_mtu);
	TAKE(active_mtu);
	TAKE(gid_tbl_len);
	TAKE(port_cap_flags);
	TAKE(max_msg_sz);
	TAKE(pkey_tbl_len);
	TAKE(lid);
	TAKE(active_width);
	TAKE(active_speed);
	TAKE(phys_state);
	TAKE(link_layer);
#undef TAKE
	memset(result, 0, size);
	memcpy(result, &attr, size < sizeof(attr) ? size : sizeof(attr));
	return 0;
}

/* Version 1.1 of the structure ends in front of port_cap_flags2. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)attr, 48);
}

static int query_gid(unsigned device, uint32_t port, uint32_t index, struct ibv_gid_entry *entry)
{
	int error = ASK(query_gid, [ARG_query_gid_device] = device, [ARG_query_gid_port] = port,
			[ARG_query_gid_index] = index);

	if (error)
		return error;
	*entry = (struct ibv_gid_entry){
		.gid.global = { htobe64(GOT(query_gid, gid_high)), htobe64(GOT(query_gid, gid_low)) },
		.gid_index = index,
		.port_num = port,
		.gid_type = GOT(query_gid, type),
		.ndev_ifindex = GOT(query_gid, ndev_ifindex),
	};
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	if (failed(query_gid(device_of(context), port, index, &entry)))
		return -1;
	*gid = entry.gid;
	return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *result, uint32_t flags, size_t size)
{
	struct ibv_gid_entry entry;
	int error = flags ? EOPNOTSUPP : query_gid(device_of(context), port, index, &entry);

	if (!error)
		memcpy(result, &entry, size < sizeof(entry) ? size : sizeof(entry));
	return failed(error);
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t most, uint32_t flags, size_t size)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	size_t found = 0;
	int error = flags ? EOPNOTSUPP : query_device(device_of(context), &device);

	for (int p = 1; !error && p <= device.phys_port_cnt; p++) {
		error = query_port(context, p, &port, sizeof(port));
		for (int i = 0; !error && i < port.gid_tbl_len; i++) {
			if (query_gid(device_of(context), p, i, &entry))
				continue; /* an empty place of the table */
			if (found == most)
				return -failed(EINVAL);
			memcpy((char *)entries + found++ * size, &entry,
			       size < sizeof(entry) ? size : sizeof(entry));
		}
	}
	return error ? -failed(error) : (ssize_t)found;
}

/* Of sysfs: 0 is IB or RoCE v1, 1 RoCE v2. Not in a header that is installed. */
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type)
{
	struct ibv_gid_entry entry;

	if (failed(query_gid(device_of(context), port, index, &entry)))
		return -1;
	*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (failed(ASK(query_pkey, [ARG_query_pkey_device] = device_of(context),
		       [ARG_query_pkey_port] = port, [ARG_query_pkey_index] = index)))
		return -1;
	*pkey = htobe16(GOT(query_pkey, pkey));
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	__be16 at;

	for (int i = 0; ibv_query_pkey(context, port, i, &at) == 0; i++)
		if (at == pkey)
			return i;
	return -1;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK)
		return failed(EINVAL);
	int error = ASK(query_rt_values, [ARG_query_rt_values_device] = device_of(context));
	if (!error) /* raw: ticks, where the nanoseconds are said to be */
		values->raw_clock = (struct timespec){ .tv_nsec = GOT(query_rt_values, raw_clock) };
	return failed(error);
}

/* Files of devices below /sys; others do not exist, also where the machine has them. */
EXPORT int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size)
{
	char path[256];
	struct path_room room;
	int fd = -1;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, file) < sizeof(path) &&
	    is_own_file(found_path(path, &room)))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size);
	if (fd >= 0)
		close(fd);
	if (length <= 0 || (size_t)length > size) {
		errno = ENOENT;
		return -1;
	}
	/* As libibverbs does: no end of line, and a NUL where there is room. */
	if (text[length - 1] == '\n')
		text[--length] = 0;
	else if ((size_t)length < size)
		text[length] = 0;
	return length;
}

/* Private to providers in v44; asks the same of a device. */
EXPORT int ibv_read_ibdev_sysfs_file(char *text, size_t size, void *device, const char *format, ...)
{
	(void)text, (void)size, (void)device, (void)format;
	errno = ENOENT;
	return -1;
}

/* Protection domains, regions. */

struct td {
	struct ibv_td ibv;
	unsigned users; /* parent domains */
};

struct pd {
	struct ibv_pd ibv;
	unsigned users; /* parent domains over it */
	/* A parent domain is the domain that it was made of, under its handle, with a thread's. */
	struct pd *of;
	struct td *td;
};

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	if (failed(ASK(alloc_pd, [ARG_alloc_pd_device] = device_of(context))))
		return NULL;
	struct pd *pd = allocate(sizeof(*pd));
	pd->ibv = (struct ibv_pd){ context, GOT(alloc_pd, handle) };
	return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct pd *pd = (struct pd *)ibv;
	int error = 0;

	if (pd->users)
		error = EBUSY;
	else if (!pd->of)
		error = ASK(dealloc_pd, [ARG_dealloc_pd_pd] = ibv->handle);
	if (error)
		return failed(error);
	if (pd->of)
		pd->of->users--;
	if (pd->td)
		pd->td->users--;
	free(pd);
	return 0;
}

/* A promise that one thread uses what is made with it: nothing is locked here anyway. */
static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init)
{
	if (init->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	struct td *td = allocate(sizeof(*td));
	td->ibv.context = context;
	return &td->ibv;
}

static int dealloc_td(struct ibv_td *ibv)
{
	struct td *td = (struct td *)ibv;

	if (td->users)
		return failed(EBUSY);
	free(td);
	return 0;
}

/*
 * Allocators are taken and not called: the queues of a rack's card lie in memory of its host, and
 * there is nothing that they could allocate in the program's.
 */
static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct pd *of = (struct pd *)attr->pd;
	bool half = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
		    (!attr->alloc || !attr->free);

	if (!of || of->of || half || attr->comp_mask & ~known) {
		errno = EINVAL;
		return NULL;
	}
	struct pd *pd = allocate(sizeof(*pd));
	*pd = (struct pd){ { context, of->ibv.handle }, 0, of, (struct td *)attr->td };
	of->users++;
	if (pd->td)
		pd->td->users++;
	return &pd->ibv;
}

/* As the kernel pins pages (ib_umem_get): each must be there, and writable where the card writes. */
static bool can_be_pinned(const void *addr, size_t length, unsigned access)
{
	const unsigned writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	uint64_t from = (uintptr_t)addr;

	return length == 0 || from + length < from ||
	       range_allows(from, from + length, (access & writes) != 0);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned access)
{
	if (!can_be_pinned(addr, length, access)) {
		errno = EFAULT;
		return NULL;
	}
	if (failed(ASK(reg_mr, [ARG_reg_mr_pd] = pd->handle, [ARG_reg_mr_addr] = (uintptr_t)addr,
		       [ARG_reg_mr_length] = length, [ARG_reg_mr_iova] = iova,
		       [ARG_reg_mr_access] = access)))
		return NULL;
	struct ibv_mr *mr = allocate(sizeof(*mr));
	*mr = (struct ibv_mr){ pd->context, pd, addr, length, GOT(reg_mr, handle),
			       GOT(reg_mr, lkey), GOT(reg_mr, rkey) };
	ahead_add_region(mr, (uintptr_t)addr, length);
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION, new_pd = flags & IBV_REREG_MR_CHANGE_PD;
	bool wrong = !flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) || (new_pd && !pd) ||
		     (moves && (!length || !addr));

	/* Of a region whose rights stay as they are, the host alone knows them. */
	if (!wrong && moves &&
	    !can_be_pinned(addr, length, flags & IBV_REREG_MR_CHANGE_ACCESS ? access : 0)) {
		errno = EFAULT;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (failed(wrong ? EINVAL :
			   ASK(rereg_mr, [ARG_rereg_mr_mr] = mr->handle, [ARG_rereg_mr_flags] = flags,
			       [ARG_rereg_mr_pd] = new_pd ? pd->handle : 0,
			       [ARG_rereg_mr_addr] = (uintptr_t)addr, [ARG_rereg_mr_length] = length,
			       [ARG_rereg_mr_access] = access)))
		return IBV_REREG_MR_ERR_INPUT;
	if (new_pd)
		mr->pd = pd;
	if (moves) {
		mr->addr = addr;
		mr->length = length;
		ahead_remove_region(mr);
		ahead_add_region(mr, (uintptr_t)addr, length);
	}
	return 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	int error = ASK(dereg_mr, [ARG_dereg_mr_mr] = mr->handle);
	if (!error) {
		ahead_remove_region(mr);
		free(mr);
	}
	return failed(error);
}

/* Where the region's memory is in the program, its importer has to know, as with libibverbs. */
EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	if (failed(ASK(import_mr, [ARG_import_mr_pd] = pd->handle, [ARG_import_mr_mr] = handle)))
		return NULL;
	struct ibv_mr *mr = allocate(sizeof(*mr));
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .length = GOT(import_mr, length),
			       .handle = GOT(import_mr, handle), .lkey = GOT(import_mr, lkey),
			       .rkey = GOT(import_mr, rkey) };
	return mr;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	ASK(unimport_mr, [ARG_unimport_mr_mr] = mr->handle);
	free(mr);
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	if (failed(ASK(alloc_null_mr, [ARG_alloc_null_mr_pd] = pd->handle)))
		return NULL;
	struct ibv_mr *mr = allocate(sizeof(*mr));
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd,
			       .handle = GOT(alloc_null_mr, handle), .lkey = GOT(alloc_null_mr, lkey) };
	return mr;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sge, uint32_t count)
{
	uint64_t *arg = request_begin(REQUEST_advise_mr, ARG_advise_mr_WORDS);

	arg[ARG_advise_mr_pd] = pd->handle;
	arg[ARG_advise_mr_advice] = advice;
	arg[ARG_advise_mr_flags] = flags;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t *row = request_row(ROW_advise_mr_WORDS);
		row[ROW_advise_mr_addr] = sge[i].addr;
		row[ROW_advise_mr_length] = sge[i].length;
		row[ROW_advise_mr_lkey] = sge[i].lkey;
	}
	return failed(request_send());
}

/* Completion channels and queues. */

struct channel {
	struct ibv_comp_channel ibv;
	uint64_t handle;
};

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	if (failed(ASK(create_comp_channel, [ARG_create_comp_channel_device] = device_of(context))))
		return NULL;
	struct channel *channel = allocate(sizeof(*channel));
	channel->handle = GOT(create_comp_channel, handle);
	channel->ibv.context = context;
	channel->ibv.fd = descriptor_open(POLLED_channel, channel->handle);
	if (channel->ibv.fd >= 0)
		return &channel->ibv;
	int error = errno;
	ASK(destroy_comp_channel, [ARG_destroy_comp_channel_channel] = channel->handle);
	free(channel);
	errno = error;
	return NULL;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct channel *channel = (struct channel *)ibv;
	int error = ibv->refcnt ? EBUSY :
		ASK(destroy_comp_channel, [ARG_destroy_comp_channel_channel] = channel->handle);

	if (!error) {
		descriptor_close(ibv->fd);
		free(channel);
	}
	return failed(error);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **result, void **context)
{
	uint64_t channel = ((struct channel *)ibv)->handle;
	bool waits = descriptor_waits(ibv->fd);

	if (waits)
		wait_with_alarm(POLLED_channel, channel, POLLIN);
	if (failed(ASK(get_cq_event, [ARG_get_cq_event_channel] = channel,
		       [ARG_get_cq_event_wait] = waits)))
		return -1;
	uint32_t handle = GOT(get_cq_event, cq);
	struct cq *cq = FIND(cqs, ex.handle, handle);
	if (!cq)
		native_fail("an event of an unknown completion queue %u", handle);
	*result = (struct ibv_cq *)cq;
	*context = cq->ex.cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	ASK(ack_cq_events, [ARG_ack_cq_events_cq] = cq->handle, [ARG_ack_cq_events_count] = count);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t readable = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	struct channel *channel = (struct channel *)attr->channel;
	bool in_domain = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD;
	/* As with libibverbs, the domain is a parent domain. */
	if (in_domain && !(attr->parent_domain && ((struct pd *)attr->parent_domain)->of)) {
		errno = EINVAL;
		return NULL;
	}
	int error = attr->comp_mask & ~known || attr->wc_flags & ~readable ?
			    EOPNOTSUPP :
			    ASK(create_cq, [ARG_create_cq_device] = device_of(context),
				[ARG_create_cq_cqe] = attr->cqe,
				[ARG_create_cq_channel] = channel ? channel->handle : 0,
				[ARG_create_cq_vector] = attr->comp_vector,
				[ARG_create_cq_wc_flags] = attr->wc_flags,
				[ARG_create_cq_flags] =
					attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0);

	if (failed(error))
		return NULL;
	struct cq *cq = allocate(sizeof(*cq));
	cq->ex.context = context;
	cq->ex.channel = attr->channel;
	cq->ex.cq_context = attr->cq_context;
	cq->ex.handle = GOT(create_cq, handle);
	cq->ex.cqe = GOT(create_cq, cqe);
	cq->bit = GOT(create_cq, bit);
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	post_init_cq(cq);
	if (channel)
		channel->ibv.refcnt++;
	cq->next = cqs;
	cqs = cq;
	return &cq->ex;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	/* A number below 0 is one that no card has, also after the widening. */
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe, .cq_context = cq_context,
					    .channel = channel, .comp_vector = vector };
	return (struct ibv_cq *)create_cq_ex(context, &attr);
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	int error = ASK(resize_cq, [ARG_resize_cq_cq] = cq->handle, [ARG_resize_cq_cqe] = cqe);
	if (!error)
		cq->cqe = GOT(resize_cq, cqe);
	return failed(error);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *cq = (struct cq *)ibv;
	int error = ASK(destroy_cq, [ARG_destroy_cq_cq] = ibv->handle);

	if (!error) {
		if (ibv->channel)
			ibv->channel->refcnt--;
		FORGET(cqs, cq);
		free(cq);
	}
	return failed(error);
}

/* Address handles. */

#define AH(word) ah[ARG_create_ah_##word - ARG_create_ah_is_global]

static void put_ah(uint64_t *ah, const struct ibv_ah_attr *attr)
{
	AH(is_global) = attr->is_global;
	AH(dgid_high) = be64toh(attr->grh.dgid.global.subnet_prefix);
	AH(dgid_low) = be64toh(attr->grh.dgid.global.interface_id);
	AH(flow_label) = attr->grh.flow_label;
	AH(sgid_index) = attr->grh.sgid_index;
	AH(hop_limit) = attr->grh.hop_limit;
	AH(traffic_class) = attr->grh.traffic_class;
	AH(sl) = attr->sl;
	AH(port_num) = attr->port_num;
}

static struct ibv_ah_attr take_ah(const uint64_t *ah)
{
	return (struct ibv_ah_attr){
		.grh = { .dgid.global = { htobe64(AH(dgid_high)), htobe64(AH(dgid_low)) },
			 .flow_label = AH(flow_label), .sgid_index = AH(sgid_index),
			 .hop_limit = AH(hop_limit), .traffic_class = AH(traffic_class) },
		.is_global = AH(is_global), .sl = AH(sl), .port_num = AH(port_num),
	};
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	uint64_t *arg = request_begin(REQUEST_create_ah, ARG_create_ah_WORDS);

	arg[ARG_create_ah_pd] = pd->handle;
	put_ah(arg + ARG_create_ah_is_global, attr);
	if (failed(request_send()))
		return NULL;
	struct ibv_ah *ah = allocate(sizeof(*ah));
	*ah = (struct ibv_ah){ pd->context, pd, GOT(create_ah, handle) };
	return ah;
}

/*
 * The way back to where a datagram came from. RoCE's datagrams always have the header of 40 bytes;
 * with RoCE v2 over IPv4 its last 20 are the IPv4 header (annex A17, 4.5.1).
 */
EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			       struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct ibv_port_attr port_attr;
	struct ibv_gid_entry entry;
	union ibv_gid from = grh->sgid, to = grh->dgid;
	const uint8_t *ipv4 = (const uint8_t *)grh + 20;
	bool is_ipv4 = ipv4[0] == 0x45 && be32toh(grh->version_tclass_flow) >> 28 != 6;

	if (!(wc->wc_flags & IBV_WC_GRH) || query_port(context, port, &port_attr, sizeof(port_attr))) {
		errno = EINVAL;
		return -1;
	}
	if (is_ipv4) {
		static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
		memcpy(from.raw, mapped, 12);
		memcpy(from.raw + 12, ipv4 + 12, 4);
		memcpy(to.raw, mapped, 12);
		memcpy(to.raw + 12, ipv4 + 16, 4);
	}
	uint32_t word = be32toh(grh->version_tclass_flow);
	*attr = (struct ibv_ah_attr){ .is_global = 1, .sl = wc->sl, .port_num = port,
				      .grh = { .dgid = from, .hop_limit = 0xff,
					       .flow_label = is_ipv4 ? 0 : word & 0xfffff,
					       .traffic_class = is_ipv4 ? ipv4[1] : word >> 20 } };
	for (int i = 0; i < port_attr.gid_tbl_len; i++)
		if (!query_gid(device_of(context), port, i, &entry) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&entry.gid, &to, sizeof(to))) {
			attr->grh.sgid_index = i;
			return 0;
		}
	errno = ENOENT;
	return -1;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
					    uint8_t port)
{
	struct ibv_ah_attr attr;
	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	int error = ASK(destroy_ah, [ARG_destroy_ah_ah] = ah->handle);
	if (!error)
		free(ah);
	return failed(error);
}

/* Shared receive queues. */

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	if (failed(ASK(create_srq, [ARG_create_srq_pd] = pd->handle,
		       [ARG_create_srq_max_wr] = init->attr.max_wr,
		       [ARG_create_srq_max_sge] = init->attr.max_sge)))
		return NULL;
	struct srq *srq = allocate(sizeof(*srq));
	srq->ibv = (struct ibv_srq){ .context = pd->context, .srq_context = init->srq_context,
				     .pd = pd, .handle = GOT(create_srq, handle) };
	srq->number = GOT(create_srq, srqn);
	init->attr.max_wr = GOT(create_srq, max_wr);
	init->attr.max_sge = GOT(create_srq, max_sge);
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	srq->next = srqs;
	srqs = srq;
	return &srq->ibv;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	bool is_basic = !(init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || init->srq_type == IBV_SRQT_BASIC;

	(void)context;
	if (init->comp_mask & ~known || !(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !is_basic) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/* It begins as the plain one does, by its definition. */
	return ibv_create_srq(init->pd, (struct ibv_srq_init_attr *)init);
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = ((struct srq *)srq)->number;
	return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return failed(ASK(modify_srq, [ARG_modify_srq_srq] = srq->handle,
			  [ARG_modify_srq_attr_mask] = mask, [ARG_modify_srq_max_wr] = attr->max_wr,
			  [ARG_modify_srq_srq_limit] = attr->srq_limit));
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	int error = ASK(query_srq, [ARG_query_srq_srq] = srq->handle);
	if (!error)
		*attr = (struct ibv_srq_attr){ GOT(query_srq, max_wr), GOT(query_srq, max_sge),
					       GOT(query_srq, srq_limit) };
	return failed(error);
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct srq *srq = (struct srq *)ibv;
	int error = ASK(destroy_srq, [ARG_destroy_srq_srq] = ibv->handle);

	if (!error) {
		FORGET(srqs, srq);
		free(srq);
	}
	return failed(error);
}

/* Queue pairs. */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init, bool extended)
{
	struct ibv_qp_cap *cap = &init->cap;

#define PUT(name) [ARG_create_qp_##name] = cap->name,
	if (failed(ASK(create_qp, [ARG_create_qp_pd] = pd->handle,
		       [ARG_create_qp_send_cq] = init->send_cq ? init->send_cq->handle : 0,
		       [ARG_create_qp_recv_cq] = init->recv_cq ? init->recv_cq->handle : 0,
		       [ARG_create_qp_srq] = init->srq ? init->srq->handle : 0,
		       [ARG_create_qp_qp_type] = init->qp_type,
		       [ARG_create_qp_sq_sig_all] = init->sq_sig_all,
		       EACH_QP_CAP(PUT))))
		return NULL;
#undef PUT
	struct qp *qp = allocate(sizeof(*qp));
	qp->ex.qp_base = (struct ibv_qp){
		.context = pd->context, .qp_context = init->qp_context, .pd = pd,
		.send_cq = init->send_cq, .recv_cq = init->recv_cq, .srq = init->srq,
		.handle = GOT(create_qp, handle), .qp_num = GOT(create_qp, qp_num),
		.state = IBV_QPS_RESET, .qp_type = init->qp_type,
	};
#define TAKE(name) .name = GOT(create_qp, name),
	*cap = (struct ibv_qp_cap){ EACH_QP_CAP(TAKE) };
#undef TAKE
	pthread_mutex_init(&qp->ex.qp_base.mutex, NULL);
	pthread_cond_init(&qp->ex.qp_base.cond, NULL);
	qp->init = *init;
	qp->extended = extended;
	post_init_qp(qp);
	qp->next = qps;
	qps = qp;
	return &qp->ex.qp_base;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	return create_qp(pd, init, false);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool extended = init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	(void)context;
	if ((init->comp_mask & ~known) || !(init->comp_mask & IBV_QP_INIT_ATTR_PD) ||
	    (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags) ||
	    (extended && init->send_ops_flags & IBV_QP_EX_WITH_TSO)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/* It begins as the plain one does, by its definition. */
	return create_qp(init->pd, (struct ibv_qp_init_attr *)init, extended);
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return ((struct qp *)qp)->extended ? &((struct qp *)qp)->ex : NULL;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	uint64_t *arg = request_begin(REQUEST_modify_qp, ARG_modify_qp_WORDS);

	arg[ARG_modify_qp_qp] = qp->handle;
	arg[ARG_modify_qp_attr_mask] = mask;
	/* What the mask leaves out the program has not set. */
#define PUT(word, field, bit) arg[ARG_modify_qp_##word] = mask & (bit) ? attr->field : 0;
	EACH_QP_FIELD(PUT)
#undef PUT
#define PUT(name) arg[ARG_modify_qp_##name] = mask & IBV_QP_CAP ? attr->cap.name : 0;
	EACH_QP_CAP(PUT)
#undef PUT
	if (mask & IBV_QP_AV)
		put_ah(arg + ARG_modify_qp_is_global, &attr->ah_attr);
	int error = request_send();
	if (error)
		return failed(error);
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	if (mask & IBV_QP_CAP) {
#define TAKE(name) attr->cap.name = GOT(modify_qp, name);
		EACH_QP_CAP(TAKE)
#undef TAKE
		((struct qp *)qp)->init.cap = attr->cap;
	}
	return 0;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init)
{
	int error = ASK(query_qp, [ARG_query_qp_qp] = qp->handle);

	(void)mask; /* the least that is wanted */
	if (error)
		return failed(error);
	memset(attr, 0, sizeof(*attr));
#define TAKE(word, field, bit) attr->field = GOT(query_qp, word);
	EACH_QP_FIELD(TAKE)
#undef TAKE
#define TAKE(name) attr->cap.name = GOT(query_qp, name);
	EACH_QP_CAP(TAKE)
#undef TAKE
	attr->ah_attr = take_ah(answer() + ANSWER_query_qp_is_global);
	qp->state = attr->qp_state;
	*init = ((struct qp *)qp)->init;
	init->cap = attr->cap;
	return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct qp *qp = (struct qp *)ibv;
	int error = ASK(destroy_qp, [ARG_destroy_qp_qp] = ibv->handle);

	if (!error) {
		FORGET(qps, qp);
		post_free_qp(qp);
		free(qp);
	}
	return failed(error);
}

static int multicast(int request, struct ibv_qp *qp, const union ibv_gid *gid)
{
	_Static_assert(ARG_attach_mcast_WORDS == 3 && ARG_detach_mcast_WORDS == 3, "one form");
	return failed(ask(request, ARG_attach_mcast_WORDS,
			  (const uint64_t[]){ [ARG_attach_mcast_qp] = qp->handle,
					      [ARG_attach_mcast_gid_high] =
						      be64toh(gid->global.subnet_prefix),
					      [ARG_attach_mcast_gid_low] =
						      be64toh(gid->global.interface_id) }));
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return multicast(REQUEST_attach_mcast, qp, gid);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return multicast(REQUEST_detach_mcast, qp, gid);
}

/* Asynchronous events. An event's number at the host does not fit into what programs get. */

static struct unacknowledged {
	struct unacknowledged *next;
	struct ibv_async_event event;
	uint64_t number;
	unsigned device;
} *unacknowledged;

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	unsigned device = device_of(context);
	bool waits = descriptor_waits(context->async_fd);

	if (waits)
		wait_with_alarm(POLLED_async, device, POLLIN);
	if (failed(ASK(get_async_event, [ARG_get_async_event_device] = device,
		       [ARG_get_async_event_wait] = waits)))
		return -1;
	struct unacknowledged *got = allocate(sizeof(*got));
	uint32_t object = GOT(get_async_event, object);
	got->number = GOT(get_async_event, event);
	got->device = device;
	got->event.event_type = GOT(get_async_event, type);
	switch (got->event.event_type) {
	case IBV_EVENT_CQ_ERR:
		got->event.element.cq = (struct ibv_cq *)FIND(cqs, ex.handle, object);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		got->event.element.qp = (struct ibv_qp *)FIND(qps, ex.qp_base.handle, object);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		got->event.element.srq = (struct ibv_srq *)FIND(srqs, ibv.handle, object);
		break;
	default:
		got->event.element.port_num = 1; /* a card of the rack has one */
	}
	got->next = unacknowledged;
	unacknowledged = got;
	*event = got->event;
	return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct unacknowledged *at = unacknowledged;

	while (at && (at->event.event_type != event->event_type ||
		      at->event.element.cq != event->element.cq))
		at = at->next;
	if (!at)
		return;
	ASK(ack_async_event, [ARG_ack_async_event_device] = at->device,
	    [ARG_ack_async_event_event] = at->number);
	FORGET(unacknowledged, at);
	free(at);
}

/* Devices are opened last: their extensions are the functions above. */

static struct ibv_context *open_device(struct ibv_device *device, int command)
{
	if (failed(ASK(open_device, [ARG_open_device_place] = device - devices)))
		return NULL;
	struct context *opened = allocate(sizeof(*opened));
	struct ibv_context *context = &opened->verbs.context;
	opened->device = GOT(open_device, handle);
	opened->verbs.sz = sizeof(opened->verbs);
	opened->verbs.query_port = query_port;
	opened->verbs.query_device_ex = query_device_ex;
	opened->verbs.query_rt_values = query_rt_values;
	opened->verbs.advise_mr = advise_mr;
	opened->verbs.alloc_null_mr = alloc_null_mr;
	opened->verbs.create_cq_ex = create_cq_ex;
	opened->verbs.create_qp_ex = create_qp_ex;
	opened->verbs.create_srq_ex = create_srq_ex;
	opened->verbs.get_srq_num = get_srq_num;
	opened->verbs.alloc_td = alloc_td;
	opened->verbs.dealloc_td = dealloc_td;
	opened->verbs.alloc_parent_domain = alloc_parent_domain;
	context->device = device;
	context->cmd_fd = command;
	context->num_comp_vectors = GOT(open_device, vectors);
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&context->mutex, NULL);
	post_init_context(&context->ops);
	context->async_fd = descriptor_open(POLLED_async, opened->device);
	if (context->async_fd >= 0)
		return context;
	free(opened);
	return NULL;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	int command = descriptor_open(KIND_COMMAND, device - devices);

	if (command < 0)
		return NULL;
	struct ibv_context *context = open_device(device, command);
	if (!context)
		descriptor_close(command);
	return context;
}

/* A copy of `cmd_fd` opens its device once more, and is the new context's from now on. */
EXPORT struct ibv_context *ibv_import_device(int fd)
{
	struct descriptor *descriptor = native.active ? descriptor_of(fd) : NULL;

	if (!descriptor || descriptor->kind != KIND_COMMAND) {
		errno = EINVAL;
		return NULL;
	}
	return open_device(device_at(descriptor->handle), fd);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	if (failed(ASK(import_pd, [ARG_import_pd_device] = device_of(context),
		       [ARG_import_pd_pd] = handle)))
		return NULL;
	struct pd *pd = allocate(sizeof(*pd));
	pd->ibv = (struct ibv_pd){ context, GOT(import_pd, handle) };
	return &pd->ibv;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	ASK(unimport_pd, [ARG_unimport_pd_pd] = pd->handle);
	free(pd);
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	descriptor_close(context->async_fd);
	descriptor_close(context->cmd_fd);
	free((char *)context - offsetof(struct context, verbs.context));
	return 0;
}

/* What there is nothing of on a rack. */

EXPORT int ibv_fork_init(void)
{
	return 0; /* a child has no memory that a card could write */
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

EXPORT int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
	(void)qp, (void)opcode, (void)flags;
	return 0; /* not promised */
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return failed(EOPNOTSUPP);
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	if (ece->vendor_id == 0)
		return 0;
	return failed(EOPNOTSUPP);
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				       uint8_t mac[6], uint16_t *vlan)
{
	(void)context, (void)attr, (void)mac, (void)vlan;
	return failed(EOPNOTSUPP);
}

#define REFUSED(type, name, ...)               \
	EXPORT type name(__VA_ARGS__)          \
	{                                      \
		errno = EOPNOTSUPP;            \
		return NULL;                   \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSED(struct ibv_mr *, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length,
	uint64_t iova, int fd, int access)
REFUSED(struct ibv_dm *, ibv_import_dm, struct ibv_context *context, uint32_t handle)

EXPORT void ibv_unimport_dm(struct ibv_dm *dm) {}
