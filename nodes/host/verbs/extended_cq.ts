/** Extended polling: returns the same completions as `pollCq`, one at a time. */
import { CLOCK_KHZ } from "../../../fabric/wire/host_bus/cqe.ts";
import { refuseCq, takeCompletions } from "./completion_queue.ts";
import { failed, verbError } from "./device.ts";
import {
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
  IBV_WC_GRH,
  IBV_WC_WITH_IMM,
  IBV_WC_WITH_INV,
  RACKMESH_WC_VERIFY,
  type WcExFlags,
  type WcFlags,
} from "./flags.ts";
import type { Steps } from "../cpu/program.ts";
import type { Cq, VerbError, WorkCompletion, WrId } from "./objects.ts";

function advance(cq: Cq): VerbError | undefined {
  const gone = refuseCq(cq.device, cq);
  if (gone?.errno === "EINVAL") return gone;
  const [completion] = takeCompletions(cq, 1);
  cq.place.current = completion;
  return completion === undefined ? verbError("ENOENT", "No completion is there") : undefined;
}

/**
 * Begins a session with the first completion. ENOENT, and no session, without a completion. EINVAL
 * on a destroyed queue.
 */
export function startPoll(cq: Cq): VerbError | undefined {
  if (cq.place.polling) return verbError("EINVAL", "A session is open: end it first");
  const none = advance(cq);
  cq.place.polling = none === undefined;
  return none;
}

/** Moves to the next completion. ENOENT without one; the session stays open. */
export function nextPoll(cq: Cq): VerbError | undefined {
  return cq.place.polling ? advance(cq) : verbError("EINVAL", "No session is open");
}

/** Ends the session and pays its cost. */
export function* endPoll(cq: Cq): Steps<void> {
  cq.place.polling = false;
  cq.place.current = undefined;
  yield* cq.device.cpu.settle();
}

/** wr_id, status and the other fields that `ibv_wc_read_…` read from the current completion. */
export function wcRead<Id extends WrId = number>(cq: Cq): WorkCompletion<Id> | VerbError {
  return cq.place.current as WorkCompletion<Id> | undefined ??
    verbError("EINVAL", "No completion is current");
}

/** ibv_wc_read_wc_flags: the valid optional fields. */
export function wcFlags(completion: WorkCompletion<WrId>): WcFlags {
  let flags: WcFlags = 0;
  const { opcode, status, srcQp, verify } = completion;
  // A failed verified write has its result, too: the reason.
  if (verify !== undefined) flags |= RACKMESH_WC_VERIFY;
  if (status !== "SUCCESS") return flags;
  // Only datagrams have these.
  if (srcQp !== 0) flags |= IBV_WC_GRH;
  if (opcode === "recv-immediate" || opcode === "recv-write-immediate") flags |= IBV_WC_WITH_IMM;
  if (opcode === "recv-invalidate") flags |= IBV_WC_WITH_INV;
  return flags;
}

/**
 * ibv_wc_read_completion_ts: the card's clock when it wrote the current completion, in ticks of
 * `hcaCoreClock` kHz (`queryDeviceEx`); `queryRtValuesEx` reads the same clock. EINVAL where the
 * queue was created without IBV_WC_EX_WITH_COMPLETION_TIMESTAMP: libibverbs has no function for the
 * field then.
 */
export function wcReadCompletionTs(cq: Cq): number | VerbError {
  return readTime(cq, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
}

/**
 * ibv_wc_read_completion_wallclock_ns: the same in ns of the host's clock, virtual time. EINVAL
 * where the queue was created without IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK.
 */
export function wcReadCompletionWallclockNs(cq: Cq): number | VerbError {
  const ticks = readTime(cq, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  return failed(ticks) ? ticks : ticks * (1_000_000 / CLOCK_KHZ);
}

function readTime(cq: Cq, asked: WcExFlags): number | VerbError {
  const current = wcRead(cq);
  if (failed(current)) return current;
  if ((cq.wcFlags & asked) !== 0) return current.timestamp!;
  return verbError("EINVAL", `The queue was made without wcFlags 0x${asked.toString(16)}`);
}
