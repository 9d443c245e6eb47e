/**
 * Batches of sends: `ibv_wr_start`, `ibv_wr_…`, `ibv_wr_complete`, `ibv_wr_abort` (`rocev2.md`
 * §4.3). Errors are reported at the end: with one invalid request, none of the batch is posted.
 */
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { failed, verbError } from "./device.ts";
import { fillSend, noteSend } from "./post.ts";
import type { Steps } from "../cpu/program.ts";
import type { Qp, SendRequest, VerbError } from "./objects.ts";
import { awaitRing } from "./resize_queue.ts";
import { ringSends } from "./rings.ts";

/** Sends between `wrStart` and `wrComplete`. */
export interface WorkBatch {
  /** The queue pair that it is posted to. */
  readonly qp: Qp;
  /** In the order in which they were added. */
  readonly requests: SendRequest[];
  /** False after its end. */
  open: boolean;
}

/** Begins a batch. Until its end no other request may be posted to the queue pair. */
export function wrStart(qp: Qp): WorkBatch {
  return { qp, requests: [], open: true };
}

/** Adds a send with its `ibv_wr_set_…` fields: ibv_wr_send, ibv_wr_rdma_write, ibv_wr_atomic_… */
export function wrAdd(batch: WorkBatch, request: SendRequest): void {
  batch.requests.push(request);
}

/**
 * Posts the whole batch with one doorbell. Where one request is invalid it posts none, and the
 * records of the driver, the checks and the trace are unchanged.
 */
export function* wrComplete(batch: WorkBatch): Steps<VerbError | undefined> {
  if (!batch.open) return verbError("EINVAL", "The batch has ended already");
  batch.open = false;
  const { qp, requests } = batch;
  yield* awaitRing(qp.device, qp.sq);
  const { write, used, requests: outstanding, unsignaled, newest } = qp.sq;
  const keys = requests.flatMap(({ bind }) =>
    bind === undefined ? [] : [[bind.mw, bind.mw.rkey] as const]
  );
  const filled: SendWqe[] = [];
  for (const request of requests) {
    const wqe = fillSend(qp, request);
    if (!failed(wqe)) {
      filled.push(wqe);
      continue;
    }
    // The write pointer does not cover these WQEs, so they are not posted.
    Object.assign(qp.sq, { write, used, requests: outstanding, unsignaled, newest });
    for (const [mw, rkey] of keys) mw.rkey = rkey;
    yield* qp.device.cpu.settle();
    return wqe;
  }
  for (const [i, wqe] of filled.entries()) noteSend(qp, requests[i]!, wqe);
  if (requests.length > 0) yield* ringSends(qp, requests.length);
  return undefined;
}

/** Discards the batch. */
export function wrAbort(batch: WorkBatch): void {
  batch.open = false;
}
