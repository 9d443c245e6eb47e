/* The data path of verbs: posts, polls, `ibv_qp_ex`, `ibv_cq_ex`, and the entries of `ibv_context.ops`. */
#define _GNU_SOURCE
#include "objects.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* Of newer headers than the oldest that this compiles with. */
#define WR_FLUSH 14
#define WR_ATOMIC_WRITE 15

static void put_sges(const struct ibv_sge *sge, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t *word = request_row(SGE_WORDS);
		word[SGE_addr] = sge[i].addr;
		word[SGE_length] = sge[i].length;
		word[SGE_lkey] = sge[i].lkey;
	}
}

static void put_bind(uint64_t *row, const struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info)
{
	row[ROW_post_send_mw] = mw->handle;
	row[ROW_post_send_mw_rkey] = rkey;
	row[ROW_post_send_mw_mr] = info->mr ? info->mr->handle : 0;
	row[ROW_post_send_mw_addr] = info->addr;
	row[ROW_post_send_mw_length] = info->length;
	row[ROW_post_send_mw_access] = info->mw_access_flags;
}

/* Immediate data are a number in the request: what the bytes on the wire say, first byte highest. */
static void put_send(uint64_t *row, const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	row[ROW_post_send_wr_id] = wr->wr_id;
	row[ROW_post_send_opcode] = wr->opcode;
	row[ROW_post_send_send_flags] = wr->send_flags;
	row[ROW_post_send_sges] = wr->num_sge;
	switch ((int)wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		row[ROW_post_send_imm] = ntohl(wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		row[ROW_post_send_imm] = wr->invalidate_rkey;
		break;
	case IBV_WR_BIND_MW:
		put_bind(row, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	}
	if (qp->qp_type == IBV_QPT_UD) {
		row[ROW_post_send_ah] = wr->wr.ud.ah ? wr->wr.ud.ah->handle : 0;
		row[ROW_post_send_remote_qpn] = wr->wr.ud.remote_qpn;
		row[ROW_post_send_remote_qkey] = wr->wr.ud.remote_qkey;
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		row[ROW_post_send_remote_addr] = wr->wr.atomic.remote_addr;
		row[ROW_post_send_rkey] = wr->wr.atomic.rkey;
		row[ROW_post_send_compare_add] = wr->wr.atomic.compare_add;
		row[ROW_post_send_swap] = wr->wr.atomic.swap;
	} else {
		row[ROW_post_send_remote_addr] = wr->wr.rdma.remote_addr;
		row[ROW_post_send_rkey] = wr->wr.rdma.rkey;
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	request_begin(REQUEST_post_send, ARG_post_send_WORDS)[ARG_post_send_qp] = qp->handle;
	for (struct ibv_send_wr *at = wr; at; at = at->next) {
		put_send(request_row(ROW_post_send_WORDS), qp, at);
		put_sges(at->sg_list, at->num_sge);
	}
	int error = request_send();
	if (error) {
		uint64_t refused = native.active ? GOT(post_send, bad) : 0;
		for (*bad = wr; refused > 0 && (*bad)->next; refused--)
			*bad = (*bad)->next;
	}
	return failed(error);
}

static int post_recv_to(int request, uint32_t handle, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	_Static_assert(ARG_post_recv_WORDS == 1 && ARG_post_srq_recv_WORDS == 1 &&
		       (int)ANSWER_post_recv_bad == (int)ANSWER_post_srq_recv_bad,
		       "two rows of one form");
	request_begin(request, ARG_post_recv_WORDS)[ARG_post_recv_qp] = handle;
	for (struct ibv_recv_wr *at = wr; at; at = at->next) {
		uint64_t *row = request_row(ROW_post_recv_WORDS);
		row[ROW_post_recv_wr_id] = at->wr_id;
		row[ROW_post_recv_sges] = at->num_sge;
		put_sges(at->sg_list, at->num_sge);
	}
	int error = request_send();
	if (error) {
		uint64_t refused = native.active ? GOT(post_recv, bad) : 0;
		for (*bad = wr; refused > 0 && (*bad)->next; refused--)
			*bad = (*bad)->next;
	}
	return failed(error);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_recv_to(REQUEST_post_recv, qp->handle, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_recv_to(REQUEST_post_srq_recv, srq->handle, wr, bad);
}

static __attribute__((noinline)) int poll_unswept(struct cq *cq, int most)
{
	if (!(native.ask & cq->bit) && use_locally(native.poll_ps))
		return 0;
	int error = ASK(poll_cq, [ARG_poll_cq_cq] = cq->ex.handle, [ARG_poll_cq_most] = most);
	if (error)
		return -failed(error);
	return answer_bytes() / (ANSWER_ROW_poll_cq_WORDS * sizeof(uint64_t));
}

/* Completions into answer(): their number, or less than 0. No request where the queue is known to be empty. */
static __attribute__((noinline)) int poll(struct cq *cq, int most)
{
	int found = poll_unswept(cq, most);

	stack_sweep(SWEPT_OF_LOOK);
	return found;
}

static uint32_t immediate_of(const uint64_t *row)
{
	uint32_t imm = row[ANSWER_ROW_poll_cq_imm];
	return row[ANSWER_ROW_poll_cq_wc_flags] & IBV_WC_WITH_IMM ? htonl(imm) : imm;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	if (most <= 0)
		return 0;
	int found = poll((struct cq *)cq, most);
	const uint64_t *row = answer();
	for (int i = 0; i < found; i++, row += ANSWER_ROW_poll_cq_WORDS)
		wc[i] = (struct ibv_wc){
			.wr_id = row[ANSWER_ROW_poll_cq_wr_id],
			.status = row[ANSWER_ROW_poll_cq_status],
			.opcode = row[ANSWER_ROW_poll_cq_opcode],
			.vendor_err = row[ANSWER_ROW_poll_cq_vendor_err],
			.byte_len = row[ANSWER_ROW_poll_cq_byte_len],
			.imm_data = immediate_of(row),
			.qp_num = row[ANSWER_ROW_poll_cq_qp_num],
			.src_qp = row[ANSWER_ROW_poll_cq_src_qp],
			.wc_flags = row[ANSWER_ROW_poll_cq_wc_flags],
			.sl = row[ANSWER_ROW_poll_cq_sl],
		};
	return found;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return failed(ASK(req_notify_cq, [ARG_req_notify_cq_cq] = cq->handle,
			  [ARG_req_notify_cq_solicited_only] = solicited_only));
}

/* ibv_cq_ex: one completion at a time, whose words stay with the queue. */

static int next_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = (struct cq *)ex;
	int found = poll(cq, 1);

	if (found <= 0)
		return found < 0 ? -found : ENOENT;
	memcpy(cq->wc, answer(), sizeof(cq->wc));
	ex->status = cq->wc[ANSWER_ROW_poll_cq_status];
	ex->wr_id = cq->wc[ANSWER_ROW_poll_cq_wr_id];
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : next_poll(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	(void)ex;
}

#define READER(type, name, value)                                 \
	static type read_##name(struct ibv_cq_ex *ex)             \
	{                                                         \
		const uint64_t *wc = ((const struct cq *)ex)->wc; \
		return value;                                     \
	}
READER(enum ibv_wc_opcode, opcode, wc[ANSWER_ROW_poll_cq_opcode])
READER(uint32_t, vendor_err, wc[ANSWER_ROW_poll_cq_vendor_err])
READER(uint32_t, byte_len, wc[ANSWER_ROW_poll_cq_byte_len])
READER(__be32, imm_data, immediate_of(wc))
READER(uint32_t, qp_num, wc[ANSWER_ROW_poll_cq_qp_num])
READER(uint8_t, sl, wc[ANSWER_ROW_poll_cq_sl])
READER(uint32_t, src_qp, wc[ANSWER_ROW_poll_cq_src_qp])
READER(unsigned int, wc_flags, wc[ANSWER_ROW_poll_cq_wc_flags])
READER(uint64_t, completion_ts, wc[ANSWER_ROW_poll_cq_timestamp])
/* Ports of this rack have no LIDs and no VLANs, and create_cq_ex refuses the other fields. */
READER(uint32_t, nothing, ((void)wc, 0))

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	(void)ex;
	memset(info, 0, sizeof(*info));
}

void post_init_cq(struct cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_completion_ts = read_completion_ts;
	ex->read_slid = ex->read_flow_tag = read_nothing;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = (uint8_t(*)(struct ibv_cq_ex *))(void *)read_nothing;
	ex->read_cvlan = (uint16_t(*)(struct ibv_cq_ex *))(void *)read_nothing;
	ex->read_completion_wallclock_ns = (uint64_t(*)(struct ibv_cq_ex *))(void *)read_nothing;
	ex->read_tm_info = read_tm_info;
}

/* ibv_qp_ex: work requests are built in the queue pair and sent in one request. */

static uint64_t *wr_words(struct qp *qp, size_t words)
{
	if (qp->count + words > qp->room) {
		size_t room = 2 * (qp->count + words);
		uint64_t *grown = realloc(qp->words, room * sizeof(*grown));
		if (!grown)
			native_fail("no memory for work requests");
		qp->words = grown;
		qp->room = room;
	}
	qp->count += words;
	return memset(qp->words + qp->count - words, 0, words * sizeof(uint64_t));
}

static uint64_t *wr_begin(struct ibv_qp_ex *ex, int opcode)
{
	struct qp *qp = (struct qp *)ex;
	uint64_t *row = wr_words(qp, ROW_post_send_WORDS);

	qp->row = row - qp->words;
	row[ROW_post_send_wr_id] = ex->wr_id;
	row[ROW_post_send_send_flags] = ex->wr_flags;
	row[ROW_post_send_opcode] = opcode;
	return row;
}

static uint64_t *wr_remote(struct ibv_qp_ex *ex, int opcode, uint32_t rkey, uint64_t remote_addr)
{
	uint64_t *row = wr_begin(ex, opcode);
	row[ROW_post_send_rkey] = rkey;
	row[ROW_post_send_remote_addr] = remote_addr;
	return row;
}

static void wr_sge(struct qp *qp, uint64_t addr, uint32_t length, uint32_t lkey)
{
	uint64_t *word = wr_words(qp, SGE_WORDS);
	word[SGE_addr] = addr;
	word[SGE_length] = length;
	word[SGE_lkey] = lkey;
	qp->words[qp->row + ROW_post_send_sges]++;
}

/* The program may change the bytes at once, the host reads them at wr_complete: they are kept. */
static void wr_inline(struct qp *qp, const void *bytes, size_t length)
{
	struct inlined *kept = malloc(sizeof(*kept) + length);

	if (!kept)
		native_fail("no memory for inline data");
	kept->next = qp->inlined;
	qp->inlined = kept;
	memcpy(kept->bytes, bytes, length);
	wr_sge(qp, (uintptr_t)kept->bytes, length, 0);
	qp->words[qp->row + ROW_post_send_send_flags] |= IBV_SEND_INLINE;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	uint64_t *row = wr_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);
	row[ROW_post_send_compare_add] = compare;
	row[ROW_post_send_swap] = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	wr_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr)[ROW_post_send_compare_add] = add;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	put_bind(wr_begin(ex, IBV_WR_BIND_MW), mw, rkey, info);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_begin(ex, IBV_WR_LOCAL_INV)[ROW_post_send_imm] = rkey;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_remote(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_remote(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	wr_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr)[ROW_post_send_imm] = ntohl(imm);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_begin(ex, IBV_WR_SEND_WITH_IMM)[ROW_post_send_imm] = ntohl(imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_begin(ex, IBV_WR_SEND_WITH_INV)[ROW_post_send_imm] = rkey;
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *header, uint16_t length, uint16_t mss)
{
	(void)header, (void)length, (void)mss;
	((struct qp *)ex)->error = EOPNOTSUPP;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *bytes)
{
	wr_remote(ex, WR_ATOMIC_WRITE, rkey, remote_addr);
	wr_inline((struct qp *)ex, bytes, sizeof(uint64_t));
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
		     uint8_t placement, uint8_t selectivity)
{
	uint64_t *row = wr_remote(ex, WR_FLUSH, rkey, remote_addr);
	row[ROW_post_send_flush_placement] = placement;
	row[ROW_post_send_flush_selectivity] = selectivity;
	wr_sge((struct qp *)ex, 0, length, 0);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct qp *qp = (struct qp *)ex;
	uint64_t *row = qp->words + qp->row;
	row[ROW_post_send_ah] = ah ? ah->handle : 0;
	row[ROW_post_send_remote_qpn] = qpn;
	row[ROW_post_send_remote_qkey] = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	(void)srqn;
	((struct qp *)ex)->error = EOPNOTSUPP;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *bytes, size_t length)
{
	wr_inline((struct qp *)ex, bytes, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < count; i++)
		wr_inline((struct qp *)ex, list[i].addr, list[i].length);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	wr_sge((struct qp *)ex, addr, length, lkey);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	for (size_t i = 0; i < count; i++)
		wr_sge((struct qp *)ex, list[i].addr, list[i].length, list[i].lkey);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *qp = (struct qp *)ex;

	qp->count = qp->error = 0;
	while (qp->inlined) {
		struct inlined *next = qp->inlined->next;
		free(qp->inlined);
		qp->inlined = next;
	}
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *qp = (struct qp *)ex;
	int error = qp->error;

	if (!error && qp->count) {
		request_begin(REQUEST_post_send, ARG_post_send_WORDS)[ARG_post_send_qp] =
			ex->qp_base.handle;
		request_bytes(qp->words, qp->count * sizeof(uint64_t));
		error = request_send();
	}
	wr_start(ex);
	return failed(error);
}

void post_init_qp(struct qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_start;
	ex->wr_atomic_write = wr_atomic_write;
	/* Behind it in headers that are newer, whether this was compiled with them or not. */
	void **newer = (void **)((char *)ex + offsetof(struct ibv_qp_ex, wr_atomic_write)) + 1;
	*newer = wr_flush;
}

void post_free_qp(struct qp *qp)
{
	wr_start(&qp->ex);
	free(qp->words);
}

/* Memory windows are entries of `ops`, too. */

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (failed(ASK(alloc_mw, [ARG_alloc_mw_pd] = pd->handle, [ARG_alloc_mw_type] = type)))
		return NULL;
	struct ibv_mw *mw = calloc(1, sizeof(*mw));
	*mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .type = type,
			       .handle = GOT(alloc_mw, handle), .rkey = GOT(alloc_mw, rkey) };
	return mw;
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	const struct ibv_mw_bind_info *info = &bind->bind_info;
	int error = ASK(bind_mw, [ARG_bind_mw_qp] = qp->handle, [ARG_bind_mw_mw] = mw->handle,
			[ARG_bind_mw_wr_id] = bind->wr_id,
			[ARG_bind_mw_send_flags] = bind->send_flags,
			[ARG_bind_mw_mr] = info->mr ? info->mr->handle : 0,
			[ARG_bind_mw_addr] = info->addr, [ARG_bind_mw_length] = info->length,
			[ARG_bind_mw_access] = info->mw_access_flags);
	if (!error)
		mw->rkey = GOT(bind_mw, rkey);
	return failed(error);
}

static int dealloc_mw(struct ibv_mw *mw)
{
	int error = ASK(dealloc_mw, [ARG_dealloc_mw_mw] = mw->handle);
	if (!error)
		free(mw);
	return failed(error);
}

void post_init_context(struct ibv_context_ops *ops)
{
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	ops->alloc_mw = alloc_mw;
	ops->bind_mw = bind_mw;
	ops->dealloc_mw = dealloc_mw;
}
