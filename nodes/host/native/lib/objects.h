/* Verbs objects of this library: those that programs see, with what verbs.c and post.c keep behind. */
#pragma once
#include "rackmesh.h"

/* A request of words only: ASK(dealloc_pd, [ARG_dealloc_pd_pd] = pd->handle) is 0 or an errno. */
#define ASK(name, ...)                                  \
	ask(REQUEST_##name, ARG_##name##_WORDS,         \
	    (const uint64_t[ARG_##name##_WORDS]){ __VA_ARGS__ })
#define GOT(name, word) (answer()[ANSWER_##name##_##word])

struct context {
	struct verbs_context verbs; /* its end is the ibv_context */
	unsigned device; /* the host's number of this open device */
};

struct cq {
	struct ibv_cq_ex ex; /* begins as ibv_cq does */
	struct cq *next;
	uint64_t bit;        /* in native.ask */
	uint64_t wc[ANSWER_ROW_poll_cq_WORDS]; /* of the extended poll */
};

struct srq {
	struct ibv_srq ibv;
	struct srq *next;
	uint32_t number;
};

struct qp {
	struct ibv_qp_ex ex;
	/* Entries that newer headers have at its end; the first is wr_flush. */
	void *newer[8];
	struct qp *next;
	struct ibv_qp_init_attr init;
	bool extended;
	/* Work requests between wr_start and wr_complete: words of the rows of post_send. */
	uint64_t *words;
	size_t count, room, row;
	struct inlined {
		struct inlined *next;
		char bytes[];
	} *inlined;
	int error;
};

#pragma GCC visibility push(hidden)
int ask(int request, size_t words, const uint64_t *args);
int failed(int error); /* sets errno where there is an error; returns it */
void post_init_context(struct ibv_context_ops *ops);
void post_init_qp(struct qp *qp);
void post_init_cq(struct cq *cq);
void post_free_qp(struct qp *qp);
#pragma GCC visibility pop

static inline unsigned device_of(const struct ibv_context *context)
{
	return ((const struct context *)((const char *)context -
					 offsetof(struct context, verbs.context)))->device;
}
