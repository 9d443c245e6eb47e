/**
 * Messages between an RNIC and its host: one per DMA request or completion, not one per bus packet
 * (the packets' overhead is in {@link pcieWireBytes}). A memory read must not complete before every
 * memory write sent ahead of it on the same link has completed (P-03); the host enforces that, the
 * link itself is a FIFO.
 */
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
   * The data is taken when everything written there before has reached the medium: a read-back is to see
   * the cells and not a queue in front of them (V-03, V-08).
   */
  readonly medium?: true;
}

/** Answer to a {@link MemoryRead}. `data` is empty unless `status` is `success`. */
export interface Completion {
  readonly kind: "completion";
  readonly tag: number;
  readonly status: "success" | "unsupported-request";
  readonly data: Uint8Array<ArrayBuffer>;
}

/** MSI-X: a posted write to the interrupt controller; stays behind earlier memory writes. */
export interface Interrupt {
  readonly kind: "interrupt";
  readonly vector: number;
}

/** Posted write by a core into the device's BAR: a doorbell. At most 64 bytes. */
export interface RegisterWrite {
  readonly kind: "register-write";
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

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
  | Interrupt
  | RegisterWrite
  | CommandMessage
  | ReplyMessage
  | EventMessage;

/** Largest payload of one transaction-layer packet on the modelled bus. */
export const MAX_PAYLOAD_BYTES = 256;
/**
 * Largest read request: PCIe's usual setting. A longer {@link MemoryRead} is several requests that the
 * host serves side by side; their completions arrive as one message, with the last byte.
 */
export const MAX_READ_REQUEST_BYTES = 512;
/** Framing, sequence number, header (4 DW) and LCRC of one TLP (PCIe base specification 3.0, §2–3). */
const TLP_OVERHEAD_BYTES = 26;
/** Size that a control message is given on the bus, whatever it carries: a mailbox line. */
const CONTROL_BYTES = 64;

/** Read requests of the bus that a read of `length` bytes takes. */
export function readRequests(length: number): number {
  return length <= MAX_READ_REQUEST_BYTES ? 1 : Math.ceil(length / MAX_READ_REQUEST_BYTES);
}

/** Bytes that the message takes on the bus, packet overhead included. */
export function pcieWireBytes(message: PcieMessage): number {
  switch (message.kind) {
    case "memory-write":
    case "completion": {
      const bytes = message.data.length;
      return bytes + TLP_OVERHEAD_BYTES * Math.max(1, Math.ceil(bytes / MAX_PAYLOAD_BYTES));
    }
    case "register-write":
      return message.data.length + TLP_OVERHEAD_BYTES;
    case "memory-read":
      return TLP_OVERHEAD_BYTES * readRequests(message.length);
    case "interrupt":
      return TLP_OVERHEAD_BYTES + 4;
    case "command":
    case "reply":
    case "event":
      return CONTROL_BYTES + TLP_OVERHEAD_BYTES;
  }
}

/** The fewest bytes that any message takes: the part of lookahead that is serialisation. */
export const LEAST_PCIE_BYTES = TLP_OVERHEAD_BYTES;
