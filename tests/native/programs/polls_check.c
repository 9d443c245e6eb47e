/*
 * Polls of an empty completion queue beside receives whose entries go through the caches: how long both
 * take depends on what the caches hold.
 */
#include "check.h"

#include <infiniband/verbs.h>
#include <time.h>

#define RECEIVES 500
#define POLLS 8

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(devices[0]);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct timespec now;

	CHECK(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK(cq && pd);
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	CHECK(srq);
	for (int i = 0; i < RECEIVES; i++) {
		struct ibv_wc wc;
		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
		for (int j = 0; j < POLLS; j++)
			CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%ld ns\n", now.tv_nsec);
	return 0;
}
