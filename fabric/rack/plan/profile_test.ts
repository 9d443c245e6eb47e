/**
 * Adds a profile's parts up along the path of an operation and holds the sum against what was
 * measured end to end. The path is written down here once more, independent of the models: a test of
 * the whole rack then separates a wrong model from a wrong constant.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createLink, transmit } from "../../link/link.ts";
import type { Message } from "../../node.ts";
import { PS_PER_NS, type Time, transferTime } from "../../base/time.ts";
import {
  MAX_PAYLOAD_BYTES,
  MAX_READ_REQUEST_BYTES,
  type MemoryWrite,
  pcieWireBytes,
} from "../../wire/host_bus/pcie.ts";
import { PROFILES } from "./profile.ts";
import { hostProcessingPs, rnicProcessingPs } from "./processing.ts";

const { host, rnic, bus, network, switch: tor } = PROFILES["clx-optane-cx5"];

/** Captured bytes beside the payload: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; RETH, AETH. */
const FRAME_OVERHEAD = 58, RETH = 16, AETH = 4;

function overBus(message: Message): Time {
  return transmit(createLink({ ...bus, kind: "bus", headOnly: false }), 0, message).arrival;
}

function write(bytes: number): MemoryWrite {
  return { kind: "memory-write", address: 0, data: new Uint8Array(bytes), noSnoop: false };
}

/** Round trip of a DMA read, however the RNIC asks: in requests of `MAX_READ_REQUEST_BYTES` each. */
function dmaRead(bytes: number, hostPs: Time): Time {
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

/** From a post of one WQE of so many lines to the doorbell in the RNIC: WQE, pointer, then MMIO. */
function post(wqeLines: number): Time {
  const doorbell: Message = { kind: "register-write", offset: 0, data: new Uint8Array(16) };
  return host.postPs + (wqeLines + 1) * host.storePs + host.mmioPs + overBus(doorbell);
}

function leaveIio(bytes: number): Time {
  return transferTime(bytes, host.iioBitsPerSecond);
}

/** From the RNIC's CQE to the program: the bus, the IIO, then the look that finds it and one more. */
const cqePs = overBus(write(64)) + host.iioPs + leaveIio(64) + 2 * (host.pollPs + host.llcHitPs);
const wqeFetchPs = rnic.schedulePs + dmaRead(64, host.dmaReadLlcPs);
const messagePs = rnic.sendPs + rnic.receivePs;

function onBusPs(bytes: number): Time {
  return transferTime(pcieWireBytes(write(bytes)), bus.bitsPerSecond);
}

/** A WRITE whose payload and WQE travel with the doorbell. The ACK leaves behind the data's DMA. */
function inlineWritePs(bytes: number): Time {
  const request = overNetwork(FRAME_OVERHEAD + RETH + bytes, "switch");
  const ack = overNetwork(FRAME_OVERHEAD + AETH, "switch");
  return post(2) + host.llcHitPs + rnic.schedulePs + 2 * messagePs + request + onBusPs(bytes) +
    ack +
    cqePs;
}

function readPs(bytes: number): Time {
  const request = overNetwork(FRAME_OVERHEAD + RETH, "direct");
  const response = overNetwork(FRAME_OVERHEAD + AETH + bytes, "direct");
  return post(1) + wqeFetchPs + rnic.schedulePs + 2 * messagePs + request + rnic.schedulePs +
    dmaRead(bytes, host.dmaReadDramPs) + response + onBusPs(bytes) + leaveIio(bytes) + cqePs;
}

function assertBetween(ps: Time, [low, high]: readonly [lowNs: number, highNs: number]): void {
  const ns = ps / PS_PER_NS;
  assert.ok(ns >= low && ns <= high, `${ns} ns is not in ${low}–${high} ns`);
}

describe("clx-optane-cx5, sums of its parts against measurements", () => {
  it("PCIe read of 64 B: 427–440 ns from the LLC, 480–520 ns from DRAM (Neugebauer)", () => {
    assertBetween(dmaRead(64, host.dmaReadLlcPs), [427, 440]);
    assertBetween(dmaRead(64, host.dmaReadDramPs), [480, 520]);
  });

  it("PCIe write then read of 64 B: 547–560 ns (Neugebauer)", () => {
    const writePs = onBusPs(64) + host.iioPs + leaveIio(64);
    assertBetween(writePs + dmaRead(64, host.dmaReadLlcPs), [547, 560]);
  });

  it("store + clwb of a line to Optane: 62 ns (FAST'20)", () => {
    assert.equal(host.storePs + host.flushIssuePs + host.fencePs, 62 * PS_PER_NS);
  });

  it("RDMA WRITE of 64 B, post → CQE, one switch: 1.3 µs (SoCC'20), the WQE in the doorbell", () => {
    assertBetween(inlineWritePs(64), [1250, 1350]);
  });

  it("crossing the inline limit: +0.74 … +0.91 µs (perftest): the WQE is fetched, then its payload", () => {
    const payloadFetchPs = rnic.schedulePs + dmaRead(256, host.dmaReadLlcPs);
    assertBetween(wqeFetchPs + payloadFetchPs - 4 * host.llcHitPs, [740, 910]);
  });

  it("READ of DRAM, direct cable: 256 B 1.86–1.99 µs, 1 KiB 1.98–2.17, 4 KiB 2.79–2.97 (RPMA)", () => {
    assertBetween(readPs(256), [1860, 1990]);
    assertBetween(readPs(1024), [1980, 2170]);
    assertBetween(readPs(4096), [2790, 2970]);
  });

  it("large READs: about 87 Gb/s (RPMA), by the DMA reads in flight", () => {
    const bits = 8 * rnic.dmaReadBytes * rnic.dmaReadsMax;
    const gbps = bits / (dmaRead(rnic.dmaReadBytes, host.dmaReadDramPs) / PS_PER_NS);
    assert.ok(Math.abs(gbps - 87) < 4, `${gbps} Gb/s`);
  });

  it("WRITEs: what is fetched for them keeps up with the port, whatever the path MTU (perftest)", () => {
    for (const mtu of [256, 512, 1024, 2048, 4096]) {
      const bits = 8 * Math.min(mtu, MAX_READ_REQUEST_BYTES) * rnic.gatherReadsMax;
      const gbps = bits / (dmaRead(mtu, host.dmaReadDramPs) / PS_PER_NS);
      assert.ok(gbps > network.bitsPerSecond / 1e9, `${gbps} Gb/s at a path MTU of ${mtu}`);
    }
  });

  it("one switch crossing: 150–400 ns (SoCC'20)", () => {
    assertBetween(tor.latencyPs, [150, 400]);
  });

  it("registration of a page: about 5 µs (NSDI'20)", () => {
    assert.equal(host.commandPs + rnic.commandPs, 5000 * PS_PER_NS);
  });
});

describe("PROFILES", () => {
  it("give every device a processing delay > 0: it is part of the lookahead", () => {
    for (const profile of Object.values(PROFILES)) {
      assert.ok(hostProcessingPs(profile.host) > 0 && rnicProcessingPs(profile.rnic) > 0);
      assert.ok(profile.switch.latencyPs > 0);
    }
  });

  it("hold whole picoseconds and whole sets of cache lines", () => {
    for (const { host, rnic, llc } of Object.values(PROFILES)) {
      for (const [name, value] of [...Object.entries(host), ...Object.entries(rnic)]) {
        assert.ok(Number.isSafeInteger(value) && value > 0, name);
      }
      assert.ok(Number.isInteger(llc.bytes / (64 * llc.ways)) && llc.ddioWays < llc.ways);
    }
  });
});
