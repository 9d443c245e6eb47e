/**
 * Messages between an RNIC and its host: one per DMA request or completion, not one per TLP ({@link
 * pcieWireBytes} adds the TLP overhead). A memory read must not complete before every memory write
 * sent before it (P-03): the host enforces that, the link is a FIFO. On the coherent bus
 * `coherent.ts` replaces those for data.
 */
import { COHERENT_CONTROL_BYTES, type CoherentMessage, coherentWireBytes } from "./coherent.ts";
import type { StampedPointer } from "./queue_information.ts";
import { isRegionMessage, type RegionMessage, regionWireBytes } from "./region_messages.ts";
import type { RnicCommand, RnicEvent, RnicReply } from "./rnic_command.ts";

/** `noSnoop` is the NS bit (P-02). */
export interface MemoryWrite {
  readonly kind: "memory-write";
  readonly address: number;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly noSnoop: boolean;
}

export interface MemoryRead {
  readonly kind: "memory-read";
  readonly tag: number;
  readonly address: number;
  readonly length: number;
  readonly noSnoop: boolean;
  /**
   * The data come from the medium, after all earlier writes to it, not from a queue in front of it
   * (V-03, V-08).
   */
  readonly medium?: true;
  /**
   * The card keeps the data: the host sends a {@link SnoopInvalidate} when anything but the card's
   * own writes changes the line (H-23). Never together with `medium`.
   */
  readonly tracked?: true;
}

/** `data` is empty unless `status` is `success`. */
export interface Completion {
  readonly kind: "completion";
  readonly tag: number;
  readonly status: "success" | "unsupported-request";
  readonly data: Uint8Array<ArrayBuffer>;
}

/**
 * Posted, in order with the host's other messages. PCIe has no such message (ATS invalidates
 * translations only): it is CXL.cache's SnpInv without the answer.
 */
export interface SnoopInvalidate {
  readonly kind: "snoop-invalidate";
  readonly address: number;
}

/** MSI-X: ordered behind earlier memory writes. */
export interface Interrupt {
  readonly kind: "interrupt";
  readonly vector: number;
}

/** Posted write by a core into the BAR: a doorbell, at most 64 bytes. */
export interface RegisterWrite {
  readonly kind: "register-write";
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
  /**
   * Not on the bus, in no digest. For a doorbell without pointer: the newest one in the host's view
   * as it rang.
   */
  readonly stored?: StampedPointer;
  /** For a write into the card's memory: the storing process, as in PCIe's PASID prefix. */
  readonly by?: number;
}

/**
 * A core's read of the card's memory (Q-03, `store: device`). Its {@link Completion} has the same
 * tag and passes no earlier write of the device (P-03).
 */
export interface RegisterRead {
  readonly kind: "register-read";
  readonly tag: number;
  readonly offset: number;
  readonly length: number;
}

/**
 * The device refused a posted store that Q-04 forbids. `by` as in {@link RegisterWrite}; `holder`:
 * another process that has the lock of space 2.
 */
export interface AccessError {
  readonly kind: "access-error";
  readonly by: number;
  readonly address: number;
  readonly length: number;
  readonly space: 1 | 2;
  readonly queue: number;
  readonly holder?: number;
}

/**
 * ATS and PRI: an RNIC asks the host's IOMMU, not its driver, for `count` pages from `first` on of
 * a region's key (PCIe base specification 4.0, §10). `page-request`: bring them, and optionally
 * `ahead` more. `page-response`: they are there. `translate`, `translated`: `frames` in order,
 * writable if `write` is set; no frames: the pages are not there.
 */
export interface AtsMessage {
  readonly kind: "ats";
  readonly step: typeof ATS_STEPS[number];
  readonly key: number;
  readonly first: number;
  readonly count: number;
  readonly ahead: number;
  readonly write: boolean;
  readonly frames: readonly number[];
  /** As in a `PAGE_FAULT`. */
  readonly hintsOf?: number;
}

export const ATS_STEPS = ["page-request", "page-response", "translate", "translated"] as const;

/** Host to firmware (create a queue, register memory …); answered by `reply`. */
export interface CommandMessage {
  readonly kind: "command";
  readonly id: number;
  readonly command: RnicCommand;
}

export interface ReplyMessage {
  readonly kind: "reply";
  readonly id: number;
  readonly reply: RnicReply;
}

export interface EventMessage {
  readonly kind: "event";
  readonly event: RnicEvent;
}

export type PcieMessage =
  | MemoryWrite
  | MemoryRead
  | Completion
  | SnoopInvalidate
  | Interrupt
  | RegisterWrite
  | RegisterRead
  | AccessError
  | AtsMessage
  | CommandMessage
  | ReplyMessage
  | EventMessage
  | RegionMessage
  | CoherentMessage;

/** [choice] Max_Payload_Size of the modelled bus. */
export const MAX_PAYLOAD_BYTES = 256;
/**
 * PCIe's usual setting. A longer {@link MemoryRead} models several requests in parallel; their
 * completions arrive as one message, with the last byte.
 */
export const MAX_READ_REQUEST_BYTES = 512;
/** Framing, sequence number, header (4 DW) and LCRC (PCIe base specification 3.0, §2–3). */
const TLP_OVERHEAD_BYTES = 26;
const CONTROL_BYTES = 64;

/** PCIe base specification 4.0, §6.20. */
const PASID_BYTES = 4;

export function readRequests(length: number): number {
  return length <= MAX_READ_REQUEST_BYTES ? 1 : Math.ceil(length / MAX_READ_REQUEST_BYTES);
}

export function coherentBusBytes(message: PcieMessage): number {
  if (message.kind === "coherent") return coherentWireBytes(message);
  return isRegionMessage(message) ? regionWireBytes(message) : COHERENT_CONTROL_BYTES;
}

export function pcieWireBytes(message: PcieMessage): number {
  switch (message.kind) {
    case "memory-write":
    case "completion": {
      const bytes = message.data.length;
      return bytes + TLP_OVERHEAD_BYTES * Math.max(1, Math.ceil(bytes / MAX_PAYLOAD_BYTES));
    }
    case "register-write":
      return message.data.length + TLP_OVERHEAD_BYTES +
        (message.by === undefined ? 0 : PASID_BYTES);
    case "register-read":
    case "access-error":
      return TLP_OVERHEAD_BYTES;
    case "memory-read":
      return TLP_OVERHEAD_BYTES * readRequests(message.length);
    case "interrupt":
      return TLP_OVERHEAD_BYTES + 4;
    case "snoop-invalidate":
      return TLP_OVERHEAD_BYTES + 8;
    case "ats":
      return atsBytes(message);
    case "command":
    case "reply":
    case "event":
      return CONTROL_BYTES + TLP_OVERHEAD_BYTES;
    case "coherent":
      return coherentWireBytes(message);
    default:
      return regionWireBytes(message);
  }
}

/**
 * A page request is a message per page; a translation has 8 B, in a completion like a read's data.
 */
function atsBytes({ step, count, ahead, frames }: AtsMessage): number {
  const header = TLP_OVERHEAD_BYTES + PASID_BYTES;
  if (step === "page-request") return header * (count + ahead);
  const bytes = 8 * frames.length;
  return step === "translated"
    ? bytes + TLP_OVERHEAD_BYTES * Math.max(1, Math.ceil(bytes / MAX_PAYLOAD_BYTES))
    : header;
}

/** The serialisation part of the lookahead. */
export const LEAST_PCIE_BYTES = TLP_OVERHEAD_BYTES;
