/**
 * State of a card's port to the coherent bus (`dma/coherent_port.ts`), which, unlike PCIe, keeps no
 * order (decision 5).
 */
import { Fifo } from "../../../fabric/base/fifo.ts";
import { type Outputs, PORTS } from "../../../fabric/node.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { JournalWrite, ReadRequest } from "./dma_state.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { AtomicTurn } from "./responder_state.ts";

export interface CoherentPort {
  readonly bitsPerSecond: number;
  readonly runLines: number;
  readonly writes: Fifo<PortWrite>;
  queuedBytes: number;
  readonly lines: Map<number, PortLine>;
  readonly asking: LineAsk[];
  /** The agent completes them in order. */
  readonly away: Fifo<PushAway>;
  asked: number;
  done: number;
  readonly held: Fifo<HeldBehind>;
  readonly reads: Map<number, PortRead>;
  readonly parts: Fifo<ReadPart>;
  /** The tags of due LSB reads (P-24), which bring no data. */
  readonly finished: Fifo<number>;
  readonly shared: readonly { readonly from: number; readonly to: number }[];
  readonly tasks: Map<number, LineTask>;
  readonly writingBack: LineTask[];
  readonly ended: Fifo<LineTask>;
  /** Lost lines with a dropped write, until a flush is refused for it (decision 13). */
  readonly dropped: Set<number>;
  nextTask: number;
  readCredits: number;
  writeCredits: number;
  readonly counters: {
    busLinesRead: number;
    busLinesOwned: number;
    busLinesWritten: number;
    busLinesKept: number;
    busCreditWaits: number;
    busHeld: number;
    busSnoops: number;
  };
}

export interface PortWrite {
  readonly number: number;
  readonly address: number;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly toMemory: boolean;
  readonly wireBytes: number;
  readonly takenAt: Time;
  /**
   * The journal's entry is on its last piece only, as the journal learns when all bytes have left.
   */
  readonly entry: JournalWrite | undefined;
  readonly task: LineTask | undefined;
}

export type LineTask =
  & {
    readonly address: number;
    readonly length: number;
    state: "waits" | "runs" | "over";
    answer: Uint8Array<ArrayBuffer> | undefined;
    isGood: boolean;
  }
  & (
    | { readonly kind: "read"; readonly tag: number }
    | { readonly kind: "write"; readonly change: LineChange }
    /** The atomic is executed where the line is (decision 15). */
    | { readonly kind: "atomic"; readonly change: LineChange; readonly turn: AtomicTurn }
  );

export interface PortLine {
  state: "none" | "asked" | "owned";
  users: number;
  away: number;
}

export interface LineAsk {
  readonly write: number;
  readonly address: number;
  readonly lines: number;
  readonly departAt: Time;
}

export interface PushAway {
  readonly address: number;
  readonly lines: number;
  readonly keeps: boolean;
  readonly isLast: boolean;
}

export interface PortRead {
  readonly address: number;
  readonly length: number;
  data: Uint8Array<ArrayBuffer> | undefined;
  failed: boolean;
  left: number;
}

export interface ReadPart {
  readonly op: "RdCur" | "RdCode";
  readonly tag: number;
  readonly address: number;
  readonly lines: number;
  readonly medium: boolean;
  readonly departAt: Time;
}

export interface HeldBehind {
  readonly after: number;
  readonly departAt: Time;
  readonly what:
    | { readonly kind: "message"; readonly message: PcieMessage }
    | { readonly kind: "read"; readonly tag: number; readonly request: ReadRequest };
}

export function createCoherentPort(
  { attach, timing: { busLinesMax }, shared = [], address }: RnicPlan,
  mostLines: number,
): CoherentPort | undefined {
  return attach && {
    bitsPerSecond: attach.bitsPerSecond,
    runLines: Math.min(mostLines, busLinesMax),
    writes: new Fifo(),
    queuedBytes: 0,
    lines: new Map(),
    asking: [],
    away: new Fifo(),
    asked: 0,
    done: 0,
    held: new Fifo(),
    reads: new Map(),
    parts: new Fifo(),
    finished: new Fifo(),
    shared: shared.filter((region) => region.home.address === address).map((region) => ({
      from: region.address,
      to: region.address + region.bytes,
    })),
    tasks: new Map(),
    writingBack: [],
    ended: new Fifo(),
    dropped: new Set(),
    nextTask: 1,
    readCredits: busLinesMax,
    writeCredits: busLinesMax,
    counters: {
      busLinesRead: 0,
      busLinesOwned: 0,
      busLinesWritten: 0,
      busLinesKept: 0,
      busCreditWaits: 0,
      busHeld: 0,
      busSnoops: 0,
    },
  };
}

/**
 * An interrupt stays behind its CQE, a reply behind the command's writes. PCIe keeps that order; on
 * the coherent bus the message waits until the writes are complete.
 */
export function sendBehindWrites(
  { out, port }: { readonly out: Outputs; readonly port: CoherentPort | undefined },
  message: PcieMessage,
  departAt: Time,
): void {
  if (port === undefined) {
    out.send(PORTS.rnicBus, message, departAt);
    return;
  }
  const what = { kind: "message", message: coherentForm(message) } as const;
  if (port.done === port.asked) {
    out.send(PORTS.rnicBus, what.message, departAt);
    return;
  }
  port.counters.busHeld++;
  port.held.push({ after: port.asked, departAt, what });
}

function coherentForm(message: PcieMessage): PcieMessage {
  switch (message.kind) {
    case "interrupt":
      return { kind: "coherent", op: "IntPhysical", vector: message.vector };
    case "completion":
      return { kind: "coherent", op: "DataNc", tag: message.tag, data: message.data };
    default:
      return message;
  }
}
