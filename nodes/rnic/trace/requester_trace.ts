/** The requester's lines of a ladder, by the documents' figures. */
import type { TraceStep } from "../../../fabric/node.ts";
import { VENDOR_ERRORS, type VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { readsBack } from "../../../fabric/wire/roce/verify_eth.ts";
import { trace } from "./trace.ts";
import type { Device } from "../state/device.ts";
import { findRecord } from "../state/persist_records.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { lastPsnOf, type OutstandingWqe } from "../state/outstanding_wqe.ts";

interface Figure {
  readonly start: string;
  readonly send: string;
  readonly complete: string;
}

const FIGURES = {
  write: { start: "S202", send: "S203", complete: "S206" },
  writeFlow2: { start: "S302", send: "S303", complete: "S306" },
  read: { start: "S209", send: "S210", complete: "S213" },
  send: { start: "S309", send: "S310", complete: "S315" },
  answer: { start: "S322", send: "S323", complete: "send-complete" },
  persist: { start: "S902", send: "S903", complete: "S908" },
  persistReception: { start: "S1002", send: "S1003", complete: "S1010" },
  // Document 2, figures 5 and 6, by the level.
  verifyBefore: { start: "verify-start", send: "4502", complete: "4505" },
  verifyAfter: { start: "verify-start", send: "4602", complete: "4608" },
  persistenceAck: { start: "S1015", send: "S1016", complete: "S1017" },
  other: { start: "start", send: "send", complete: "complete" },
} as const satisfies Record<string, Figure>;

/**
 * Figures 2 and 3 show one exchange; this host's own flow chooses. A SEND to a peer that wrote last
 * is the answer of figure 3 (S322), any other is its question (S309).
 */
function figureOf(device: Device, qp: QueuePair, work: OutstandingWqe): Figure {
  const { plan, wqe } = work;
  if (qp.type === "ud") return FIGURES.other;
  if (plan.awaitsPersistence) {
    return qp.persistCompletion === "reception" ? FIGURES.persistReception : FIGURES.persist;
  }
  if (wqe?.opcode === "persistence-ack") return FIGURES.persistenceAck;
  switch (plan.wire) {
    case "write":
      return device.persistence.flow === 2 ? FIGURES.writeFlow2 : FIGURES.write;
    case "read-request":
      return FIGURES.read;
    case "write-verify":
      return readsBack(wqe!.verify!.level) ? FIGURES.verifyAfter : FIGURES.verifyBefore;
    case "send":
      return qp.lastWrite === "in" ? FIGURES.answer : FIGURES.send;
    default:
      return FIGURES.other;
  }
}

function keysOf(qp: QueuePair, work: OutstandingWqe): Partial<TraceStep> {
  const { wqe, firstPsn, packets } = work;
  const place = { wqe: work.index };
  if (wqe?.opcode === "persistence-ack") {
    return {
      ...place,
      psn: findRecord(qp, wqe.immediate)?.firstPsn ?? wqe.immediate,
      inbound: true,
    };
  }
  return { ...place, psn: firstPsn, ...(packets > 1 && { lastPsn: lastPsnOf(work) }) };
}

export function traceFailedWork(
  device: Device,
  qp: QueuePair,
  { work, fault }: { readonly work: OutstandingWqe; readonly fault: VendorError },
): void {
  const { status, code, text } = VENDOR_ERRORS[fault];
  const name = `${work.wqe?.opcode ?? "malformed WQE"} at ${work.index}`;
  const keys = work.started ? keysOf(qp, work) : { wqe: work.index };
  const words = `CQE of ${name}: ${status}, vendor_err 0x${code.toString(16)}: ${text}`;
  trace(device, qp, { step: "error-cqe", text: words, ...keys });
}

export function traceWork(
  device: Device,
  qp: QueuePair,
  { work, stage }: { readonly work: OutstandingWqe; readonly stage: keyof Figure },
): void {
  const name = `${work.wqe?.opcode ?? "malformed WQE"} at ${work.index}`;
  const texts = {
    start: `${name}: ${work.length} B in ${work.packets} packets`,
    send: `${name} on the wire`,
    complete: `CQE of ${name}`,
  };
  const step = figureOf(device, qp, work)[stage];
  trace(device, qp, { step, text: texts[stage], ...keysOf(qp, work) });
}
