/** Caches of one line: what comes and goes within one step of a card is noted, so that every access is judged. */
import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const HOSTS = ["a", "b", "c", "d"] as const;

/** Each host goes through lines of its own, at the same instants as the others. */
function through(access: (region: Region, offset: number) => Steps<unknown>): Program {
  return function* ({ cpu }) {
    const region = yield* cpu.region("s");
    const me = HOSTS.indexOf(cpu.host as typeof HOSTS[number]);
    yield* cpu.sleep(100 * PS_PER_US - cpu.now);
    for (let i = 0; i < 12; i++) yield* access(region, (HOSTS.length * i + me) * 64);
    cpu.report("end", {});
  };
}

const ACCESSES: Readonly<Record<string, (region: Region, offset: number) => Steps<unknown>>> = {
  loads: (region, offset) => region.load(offset, 8),
  stores: (region, offset) => region.store(offset, new Uint8Array(8).fill(offset / 64 + 1)),
  adds: (region, offset) => region.fetchAdd(offset, 1n),
  *"stores and loads"(region, offset) {
    yield* region.store(offset, new Uint8Array(8).fill(3));
    yield* region.load(offset, 8);
  },
};

describe("caches of one line", () => {
  for (const placement of ["local", "remote", "auto"]) {
    for (
      const sizes of ["localCache: 1", "remoteCache: 1", "localCache: 1, remoteCache: 1, slots: 1"]
    ) {
      it(`${placement}, ${sizes}: every access of a correct run is judged, and right`, () => {
        for (const [name, access] of Object.entries(ACCESSES)) {
          const rack = new SimulatedRack(
            `
name: small
defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }
hosts: { a: {}, b: {}, c: {}, d: {} }
shared: [{ name: s, home: a, far: [b, c, d], memory: dram, bytes: 4KiB, placement: ${placement}, ${sizes} }]
programs: [{ on: all, run: ./p.ts }]
`,
            { programs: { "./p.ts": through(access) } },
            // The run is held to every promise: `single-writer-or-readers` says `unchecked` of a line without a state.
          ).run();
          assert.equal(rack.reported("end").length, HOSTS.length, name);
        }
      });
    }
  }
});
