/**
 * The log of a host's memory over the whole rack: keeping one changes nothing of the run, and what it
 * says of any instant is what a power failure at that instant leaves.
 */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import type { Time } from "../../fabric/base/time.ts";
import { LogBook } from "../../nodes/host/memory/memory_log_testing.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SCM_BYTES = 1 << 20;
const FILE = "data.bin";
const INPUTS = { [FILE]: Uint8Array.from({ length: 5000 }, (_, i) => i % 251 + 1) };
/** A cache of 8 KiB, so that lines of SCM leave it by themselves. */
const SMALL_LLC = "llc: { size: 8KiB, ways: 4, ddioWays: 2 }";
const HOSTS = [
  "ddio: off",
  `ddio: on, ${SMALL_LLC}`,
  `ddio: on, ${SMALL_LLC.replace("}", ", evict: random }")}`,
  "ddio: on, domain: eadr",
  "ddio: on, domain: wsp",
  "ddio: off, domain: wsp",
];

function scenario(method: string, hostB: string, faults = "[]"): string {
  return `
name: memory-log
seed: 5
hosts: { a: {}, b: { scm: { size: 1MiB }, ${hostB} } }
programs:
  - { on: a, run: put, to: b, file: ${FILE}, method: ${method}, size: 1000, depth: 2 }
faults: ${faults}
`;
}

/** A run that is logged: the rack, and what b's log says. */
function logged(text: string): { rack: SimulatedRack; book: LogBook } {
  const book = new LogBook(SCM_BYTES);
  const memoryLog = (host: string) => host === "b" ? book : undefined;
  const rack = new SimulatedRack(text, { inputs: INPUTS, memoryLog }).run();
  equal(rack.reported("program-ended", "a").length, 1, JSON.stringify(rack.reports));
  return { rack, book };
}

/** What a power failure at `at` leaves, by the log: what was durable before. */
function imageAt(book: LogBook, at: Time): Uint8Array {
  const image = new Uint8Array(SCM_BYTES);
  for (const { at: since, offset, bytes } of book.durables) {
    if (since < at) image.set(bytes, offset);
  }
  return image;
}

describe("MemoryLog of a rack", () => {
  for (const [i, method] of METHODS.entries()) {
    it(`P-05 (in part): keeping one changes nothing of the run: ${method}`, () => {
      // Of every method half of the hosts, of every host half of the methods.
      for (const hostB of HOSTS.filter((_, place) => (place + i) % 2 === 0)) {
        const text = scenario(method, hostB);
        const { rack, book } = logged(text);
        const plain = new SimulatedRack(text, { inputs: INPUTS }).run();
        equal(rack.simulator.digest, plain.simulator.digest, hostB);
        same(rack.scm.get("b"), plain.scm.get("b"), hostB);
        same(book.image, plain.scm.get("b"), "and it has all that survives");
        ok(book.durables.length > 0);
        if (hostB.includes("domain")) equal(book.dirtyLines.size, 0);
      }
    });
  }

  for (const hostB of HOSTS) {
    it(`P-05: says of every instant what a power failure of b then leaves: ${hostB}`, () => {
      for (const method of ["write-send", "persist-address"]) {
        const { book } = logged(scenario(method, hostB));
        const rng = rngFor(1, `${method} ${hostB}`);
        for (let i = 0; i < 3; i++) {
          const entry = book.durables[Math.floor(rng.unit() * book.durables.length)]!;
          for (const at of [entry.at, entry.at + 1]) {
            const faults = `[{ at: ${at}ps, kill: b }]`;
            const killed = new SimulatedRack(scenario(method, hostB, faults), { inputs: INPUTS })
              .run();
            same(killed.scm.get("b"), imageAt(book, at), `${method}, killed at ${at} ps`);
          }
        }
      }
    });
  }
});
