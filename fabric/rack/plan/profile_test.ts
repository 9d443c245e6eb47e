/** Holds sums of a profile's parts (`profile_sums_testing.ts`) against what was measured end to end. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_NS, type Time } from "../../base/time.ts";
import { MAX_READ_REQUEST_BYTES } from "../../wire/host_bus/pcie.ts";
import { PROFILES } from "./profile.ts";
import {
  type Addends,
  bus,
  dmaRead,
  dmaWritePs,
  host,
  network,
  pingPongPs,
  readPs,
  rnic,
  sumOf,
  tor,
  writePs,
} from "./profile_sums_testing.ts";
import { hostProcessingPs, rnicProcessingPs } from "./processing.ts";

function assertBetween(ps: Time | Addends, [low, high]: readonly [lowNs: number, highNs: number]) {
  const ns = (typeof ps === "number" ? ps : sumOf(ps)) / PS_PER_NS;
  const parts = typeof ps === "number" ? "" : ps.map(([what, part]) => `\n${part} ps ${what}`);
  assert.ok(ns >= low && ns <= high, `${ns} ns is not in ${low}–${high} ns${parts}`);
}

describe("clx-optane-cx5, sums of its parts against measurements", () => {
  it("PCIe read of 64 B: 427–440 ns from the LLC, 480–520 ns from DRAM (Neugebauer)", () => {
    assertBetween(dmaRead(64, host.dmaReadLlcPs), [427, 440]);
    assertBetween(dmaRead(64, host.dmaReadDramPs), [480, 520]);
  });

  it("PCIe write then read of 64 B: 547–560 ns (Neugebauer)", () => {
    // The read follows at once: the write's latency on the bus is its own, too.
    const writePs = dmaWritePs(64) - bus.latencyPs;
    assertBetween(writePs + dmaRead(64, host.dmaReadLlcPs), [547, 560]);
  });

  it("store + clwb of a line to Optane: 62 ns (FAST'20)", () => {
    assert.equal(host.storePs + host.flushIssuePs + host.fencePs, 62 * PS_PER_NS);
  });

  it("loads of Optane: 305 ns at random, 169 ns one after the other, four lines a block (FAST'20)", () => {
    const randomPs = host.scmLoadPs + host.scmMediumPs;
    assert.equal(randomPs, 305 * PS_PER_NS);
    assertBetween((randomPs + 3 * host.scmLoadPs) / 4, [168, 170]);
  });

  it("six modules of Optane: reads 38–40 GB/s, writes 12.5–13.9 (FAST'20, ATC'21)", () => {
    const [read, write] = [host.scmReadBitsPerSecond, host.scmWriteBitsPerSecond]
      .map((bits) => host.memoryChannels * bits / 8e9);
    assert.ok(read! > 38 && read! < 40, `${read} GB/s`);
    assert.ok(write! > 12.5 && write! < 13.9, `${write} GB/s`);
  });

  it("store + clwb of a line after the other: 23.7 ns each (FAST'20, fig. 14)", () => {
    assertBetween(host.storePs + 512e12 / host.clwbStoredBitsPerSecond, [23.4, 24]);
  });

  it("RDMA WRITE of 64 B, post → CQE, one switch: 1.3 µs (SoCC'20), the WQE with its doorbell", () => {
    assertBetween(writePs(64, true), [1250, 1350]);
  });

  it("crossing the inline limit: +0.74 … +0.91 µs (perftest): the payload is fetched, the WQE is not", () => {
    assertBetween(sumOf(pingPongPs(221, false)) - sumOf(pingPongPs(220, true)), [740, 910]);
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

describe("clx-optane-fpga, against what was published", () => {
  const asic = PROFILES["clx-optane-cx5"], fpga = PROFILES["clx-optane-fpga"];
  const passage = ({ receivePs, schedulePs, sendPs }: typeof rnic) =>
    receivePs + schedulePs + sendPs;

  it("a cache or directory: 25 cycles (Gemieux) of 300 MHz (Enzian)", () => {
    assert.equal(fpga.rnic.lookUpPs, Math.round(25 * 1e6 / 300 / PS_PER_NS) * PS_PER_NS);
  });

  it("a SEND there and back: 2.14–2.32 µs (perftest), less than 2.7 of an FPGA (GROVF), by four passages", () => {
    const more = 4 * (passage(fpga.rnic) - passage(asic.rnic));
    assertBetween(more, [2700 - 2320, 2700 - 2140]);
  });

  it("the coherent bus: 512 bits (CCI-P) in a cycle of 300 MHz, and no faster than the ASIC's", () => {
    assert.equal(fpga.coherent.bus.bitsPerSecond, 512 * 300e6);
    assert.ok(fpga.coherent.bus.bitsPerSecond < asic.coherent.bus.bitsPerSecond);
  });

  it("differs in its card and that bus alone", () => {
    const { rnic: _, coherent: { bus: _bus, ...coherent }, ...rest } = fpga;
    const { rnic: _rnic, coherent: { bus: _own, ...its }, ...others } = asic;
    assert.deepEqual({ rest, coherent }, { rest: others, coherent: its });
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
