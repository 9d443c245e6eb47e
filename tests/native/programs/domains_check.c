/* Devices that are open twice, imports, parent domains and thread domains, on one host. */
#include "check.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_device *device;
static char bytes[64];

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = srq ? 0 : 1,
						  .max_send_sge = 1, .max_recv_sge = 1 } };
	return ibv_create_qp(pd, &init);
}

/* Each open device gets the events of its own objects, whatever was opened after it. */
static void events(void)
{
	struct ibv_context *first = ibv_open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(first);
	struct ibv_cq *cq = ibv_create_cq(first, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &shared);
	struct ibv_qp *qp = create_qp(pd, cq, srq);
	struct ibv_context *second = ibv_open_device(device);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CHECK(first && second && first != second && qp);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_ERR;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	struct pollfd polled[] = { { second->async_fd, POLLIN, 0 }, { first->async_fd, POLLIN, 0 } };
	CHECK(poll(polled, 2, 1) == 1 && !polled[0].revents && polled[1].revents == POLLIN);
	struct ibv_async_event event;
	CHECK(ibv_get_async_event(first, &event) == 0);
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp);
	ibv_ack_async_event(&event);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0);
	CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(second) == 0 && ibv_close_device(first) == 0);
	puts("events: done");
}

static void imports(void)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_context *other = ibv_import_device(dup(context->cmd_fd));

	CHECK(other && other->device == device && other->async_fd != context->async_fd);
	struct pollfd polled = { other->cmd_fd, POLLIN, 0 };
	CHECK(poll(&polled, 1, 0) == 1 && polled.revents == POLLIN);
	struct ibv_pd *domain = ibv_import_pd(other, pd->handle);
	CHECK(domain && domain->context == other);
	struct ibv_mr *region = ibv_import_mr(domain, mr->handle);
	CHECK(region && region->lkey == mr->lkey && region->rkey == mr->rkey);
	CHECK(region->length == sizeof(bytes) && !region->addr);
	/* A queue pair of the importer uses the domain's regions; the domain lives as long as one. */
	struct ibv_cq *cq = ibv_create_cq(other, 4, NULL, NULL, 0);
	struct ibv_qp *qp = create_qp(domain, cq, NULL);
	CHECK(qp && ibv_dereg_mr(mr) == 0);
	CHECK(ibv_dealloc_pd(pd) == EBUSY && ibv_destroy_qp(qp) == 0);
	ibv_unimport_mr(region);
	ibv_unimport_pd(domain);
	CHECK(ibv_dealloc_pd(pd) == 0);

	CHECK(!ibv_import_device(context->async_fd) && errno == EINVAL);
	CHECK(!ibv_import_device(1) && errno == EINVAL);
	CHECK(!ibv_import_pd(other, cq->handle) && errno == ENOENT);
	CHECK(!ibv_import_pd(other, 12345) && errno == EINVAL);
	pd = ibv_alloc_pd(context);
	CHECK(!ibv_import_mr(pd, cq->handle) && errno == ENOENT);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_close_device(other) == 0 && ibv_close_device(context) == 0);
	puts("imports: done");
}

static void *no_memory(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)pd, (void)context, (void)size, (void)alignment, (void)type;
	return NULL;
}

static void no_free(struct ibv_pd *pd, void *context, void *memory, uint64_t type)
{
	(void)pd, (void)context, (void)memory, (void)type;
}

static void parents(void)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_td_init_attr nothing = { 0 }, unknown = { 1 };
	struct ibv_td *td = ibv_alloc_td(context, &nothing);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);

	CHECK(td && parent && parent != pd && parent->handle == pd->handle);
	CHECK(!ibv_alloc_td(context, &unknown) && errno == EINVAL);
	CHECK(ibv_dealloc_td(td) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
	struct ibv_mr *mr = ibv_reg_mr(parent, bytes, sizeof(bytes), 0);
	struct ibv_cq_init_attr_ex in = { .cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS,
					  .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					  .parent_domain = parent };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &in);
	CHECK(mr && mr->pd == parent && cq);
	in.parent_domain = pd;
	CHECK(!ibv_create_cq_ex(context, &in) && errno == EINVAL);
	struct ibv_srq_init_attr_ex shared = { .attr = { .max_wr = 4, .max_sge = 1 }, .pd = parent,
					       .comp_mask = IBV_SRQ_INIT_ATTR_PD |
							    IBV_SRQ_INIT_ATTR_TYPE,
					       .srq_type = IBV_SRQT_BASIC };
	struct ibv_srq *srq = ibv_create_srq_ex(context, &shared);
	CHECK(srq && shared.attr.max_wr >= 4);
	shared.srq_type = IBV_SRQT_XRC;
	CHECK(!ibv_create_srq_ex(context, &shared) && errno == EOPNOTSUPP);
	CHECK(ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);

	attr = (struct ibv_parent_domain_init_attr){
		.pd = pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, .alloc = no_memory,
	};
	CHECK(!ibv_alloc_parent_domain(context, &attr) && errno == EINVAL);
	attr.free = no_free;
	/* They are not called: what they would allocate is the host's. */
	CHECK((parent = ibv_alloc_parent_domain(context, &attr)) != NULL);
	struct ibv_cq *plain = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp *qp = create_qp(parent, plain, NULL);
	CHECK(qp && qp->pd == parent && ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(plain) == 0);
	attr.pd = parent;
	CHECK(!ibv_alloc_parent_domain(context, &attr) && errno == EINVAL);
	CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	puts("parents: done");
}

int main(void)
{
	device = ibv_get_device_list(NULL)[0];
	CHECK(ibv_get_device_guid(device) == ibv_get_device_guid(device));
	events();
	imports();
	parents();
	return 0;
}
