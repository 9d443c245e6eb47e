/**
 * Messages of the processor's coherent bus between an RNIC and its host (C-01, C-02), in place of
 * PCIe's memory reads and writes. Named as in QPI (Intel, An Introduction to the Intel QuickPath
 * Interconnect, 2009).
 *
 * A message is about up to {@link RUN_LINES} consecutive lines within 512 B: it stands for as many
 * messages of the bus, and has their bytes. Unlike PCIe the bus keeps no order between messages of
 * different classes, nor between lines: the card enforces order by waits (decision 5).
 *
 * They are ordinary DMA and leave nothing in the card's caches (decision 4). Lines of a shared
 * region belong to `fabric/coherence`.
 */
import { LINE_BYTES } from "../../base/cache_line.ts";
import type { Time } from "../../base/time.ts";
import { FLIT_BYTES } from "./flit.ts";
import type { StampedPointer } from "./queue_information.ts";

/**
 * Lines of one message: as many as one read request of PCIe, so that both buses have as many
 * events.
 */
export const RUN_LINES = 8;
export const RUN_BYTES = RUN_LINES * LINE_BYTES;

/**
 * `RdCur`: content now, no copy. `RdCode`: a copy in S, known to the host's snoop filter.
 * `InvItoE`: ownership without content, for a write that follows.
 */
export interface LineRequest {
  readonly kind: "coherent";
  readonly op: "RdCur" | "RdCode" | "InvItoE";
  readonly tag: number;
  readonly address: number;
  readonly lines: number;
  /**
   * `RdCur` only: the medium's content, not that of a queue in front of it (V-03, V-08). QPI has no
   * such bit.
   */
  readonly medium?: true;
}

/** `state` is that of the card's copy, I for none. */
export interface LineData {
  readonly kind: "coherent";
  readonly op: "DataC";
  readonly tag: number;
  readonly address: number;
  readonly state: "I" | "S";
  readonly data: Uint8Array<ArrayBuffer>;
}

/**
 * Write-back of bytes of owned lines, masked within lines: `WbMtoI` gives ownership back, `WbMtoE`
 * keeps it for a following write. `toMemory` is the flow bit (P-02, decision 4): past the LLC into
 * the iMC. QPI has no push with such a bit; CXL.cache has similar ones (ItoMWr, WrCur).
 */
export interface LineWrite {
  readonly kind: "coherent";
  readonly op: "WbMtoI" | "WbMtoE";
  readonly tag: number;
  readonly address: number;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly toMemory: boolean;
  /** Not on the bus, in no digest: when the card's port took the write. */
  readonly takenAt?: Time;
}

/**
 * For `lines` lines. `GntE`: the card owns them (QPI: Gnt_Cmp). `Cmp`: a write has reached the end
 * of its flow, visible to all, and under flow 1 in the persistence domain. `FailedCmp`: absent
 * lines, or a refusal of the host's IOMMU (QPI: Cmp with response status failed). `RspI`: the
 * card's copy is gone.
 */
export interface LineAnswer {
  readonly kind: "coherent";
  readonly op: "GntE" | "Cmp" | "FailedCmp" | "RspI";
  readonly tag: number;
  readonly address: number;
  readonly lines: number;
}

export interface LineSnoop {
  readonly kind: "coherent";
  readonly op: "SnpInv";
  readonly address: number;
}

export interface NonCoherentRead {
  readonly kind: "coherent";
  readonly op: "NcRd";
  readonly tag: number;
  readonly offset: number;
  readonly length: number;
}

export interface NonCoherentData {
  readonly kind: "coherent";
  readonly op: "DataNc";
  readonly tag: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

/** A doorbell, at most a line; `stored` and `by` as in `RegisterWrite`. */
export interface NonCoherentWrite {
  readonly kind: "coherent";
  readonly op: "NcWr";
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly stored?: StampedPointer;
  readonly by?: number;
}

/** Names a core by its number, as MSI-X does here, not by a logical destination (`IntLogical`). */
export interface InterruptMessage {
  readonly kind: "coherent";
  readonly op: "IntPhysical";
  readonly vector: number;
}

export type CoherentMessage =
  | LineRequest
  | LineData
  | LineWrite
  | LineAnswer
  | LineSnoop
  | NonCoherentRead
  | NonCoherentData
  | NonCoherentWrite
  | InterruptMessage;

const DATA_FLITS = 8;
const HEADER_FLITS = 1, MASKED_HEADER_FLITS = 3;

/** The serialisation part of the lookahead. */
export const LEAST_COHERENT_BYTES = FLIT_BYTES * HEADER_FLITS;

export function coherentWireBytes(message: CoherentMessage): number {
  return FLIT_BYTES * flitsOf(message);
}

/** Commands and other messages of PCIe travel as non-coherent ones with a line of content. */
export const COHERENT_CONTROL_BYTES = FLIT_BYTES * (MASKED_HEADER_FLITS + DATA_FLITS);

function flitsOf(message: CoherentMessage): number {
  switch (message.op) {
    case "RdCur":
    case "RdCode":
    case "InvItoE":
    case "GntE":
    case "Cmp":
    case "FailedCmp":
    case "RspI":
      return HEADER_FLITS * message.lines;
    case "DataC":
      return (HEADER_FLITS + DATA_FLITS) * (message.data.length / LINE_BYTES);
    case "WbMtoI":
    case "WbMtoE":
      return writeFlits(message.address, message.data.length);
    case "SnpInv":
      return HEADER_FLITS;
    case "NcRd":
      return message.length === LINE_BYTES ? HEADER_FLITS : MASKED_HEADER_FLITS;
    case "DataNc":
      return HEADER_FLITS + DATA_FLITS * linesOf(0, message.data.length);
    case "NcWr":
      return DATA_FLITS +
        (message.data.length === LINE_BYTES ? HEADER_FLITS : MASKED_HEADER_FLITS);
    case "IntPhysical":
      return MASKED_HEADER_FLITS + DATA_FLITS;
  }
}

export function writeFlits(address: number, length: number): number {
  const lines = linesOf(address, length);
  const first = address % LINE_BYTES, last = (address + length) % LINE_BYTES;
  const parts = lines === 1
    ? Number(length < LINE_BYTES)
    : Number(first !== 0) + Number(last !== 0);
  return lines * (HEADER_FLITS + DATA_FLITS) + parts * (MASKED_HEADER_FLITS - HEADER_FLITS);
}

export function isLineWrite(message: { readonly kind: string }): message is LineWrite {
  const { kind, op } = message as { readonly kind: string; readonly op?: unknown };
  return kind === "coherent" && (op === "WbMtoI" || op === "WbMtoE");
}

export function linesOf(address: number, length: number): number {
  return length === 0
    ? 0
    : Math.floor((address + length - 1) / LINE_BYTES) - Math.floor(address / LINE_BYTES) + 1;
}
