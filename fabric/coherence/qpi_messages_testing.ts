/**
 * QPI's messages, and which of them the protocol's bus messages are (C-02). Names and classes: Intel, Xeon Processor
 * E5-2600 Product Family Uncore Performance Monitoring Guide (327043-001), 2.10 "Packet Matching Reference", and the
 * same section of 329468-002; UPI keeps them, apart from what home snoop makes needless (decision 3).
 *
 * The document trims the protocol layer to what the card needs [0044]: {@link NOT_CONVERTED} says of each message
 * that is left out why it never becomes one of InfiniBand's. `bus_conversion_testing.ts` has those that do.
 */
import type { BusKind } from "../wire/host_bus/region_messages.ts";

/** By class: home requests and responses, snoops, answers without and with data, non-coherent bypass and standard. */
export const QPI_CLASSES = {
  HOM0: [
    "RdCur",
    "RdCode",
    "RdData",
    "RdDataMigratory",
    "NonSnpRd",
    "RdInvOwn",
    "InvXtoI",
    "EvctCln",
    "NonSnpWr",
    "InvItoE",
    "AckCnflt",
    "AckCnfltWbI",
    "WbMtoI",
    "WbMtoE",
    "WbMtoS",
  ],
  HOM1: [
    "RspI",
    "RspS",
    "RspCnflt",
    "RspCnfltOwn",
    "RspCnfltWbI",
    "RspFwd",
    "RspFwdI",
    "RspFwdS",
    "RspIWb",
    "RspSWb",
    "RspFwdIWb",
    "RspFwdSWb",
  ],
  SNP: [
    "SnpCur",
    "SnpCode",
    "SnpData",
    "SnpInvOwn",
    "SnpInvXtoI",
    "SnpInvItoE",
    "PrefetchHint",
  ],
  NDR: [
    "Gnt_Cmp",
    "Gnt_FrcAckCnflt",
    "Cmp",
    "CmpD",
    "AbortTO",
    "FrcAckCnflt",
    "Cmp_FwdCode",
    "Cmp_FwdInvOwn",
    "Cmp_FwdInvItoE",
  ],
  DRS: [
    "DataC_M",
    "DataC_E",
    "DataC_F",
    "DataC_S",
    "DataC_I",
    "DataC_FrcAckCnflt",
    "DataC_E_Cmp",
    "DataC_S_Cmp",
    "DataNc",
    "WbIData",
    "WbSData",
    "WbEData",
    "WbIDataPtl",
    "WbEDataPtl",
    "NonSnpWrData",
    "NonSnpWrDataPtl",
  ],
  NCB: [
    "NcWr",
    "NcWrPtl",
    "WcWr",
    "WcWrPtl",
    "NcMsgB",
    "IntLogical",
    "IntPhysical",
    "IntPrioUpd",
    "NcP2PB",
    "DebugData",
  ],
  NCS: [
    "NcRd",
    "NcRdPtl",
    "NcMsgS",
    "NcIORd",
    "NcIOWr",
    "NcCfgRd",
    "NcCfgWr",
    "NcLTRd",
    "NcLTWr",
    "NcP2PS",
    "IntAck",
    "FERR",
  ],
} as const;
export type QpiMessage = typeof QPI_CLASSES[keyof typeof QPI_CLASSES][number];

/** What a far host's core says to its card, and the card to it: `FarAccess`, `FarAnswer`, `FarInvalidate`. */
export const CORE_MESSAGES = [
  "load",
  "own",
  "store",
  "flush",
  "answer",
  "invalidate",
] as const;
export type CoreMessage = typeof CORE_MESSAGES[number];

export interface QpiForm {
  /** The packets that it is, one after the other; where several stand for a choice, `why` says which is when. */
  readonly packets: readonly QpiMessage[];
  readonly why: string;
}

/** Of each message of the protocol on a bus, the packets of QPI that it stands for. */
export const QPI_FORMS: Readonly<Record<BusKind | `core:${CoreMessage}`, QpiForm>> = {
  // ── home's bus: coherent (C-06: "coherent request to the CPU") ──
  RdData: {
    packets: ["RdData"],
    why: "decision 10: a read gets S; QPI would let the home choose E",
  },
  RdInvOwn: {
    packets: ["RdInvOwn"],
    why: "decision 8: an upgrade carries data always, so no InvItoE",
  },
  WbMtoI: {
    packets: ["WbMtoI", "WbIData"],
    why: "C-09: what was M reaches memory; nothing is kept",
  },
  WbMtoS: {
    packets: ["WbMtoS", "WbSData"],
    why: "decision 11: memory has it before a reader does; the last owner keeps S",
  },
  WbMtoE: {
    packets: ["WbMtoE", "WbEData"],
    why: "decision 11: memory has it before the next owner does; the card keeps its right",
  },
  BusFlush: {
    packets: ["InvXtoI"],
    why:
      "decision 12: QPI's only request that cleans a line everywhere; LLC's clean copy stays here",
  },
  BusDirty: {
    packets: ["NcMsgB"],
    why:
      "[0060] asks for a notice of E → M, which QPI makes in silence; bypass, as none waits for it",
  },
  RspI: {
    packets: ["RspI", "RspIWb", "WbIData"],
    why: "C-08: the first alone, or, of a line that was lent exclusively, the others",
  },
  RspS: {
    packets: ["RspS", "RspSWb", "WbSData"],
    why: "C-08: the first alone, or, of a line that was lent exclusively, the others",
  },
  GrantS: {
    packets: ["DataC_S_Cmp"],
    why: "[0058]: a response with data, S as shared was asked for",
  },
  GrantE: {
    packets: ["DataC_E_Cmp"],
    why: "[0058]: a response with data, E as exclusive was asked for",
  },
  Cmp: { packets: ["Cmp"], why: "decision 12: the memory controller has accepted the write-back" },
  SnpInv: { packets: ["SnpInvOwn"], why: "C-08: home's core stores; what is dirty comes along" },
  SnpData: { packets: ["SnpData"], why: "C-08: home's core loads, or cleans a line" },

  // ── a far host's bus: non-coherent ([0057], [0063]) ──
  "core:load": {
    packets: ["NcRd"],
    why: "[0057]: a non-coherent request; the far LLC keeps no copy",
  },
  "core:own": {
    packets: ["NcRdPtl"],
    why:
      "[0058] knows exclusive requests; QPI has no non-coherent one, so a form of it that is free here",
  },
  "core:store": {
    packets: ["NcWr", "NcWrPtl", "NcMsgS"],
    why: "decision 15: a whole line; bytes by a mask; an atomic, whose old value is awaited",
  },
  "core:flush": {
    packets: ["NcMsgS"],
    why: "decision 12: it is awaited, and names lines, not bytes",
  },
  "core:answer": {
    packets: ["DataNc", "Cmp", "AbortTO"],
    why:
      "[0059], [0065]: read data; a write-done; a lease that is over, as a time-out (decision 13)",
  },
  "core:invalidate": {
    packets: ["NcMsgB"],
    why: "decision 19: a load that waits for a change wakes; bypass, as none waits for it",
  },
};

const DMA =
  "[0048]: ordinary DMA on the card's own bus: bytes cross as an RDMA operation's payload, the message never";
const CONFLICT =
  "decision 3: home snoop, one transaction per line at a time: there are no conflicts";
const FORWARD =
  "decision 11: dirty data never pass between caches, each recall reaches memory first";
const LEGACY =
  "C-01: neither I/O space nor configuration nor the processor's debugging is behind this card";

/** Why a message never becomes one of InfiniBand's, nor comes of one. */
export const NOT_CONVERTED: Readonly<Partial<Record<QpiMessage, string>>> = {
  RdCur: DMA,
  RdCode: DMA,
  RdDataMigratory: FORWARD,
  NonSnpRd: "C-09: what a core has dirty would be passed over",
  EvctCln:
    "C-07: S is evicted in silence, E goes home by WbMtoI, as it may be M by then (decision 10)",
  NonSnpWr: "C-09: copies in caches would stay as they were",
  InvItoE: DMA,
  AckCnflt: CONFLICT,
  AckCnfltWbI: CONFLICT,
  RspCnflt: CONFLICT,
  RspCnfltOwn: CONFLICT,
  RspCnfltWbI: CONFLICT,
  RspFwd: FORWARD,
  RspFwdI: FORWARD,
  RspFwdS: FORWARD,
  RspFwdIWb: FORWARD,
  RspFwdSWb: FORWARD,
  SnpCur: "decision 6: other agents' reads of region lines are served by the host agent's SnpData",
  SnpCode: "decision 2: an instruction fetch is a load for the host agent, which snoops by SnpData",
  SnpInvXtoI: "decision 12: home's `clwb` recalls by SnpData; nothing else flushes a line",
  SnpInvItoE:
    "decision 8: a store without the line's content still recalls what is dirty, by SnpInvOwn",
  PrefetchHint: "[0053]: copies follow accesses; a hint moves nothing between computers",
  Gnt_Cmp: DMA,
  Gnt_FrcAckCnflt: CONFLICT,
  CmpD: "C-03: it answers reads of interrupts and configuration, which are in no region",
  FrcAckCnflt: CONFLICT,
  Cmp_FwdCode: FORWARD,
  Cmp_FwdInvOwn: FORWARD,
  Cmp_FwdInvItoE: FORWARD,
  DataC_M: FORWARD,
  DataC_E: "decision 3: home snoop answers with data and completion in one packet (DataC_E_Cmp)",
  DataC_F: "C-05: the states are M, E, S and I; F is QPI's own",
  DataC_S: "decision 3: home snoop answers with data and completion in one packet (DataC_S_Cmp)",
  DataC_I: DMA,
  DataC_FrcAckCnflt: CONFLICT,
  WbIDataPtl: "C-09: a copy is a whole line; masks go by Write, to where E or M is",
  WbEDataPtl: "C-09: a copy is a whole line; masks go by Write, to where E or M is",
  NonSnpWrData: "C-09: copies in caches would stay as they were",
  NonSnpWrDataPtl: "C-09: copies in caches would stay as they were",
  WcWr:
    "decision 16: accesses to regions are sequentially consistent; write combining would reorder them",
  WcWrPtl:
    "decision 16: accesses to regions are sequentially consistent; write combining would reorder them",
  IntLogical:
    "[0048]: completions of verbs interrupt the card's own host; the other card decides on its own",
  IntPhysical:
    "[0048]: completions of verbs interrupt the card's own host; the other card decides on its own",
  IntPrioUpd: LEGACY,
  NcP2PB: "C-01: the card is no bridge between devices of a bus",
  DebugData: LEGACY,
  NcIORd: LEGACY,
  NcIOWr: LEGACY,
  NcCfgRd: LEGACY,
  NcCfgWr: LEGACY,
  NcLTRd: LEGACY,
  NcLTWr: LEGACY,
  NcP2PS: "C-01: the card is no bridge between devices of a bus",
  IntAck: LEGACY,
  FERR: LEGACY,
};
