/**
 * Messages between an RNIC and its host: one per DMA request or completion, not one per TLP ({@link
 * pcieWireBytes} adds the TLP overhead). A memory read must not complete before every memory write
 * sent before it on the same link (P-03); the host enforces that, the link itself is a FIFO. On the
 * processor's coherent bus the messages of `coherent.ts` take the place of those for data.
 */
import { COHERENT_CONTROL_BYTES, type CoherentMessage, coherentWireBytes } from "./coherent.ts";
import type { StampedPointer } from "./queue_information.ts";
import { isRegionMessage, type RegionMessage, regionWireBytes } from "./region_messages.ts";
import type { RnicCommand, RnicEvent, RnicReply } from "./rnic_command.ts";

/** Posted write by the device. `noSnoop` is the NS bit (P-02). */
export interface MemoryWrite {
  readonly kind: "memory-write";
  readonly address: number;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly noSnoop: boolean;
}

/** Non-posted read by the device; answered by a {@link Completion} with the same tag. */
export interface MemoryRead {
  readonly kind: "memory-read";
  readonly tag: number;
  readonly address: number;
  readonly length: number;
  readonly noSnoop: boolean;
  /**
   * The read returns its data only after all earlier writes to it have reached the medium: a
   * read-back must read the cells, not a queue in front of them (V-03, V-08).
   */
  readonly medium?: true;
  /**
   * The card keeps the data: the host sends it a {@link SnoopInvalidate} when anything but the
   * card's own writes changes the line (H-23). Never together with `medium`.
   */
  readonly tracked?: true;
}

/** Answer to a {@link MemoryRead} or {@link RegisterRead}. `data` is empty unless `status` is `success`. */
export interface Completion {
  readonly kind: "completion";
  readonly tag: number;
  readonly status: "success" | "unsupported-request";
  readonly data: Uint8Array<ArrayBuffer>;
}

/**
 * A line that the card keeps has changed: its copy is void. Posted, in order with all other
 * messages of the host. PCIe has no such message (ATS invalidates translations only): it
 * corresponds to CXL.cache's SnpInv, without the answer for which a core would wait.
 */
export interface SnoopInvalidate {
  readonly kind: "snoop-invalidate";
  readonly address: number;
}

/** MSI-X: a posted write to the interrupt controller; ordered behind earlier memory writes. */
export interface Interrupt {
  readonly kind: "interrupt";
  readonly vector: number;
}

/** Posted write by a core into the device's BAR: a doorbell. At most 64 bytes. */
export interface RegisterWrite {
  readonly kind: "register-write";
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
  /**
   * Not on the bus: a note for observers. For a doorbell with the queue's number only: the newest
   * pointer in the host's view as it rang (Q-11, stale pointers). No digest has it.
   */
  readonly stored?: StampedPointer;
  /**
   * For a write into the card's memory: the number of the storing process, as in PCIe's
   * PASID prefix.
   */
  readonly by?: number;
}

/**
 * Non-posted read by a core of the device's BAR: of the card's memory (Q-03, `store: device`). Its
 * {@link Completion} has the same tag and passes no write that the device has sent before it
 * (P-03).
 */
export interface RegisterRead {
  readonly kind: "register-read";
  readonly tag: number;
  readonly offset: number;
  readonly length: number;
}

/**
 * Error message by the device: it has refused a core's store into its memory, which a rule of Q-04
 * forbids. The store was posted, so it has no completion. `by` as in {@link RegisterWrite};
 * `holder`: another process that has the lock of space 2.
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
 * ATS and PRI: an RNIC asks the host's IOMMU, not its driver, for pages and for their translations
 * (PCIe base specification 4.0, §10). An address is a region's key and the number of its page; a
 * message is about `count` pages from `first` on. `page-request` (RNIC): brings them, and
 * optionally `ahead` more; `write`: for a write. `page-response` (host): they are there.
 * `translate` (RNIC): asks for their place. `translated` (host): `frames`, in order, writable if
 * `write` is set; no frames: they are not there.
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
  /** For a page request: as in a `PAGE_FAULT`. */
  readonly hintsOf?: number;
}

export const ATS_STEPS = ["page-request", "page-response", "translate", "translated"] as const;

/** Control path, host to firmware (create a queue, register memory …). Answered by `reply`. */
export interface CommandMessage {
  readonly kind: "command";
  readonly id: number;
  readonly command: RnicCommand;
}

/** Control path, firmware to host. */
export interface ReplyMessage {
  readonly kind: "reply";
  readonly id: number;
  readonly reply: RnicReply;
}

/** Asynchronous event, firmware to host (a queue pair failed …). */
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

/** Largest payload of one transaction-layer packet on the modelled bus. */
export const MAX_PAYLOAD_BYTES = 256;
/**
 * Maximum read request size: PCIe's usual setting. A longer {@link MemoryRead} models several
 * requests that the host serves in parallel; their completions arrive as one message, with the last
 * byte.
 */
export const MAX_READ_REQUEST_BYTES = 512;
/** Framing, sequence number, header (4 DW) and LCRC of one TLP (PCIe base specification 3.0, §2–3). */
const TLP_OVERHEAD_BYTES = 26;
/** Size of every control message on the bus: one mailbox line. */
const CONTROL_BYTES = 64;

/** The prefix that names a process (PCIe base specification 4.0, §6.20). */
const PASID_BYTES = 4;

/** Number of read requests on the bus for a read of `length` bytes. */
export function readRequests(length: number): number {
  return length <= MAX_READ_REQUEST_BYTES ? 1 : Math.ceil(length / MAX_READ_REQUEST_BYTES);
}

/** Bytes of any message between an RNIC and its host on the coherent bus. */
export function coherentBusBytes(message: PcieMessage): number {
  if (message.kind === "coherent") return coherentWireBytes(message);
  return isRegionMessage(message) ? regionWireBytes(message) : COHERENT_CONTROL_BYTES;
}

/** Bytes of the message on the bus, with TLP overhead. */
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
 * A page request is a message for each page; a translation has 8 B, in a completion like a read's
 * data.
 */
function atsBytes({ step, count, ahead, frames }: AtsMessage): number {
  const header = TLP_OVERHEAD_BYTES + PASID_BYTES;
  if (step === "page-request") return header * (count + ahead);
  const bytes = 8 * frames.length;
  return step === "translated"
    ? bytes + TLP_OVERHEAD_BYTES * Math.max(1, Math.ceil(bytes / MAX_PAYLOAD_BYTES))
    : header;
}

/** The minimum size of a message: the serialisation part of the lookahead. */
export const LEAST_PCIE_BYTES = TLP_OVERHEAD_BYTES;
