/**
 * Refusals in words, for the responder's own report and ladder: the wire carries the syndrome alone
 * (`rocev2.md` §1.4).
 */
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { formatSize } from "../../../fabric/rack/plan/units.ts";
import type { Device } from "../state/device.ts";
import { needOf } from "../state/operation.ts";
import { isFirst, MESSAGE_BYTES_MAX } from "../state/psn.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import type { OpenMessage, RecvWqe, RequestIn } from "../state/responder_state.ts";
import type { Region } from "../state/memory.ts";
import { findRegion, refusedBy } from "../dma/memory_region.ts";

export type Check = "sequence" | "permission" | "length" | "execution";

export interface Refusal {
  readonly check: Check;
  readonly syndrome: number;
  readonly input: RequestIn;
  readonly open: OpenMessage | undefined;
  readonly granted: RecvWqe | undefined;
}

/** `RDMA WRITE of 64 B at VA 0x7f00, rkey 0x1234: the region has no remote write; …` */
export function refusalText(device: Device, qp: QueuePair, refusal: Refusal): string {
  return `${requestText(refusal)}: ${reasonOf(device, qp, refusal)}`;
}

function reasonOf(device: Device, qp: QueuePair, refusal: Refusal): string {
  switch (refusal.check) {
    case "sequence":
      return sequenceReason(refusal);
    case "permission":
      return permissionReason(qp, refusal.input);
    case "length":
      return lengthReason(qp, refusal);
    case "execution":
      return executionReason(device, qp, refusal);
  }
}

function requestText({ input: { row, packet }, open }: Refusal): string {
  const { reth, atomicEth } = packet;
  const place = atomicEth ?? reth;
  // Only a message's first packet has an address.
  if (place === undefined) {
    const of = open === undefined ? "" : ` of a message of ${open.length} B`;
    return `${row.name} with ${packet.payload.length} B${of}`;
  }
  const bytes = reth?.length ?? ATOMIC_BYTES;
  return `${row.name} of ${bytes} B at VA ${hex(place.va)}, rkey ${hex(place.rkey)}`;
}

function sequenceReason({ input: { row }, open }: Refusal): string {
  if (open === undefined) return `no message is coming in that a ${row.position} packet continues`;
  const is = isFirst(row) ? "begins another message" : "continues another operation";
  return `it ${is}, and ${open.length - open.received} B of a ${open.operation.name} are to come`;
}

function permissionReason(qp: QueuePair, input: RequestIn): string {
  const need = needOf(input);
  if (need === undefined) return "its placement or selectivity type is not defined";
  const { attributes: { accessFlags, maxDestRdAtomic } } = qp;
  if (!permits(qp, need)) {
    const lacking = rightsText(need & ~accessFlags);
    return `queue pair ${qp.qpn} does not permit ${lacking}: it permits ${rightsText(accessFlags)}`;
  }
  return `max_dest_rd_atomic is ${maxDestRdAtomic}, and as many READs and atomics are outstanding`;
}

function lengthReason(qp: QueuePair, { input: { row, packet, operation }, open }: Refusal): string {
  const announced = packet.reth?.length ?? open?.length ?? 0;
  if (announced > MESSAGE_BYTES_MAX) return `a message has at most ${MESSAGE_BYTES_MAX} B`;
  if (operation.length === "word") return `it has to have ${ATOMIC_BYTES} B`;
  const received = (open?.received ?? 0) + packet.payload.length;
  return `a ${row.position} packet brings ${packet.payload.length} B, so that ${received} B of ` +
    `${announced} B are here, with a path MTU of ${qp.attributes.pathMtu} B`;
}

function executionReason(device: Device, qp: QueuePair, refusal: Refusal): string {
  const { input: { packet, operation }, syndrome } = refusal;
  if (syndrome === NAK_SYNDROMES["invalid-request"]) return invalidReason(qp, refusal);
  if (operation.takesRecv === "first") {
    return "the memory of the receive cannot be written: its completion says why";
  }
  const place = packet.atomicEth ?? packet.reth;
  if (place === undefined) return "its region was deregistered while the message came in";
  const { va, rkey } = place;
  const length = packet.reth?.length ?? ATOMIC_BYTES;
  return accessReason(device, qp, { key: rkey, va, length, need: needOf(refusal.input) ?? 0 });
}

function invalidReason(qp: QueuePair, { input, open, granted }: Refusal): string {
  switch (input.operation.invalid) {
    case "the receive": {
      const room = open?.length ?? payloadBytes(granted?.sges ?? []);
      return `the message is longer than the ${room} B of the receive`;
    }
    case "the alignment":
      return `the address of an atomic is a multiple of ${ATOMIC_BYTES}, in a zero-based window too`;
    case "the verification": {
      const wantsRight = input.packet.verifyEth?.persist === true &&
        !permits(qp, ACCESS.remoteWritePersistence);
      return wantsRight
        ? `queue pair ${qp.qpn} does not permit ${rightsText(ACCESS.remoteWritePersistence)}`
        : "its verification level is not known here, or not for this length";
    }
    case undefined:
      return "it asks for what there is not";
  }
}

function accessReason(
  { regions }: Device,
  qp: QueuePair,
  range: {
    readonly key: number;
    readonly va: bigint;
    readonly length: number;
    readonly need: number;
  },
): string {
  const { key, length, need } = range;
  const va = Number(range.va);
  const region = findRegion(regions, key);
  if (region === undefined) return "the rkey is the key of no region and no bound window";
  const what = region.window === undefined ? "region" : "window";
  const is = `the ${what} is ${formatSize(region.length)} at ${hex(BigInt(region.va))}, ` +
    `with ${rightsText(region.access)}`;
  switch (refusedBy(regions, { key, pd: qp.pd, va, length, need, qpn: qp.qpn })) {
    case "window":
      return `the window is of type 2, and bound by another queue pair than ${qp.qpn}`;
    case "domain":
      return `the ${what} belongs to another protection domain than queue pair ${qp.qpn}; ${is}`;
    case "right":
      return `the ${what} has no ${rightsText(need & ~region.access)}; ${is}`;
    case "range":
      return `${outsideText(region, { va, length })}; ${is}`;
    default:
      // P-21, V-09: the only demand beyond the flags.
      return `what is to be persistent lies in memory that is not; ${is}`;
  }
}

function payloadBytes(sges: RecvWqe["sges"]): number {
  return sges.reduce((sum, { length }) => sum + length, 0);
}

function outsideText(
  region: Region,
  { va, length }: { readonly va: number; readonly length: number },
): string {
  const before = Math.min(length, Math.max(0, region.va - va));
  const behind = Math.min(length, Math.max(0, va + length - region.va - region.length));
  if (before > 0) return `${before} B of it lie before the region`;
  return `${behind} B of it lie behind the end`;
}

const RIGHT_NAMES: Readonly<Record<keyof typeof ACCESS, string>> = {
  localWrite: "local write",
  remoteWrite: "remote write",
  remoteRead: "remote read",
  remoteAtomic: "remote atomic",
  mwBind: "memory window bind",
  zeroBased: "zero-based addresses",
  onDemand: "on-demand pages",
  flushGlobal: "flush to global visibility",
  flushPersistent: "flush to persistence",
  relaxedOrdering: "relaxed ordering",
  remoteWriteVerify: "verified write",
  remoteWritePersistence: "remote write persistence",
};

function rightsText(flags: number): string {
  const names = (Object.keys(ACCESS) as (keyof typeof ACCESS)[])
    .filter((name) => (flags & ACCESS[name]) !== 0);
  return names.length === 0 ? "nothing" : names.map((name) => RIGHT_NAMES[name]).join(", ");
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}
