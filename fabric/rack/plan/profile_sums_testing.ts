/**
 * For tests: a profile's parts added up along the path of an operation, one addend for each thing that
 * happens. `profile_test.ts` holds the sums against what was measured end to end, a test of the whole
 * rack against what a run takes: that separates a wrong model from a wrong constant.
 */
import { createLink, transmit } from "../../link/link.ts";
import type { Message } from "../../node.ts";
import { type Time, transferTime } from "../../base/time.ts";
import { encodeBlueFlame } from "../../wire/host_bus/blue_flame.ts";
import {
  MAX_PAYLOAD_BYTES,
  MAX_READ_REQUEST_BYTES,
  type MemoryWrite,
  pcieWireBytes,
} from "../../wire/host_bus/pcie.ts";
import { PROFILES } from "./profile.ts";

export const { host, rnic, bus, network, switch: tor } = PROFILES["clx-optane-cx5"];

/** Captured bytes beside the payload: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; RETH, AETH. */
const FRAME_OVERHEAD = 58, RETH = 16, AETH = 4;
const LINE = 64;

/** What happens on the way, each with its time; where that comes from says `profile.ts`. */
export type Addends = readonly (readonly [what: string, ps: Time])[];

export function sumOf(addends: Addends): Time {
  return addends.reduce((sum, [, ps]) => sum + ps, 0);
}

function overBus(message: Message): Time {
  return transmit(createLink({ ...bus, kind: "bus", headOnly: false }), 0, message).arrival;
}

function write(bytes: number): MemoryWrite {
  return { kind: "memory-write", address: 0, data: new Uint8Array(bytes), noSnoop: false };
}

/** Round trip of a DMA read, however the RNIC asks: in requests of `MAX_READ_REQUEST_BYTES` each. */
export function dmaRead(bytes: number, hostPs: Time): Time {
  const request = overBus({
    kind: "memory-read",
    tag: 0,
    address: 0,
    length: bytes,
    noSnoop: false,
  });
  const first = Math.min(bytes, MAX_READ_REQUEST_BYTES);
  const linesPs = transferTime(Math.max(0, first - 64), host.dmaReadBitsPerSecond);
  const packets = Math.ceil(bytes / MAX_PAYLOAD_BYTES);
  const completionBytes = packets * pcieWireBytes({
        kind: "completion",
        tag: 0,
        status: "success",
        data: new Uint8Array(0),
      }) + bytes;
  const completion = transferTime(completionBytes, bus.bitsPerSecond) + bus.latencyPs;
  return request + hostPs + linesPs + completion;
}

function overNetwork(captured: number, path: "direct" | "switch"): Time {
  const frame: Message = { kind: "frame", bytes: new Uint8Array(captured) };
  const headOnly = path === "switch";
  const link = transmit(createLink({ ...network, kind: "network", headOnly }), 0, frame);
  if (path === "direct") return link.arrival;
  const last = createLink({ ...network, kind: "network", headOnly: false });
  return transmit(last, link.arrival + tor.latencyPs, frame).arrival;
}

/** A core's access to so many bytes: the first line at full latency, the further ones at a tenth. */
function lines(bytes: number, ps: Time): Time {
  return ps + (Math.ceil(bytes / LINE) - 1) * ps / 10;
}

/** Bytes of a WQE, whole segments: control, remote address, then data or one element. */
function wqeBytes(inlineBytes: number | undefined): number {
  return 32 + (inlineBytes === undefined ? 16 : Math.ceil((4 + inlineBytes) / 16) * 16);
}

/**
 * From a post of one WQE to where the RNIC has it. The driver fills the ring and space 3, then stores
 * WQE and doorbell into write-combined lines and fences (BlueFlame); a longer WQE is rung for and fetched.
 */
function post(inlineBytes?: number): Addends {
  const bytes = wqeBytes(inlineBytes);
  const filled: Addends = [
    ["core: build and post", host.postPs],
    ["core: store the WQE", lines(bytes, host.storePs)],
    ["core: store the write pointer", host.storePs],
  ];
  const doorbell = { queue: 1, write: { pointer: 1, stamp: 1 } };
  const stored = encodeBlueFlame(doorbell, new Uint8Array(bytes), 0).bytes.length / LINE;
  const line: Message = { kind: "register-write", offset: 0, data: new Uint8Array(LINE) };
  const behind = (stored - 1) * transferTime(pcieWireBytes(line), bus.bitsPerSecond);
  return [
    ...filled,
    ["core: store WQE and doorbell into write-combined lines", stored * host.storePs],
    ["core: fence", host.mmioPs],
    ["bus: these lines", overBus(line) + behind],
    ["RNIC: scheduling", rnic.schedulePs],
  ];
}

function leaveIio(bytes: number): Time {
  return transferTime(bytes, host.iioBitsPerSecond);
}

function onBusPs(bytes: number): Time {
  return transferTime(pcieWireBytes(write(bytes)), bus.bitsPerSecond);
}

/** From a DMA write of the RNIC to where a core sees it. */
export function dmaWritePs(bytes: number): Time {
  return overBus(write(bytes)) + host.iioPs + leaveIio(bytes);
}

/** A look of the core at a completion queue. */
const lookPs = host.pollPs + host.llcHitPs;

/** The RNIC fetches data by a key: the DMA read, and its own part. */
function dataReadPs(bytes: number, hostPs: Time): Time {
  return dmaRead(bytes, hostPs) + rnic.schedulePs + rnic.dataReadPs;
}

/** The payload of a WRITE, from the program's memory to the RNIC. */
function payload(bytes: number, isInline: boolean): Addends {
  return isInline
    ? [["core: load the payload", lines(bytes, host.llcHitPs)], ...post(bytes)]
    : [...post(), ["RNIC: fetch the payload", dataReadPs(bytes, host.dmaReadLlcPs)]];
}

type Path = "direct" | "switch";

function frame(what: string, captured: number, path: Path): Addends {
  return [
    [`RNIC: send ${what}`, rnic.sendPs],
    [`network: ${what}`, overNetwork(captured, path)],
    [`RNIC: receive ${what}`, rnic.receivePs],
  ];
}

/** A WRITE, post → CQE taken. The ACK leaves when the bus has the data. */
export function writePs(bytes: number, isInline: boolean, path: Path = "switch"): Addends {
  return [
    ...payload(bytes, isInline),
    ...frame("the request", FRAME_OVERHEAD + RETH + bytes, path),
    ["bus: the data, ahead of the ACK", onBusPs(bytes)],
    ...frame("the ACK", FRAME_OVERHEAD + AETH, path),
    ["bus and IIO: the CQE", dmaWritePs(LINE)],
    ["core: the look that finds it, and one more", 2 * lookPs],
  ];
}

/** A READ of DRAM, or of data that the LLC has, into DRAM, post → CQE taken. */
export function readPs(
  bytes: number,
  path: Path = "direct",
  placePs: number = host.dmaReadDramPs,
): Addends {
  return [
    ...post(),
    ...frame("the request", FRAME_OVERHEAD + RETH, path),
    ["RNIC: read the data", dataReadPs(bytes, placePs)],
    ...frame("the response", FRAME_OVERHEAD + AETH + bytes, path),
    ["bus and IIO: the data", onBusPs(bytes) + leaveIio(bytes)],
    ["bus and IIO: the CQE", dmaWritePs(LINE)],
    ["core: the look that finds it, and one more", 2 * lookPs],
  ];
}

/**
 * Half of a WRITE ping-pong, as `ib_write_lat` prints it: from the post to where the peer has seen the
 * last byte. An end takes the completion of its own WRITE while the peer's is under way.
 */
export function pingPongPs(bytes: number, isInline: boolean): Addends {
  return [
    ["core: mark the last byte", host.storePs],
    ...payload(bytes, isInline),
    ...frame("the request", FRAME_OVERHEAD + RETH + bytes, "switch"),
    ["bus and IIO: the data", dmaWritePs(bytes)],
    ["core: the load that finds it", host.llcHitPs],
  ];
}
