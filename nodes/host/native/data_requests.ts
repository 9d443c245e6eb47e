/** The data path of a native program: posts, polls, and the events of completion channels. */
// deno-lint-ignore-file require-yield -- handlers have one form
import { failed, verbError } from "../verbs/errors.ts";
import { IBV_SEND_INLINE } from "../verbs/flags.ts";
import { isThere, takeCompletions } from "../verbs/completion_queue.ts";
import { WC_STATUS } from "../../../fabric/wire/host_bus/cqe.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import type {
  Ah,
  CompChannel,
  Cq,
  Mr,
  Mw,
  Qp,
  RecvRequest,
  SendRequest,
  Srq,
  VerbError,
  WrId,
} from "../verbs/objects.ts";
import type { Steps } from "../cpu/program.ts";
import { type Handlers, PORT } from "./control_requests.ts";
import type { NativeObjects } from "./native_objects.ts";
import { COMPLETED, POSTED } from "./numbers.ts";
import type { Row } from "./words.ts";

/** A request that cannot be made from its row is as one that the verb refuses. */
function sendOf(row: Row<"post_send">, objects: NativeObjects): SendRequest | VerbError {
  const opcode = POSTED.get(row.opcode);
  if (opcode === undefined || opcode === "nop") {
    return verbError("EINVAL", `The card has no opcode ${row.opcode}`);
  }
  const { operands, immediate, invalidate } = WQE_OPCODES[opcode];
  const ah = row.ah === 0 ? undefined : objects.get<Ah>(row.ah, "address handle");
  if (ah !== undefined && failed(ah)) return ah;
  const sges = sgesOf(row, objects, (row.send_flags & IBV_SEND_INLINE) !== 0);
  if (failed(sges)) return sges;
  const bind = opcode === "bind-mw" ? bindOf(row, objects) : undefined;
  if (bind !== undefined && failed(bind)) return bind;
  return {
    opcode,
    wrId: row.wr_id,
    sendFlags: row.send_flags,
    ...(sges.length > 0 && { sges }),
    ...((immediate || invalidate || opcode === "local-invalidate") && { immediate: row.imm }),
    ...(operands.includes("remote") && { remote: { va: row.remote_addr, rkey: row.rkey } }),
    ...(operands.includes("atomic") && { atomic: atomicOf(row, opcode === "fetch-add") }),
    ...(operands.includes("flush") && {
      flush: {
        placement: row.flush_placement,
        selectivity: row.flush_selectivity === 0 ? "range" as const : "mr" as const,
        length: row.elements.length === 0 ? 0 : row.elements[0]!.length,
      },
    }),
    ...(bind && { bind }),
    ...(ah && { ud: { ah, qpn: row.remote_qpn, qKey: row.remote_qkey } }),
  };
}

function atomicOf(row: Row<"post_send">, isAdd: boolean) {
  const first = BigInt(row.compare_add), second = BigInt(row.swap);
  return isAdd ? { swapAdd: first, compare: 0n } : { swapAdd: second, compare: first };
}

function bindOf(row: Row<"post_send">, objects: NativeObjects) {
  const mw = objects.get<Mw>(row.mw, "window"), mr = objects.get<Mr>(row.mw_mr, "region");
  if (failed(mw)) return mw;
  if (failed(mr)) return mr;
  const { mw_addr: addr, mw_length: length, mw_access: access, mw_rkey: rkey } = row;
  return { mw, mr, offset: addr - mr.address, length, access, rkey };
}

function sgesOf(
  { elements, flush_placement: placement }: Row<"post_send">,
  objects: NativeObjects,
  isInline: boolean,
): Sge[] | VerbError {
  // A FLUSH's only element is its length.
  if (placement !== 0) return [];
  const sges: Sge[] = [];
  for (const { addr, length, lkey } of elements) {
    const address = isInline ? objects.inline(addr, length) : addr;
    if (address === undefined) {
      return verbError("EFAULT", `The program has no memory at 0x${addr.toString(16)}`);
    }
    sges.push({ address, length, lkey });
  }
  return sges;
}

function receivesOf(rows: readonly Row<"post_recv">[]): RecvRequest[] {
  return rows.map(({ wr_id: wrId, elements }) => ({
    wrId,
    sges: elements.map(({ addr: address, length, lkey }) => ({ address, length, lkey })),
  }));
}

/**
 * The service level of a datagram's completion, where libmlx5 has what the packet was (bits 0 and 1: 0 a
 * GRH, 2 an IPv4 header; bit 3: UDP), and by which UCX 1.13 finds the address in front of the payload.
 * The card is asked, unless the program has: it had to know its GID.
 */
function* datagramSlOf({ gidTypes, device }: NativeObjects, cq: Cq): Steps<number> {
  const { state } = cq.device;
  if (!gidTypes.has(state)) {
    const entry = yield* device.verbs.queryGidEx(cq.device, PORT, 0);
    if (failed(entry)) return 0;
    gidTypes.set(state, entry.gidType);
  }
  return gidTypes.get(state) === "roce-v1" ? 0 : 0b1010;
}

export const DATA: Handlers<
  | "post_send"
  | "post_recv"
  | "post_srq_recv"
  | "poll_cq"
  | "req_notify_cq"
  | "get_cq_event"
  | "ack_cq_events"
> = {
  *post_send({ qp: handle }, objects, request) {
    const qp = objects.get<Qp>(handle, "queue pair");
    if (failed(qp)) return qp;
    const requests: SendRequest[] = [];
    let wrong: VerbError | undefined;
    for (const row of request.rows("post_send")) {
      const send = sendOf(row, objects);
      if (failed(send)) {
        wrong = send;
        break;
      }
      requests.push(send);
    }
    const refused = requests.length === 0
      ? undefined
      : yield* objects.device.verbs.postSend(qp, requests);
    return refused ?? (wrong && { ...wrong, bad: requests.length }) ?? {};
  },

  *post_recv({ qp: handle }, objects, request) {
    const qp = objects.get<Qp>(handle, "queue pair");
    if (failed(qp)) return qp;
    const receives = receivesOf(request.rows("post_recv"));
    return (yield* objects.device.verbs.postRecv(qp, receives)) ?? {};
  },

  *post_srq_recv({ srq: handle }, objects, request) {
    const srq = objects.get<Srq>(handle, "shared receive queue");
    if (failed(srq)) return srq;
    const receives = receivesOf(request.rows("post_srq_recv"));
    return (yield* objects.device.verbs.postSrqRecv(srq, receives)) ?? {};
  },

  /** Each poll is one: a program may read the clock between two, so none is passed over. */
  *poll_cq({ cq: handle, most }, objects) {
    const cq = objects.get<Cq>(handle, "completion queue");
    if (failed(cq)) return cq;
    if (!isThere(cq)) return verbError("EINVAL", `Completion queue ${cq.cqn} is gone`);
    if (objects.polls.isEmpty(cq)) {
      objects.cpu.charge(objects.emptyPollPs);
      return { rows: [] };
    }
    const completions = takeCompletions<WrId>(cq, most);
    const { verbs } = objects.device;
    const datagramSl = completions.some(({ srcQp }) => srcQp !== 0)
      ? yield* datagramSlOf(objects, cq)
      : 0;
    const rows = completions.map((it) => ({
      wr_id: it.wrId,
      status: WC_STATUS[it.status],
      opcode: COMPLETED[it.opcode] ?? 0,
      vendor_err: it.vendorErr,
      byte_len: it.byteLen,
      imm: it.immData,
      qp_num: it.qpNum,
      src_qp: it.srcQp,
      wc_flags: verbs.wcFlags(it as never),
      sl: it.srcQp === 0 ? 0 : datagramSl,
      timestamp: it.timestamp ?? 0,
    }));
    return { rows };
  },

  *req_notify_cq({ cq: handle, solicited_only: solicitedOnly }, objects) {
    const cq = objects.get<Cq>(handle, "completion queue");
    if (failed(cq)) return cq;
    // libibverbs arms a queue without a channel, too: nobody is told.
    if (cq.vector === null) return {};
    const options = { solicitedOnly: solicitedOnly !== 0 };
    return (yield* objects.device.verbs.reqNotifyCq(cq, options)) ?? {};
  },

  *get_cq_event({ channel: handle, wait }, objects) {
    const channel = objects.get<CompChannel>(handle, "completion channel");
    if (failed(channel)) return channel;
    const { verbs, cpu } = objects.device;
    const cq = wait === 0
      ? yield* verbs.getChannelEvent(channel, { deadline: cpu.now })
      : yield* verbs.getChannelEvent(channel);
    if (cq === "timeout") return { errno: "EAGAIN", reason: "There is no event" };
    return failed(cq) ? cq : { words: { cq: objects.handleOf(cq) } };
  },

  *ack_cq_events({ cq: handle, count }, objects) {
    const cq = objects.get<Cq>(handle, "completion queue");
    if (failed(cq)) return cq;
    return objects.device.verbs.ackCqEvents(cq, count) ?? {};
  },
};
