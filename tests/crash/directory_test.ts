/** P-41: the explorer cuts within the instant at which the directory's words become durable. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { crc32 } from "../../fabric/wire/roce/icrc.ts";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type Verdict } from "../../console/explore/types.ts";
import { rackOf } from "./explored_rack.ts";

/** Bytes of header and entries. Two entries of 256 B become durable at one instant where one store has both. */
const ENTRY = 128, OLD_SLOT = 2 * ENTRY, NEW_SLOT = 3 * ENTRY;
const BYTES = 64, OLD_AT = 70_000 * 8, NEW_AT = OLD_AT + 4096;

/** An entry of the directory, or its header. */
function entry(state: number, generation: number, at: number): Uint8Array {
  const bytes = new Uint8Array(ENTRY), view = new DataView(bytes.buffer);
  view.setUint32(4, state * 2 ** 30 + generation);
  view.setBigUint64(8, BigInt(at));
  view.setBigUint64(16, BigInt(BYTES));
  bytes.set([1, "x".charCodeAt(0)], 24);
  view.setUint32(0, crc32(bytes.subarray(4)));
  return bytes;
}

function header(): Uint8Array {
  const bytes = new Uint8Array(ENTRY), view = new DataView(bytes.buffer);
  view.setUint32(4, 0x5243_4b4d);
  view.setUint32(8, 1);
  return bytes;
}

/** Keeps a directory itself, and replaces an object; publishes the new one after or before it clears the old. */
function* replaces(
  { cpu }: ProgramContext,
  order: "clears first" | "publishes first",
): Steps<void> {
  const { address } = cpu.scm;
  function* write(id: number, at: number): Steps<void> {
    const bytes = new Uint8Array(BYTES).fill(id);
    cpu.note({ kind: "writes", id, on: "b", at, bytes });
    yield* cpu.ntStore(address + at, bytes);
    cpu.note({ kind: "visible", id });
    cpu.note({ kind: "persistent", id, promised: true });
  }
  const object = (state: "asked" | "stored", at: number) =>
    cpu.note({ kind: "object", state, name: "x", at, length: BYTES, complete: true });
  yield* cpu.ntStore(address, header());
  // A free entry before them.
  yield* cpu.ntStore(address + ENTRY, new Uint8Array(ENTRY).fill(1));
  yield* write(1, OLD_AT);
  object("asked", OLD_AT);
  yield* cpu.ntStore(address + OLD_SLOT, entry(0, 1, OLD_AT));
  object("stored", OLD_AT);
  yield* write(2, NEW_AT);
  yield* cpu.ntStore(address + NEW_SLOT, entry(1, 2, NEW_AT));
  object("asked", NEW_AT);
  const cleared = entry(0, 1, OLD_AT), published = entry(0, 2, NEW_AT).subarray(0, 8);
  cleared[0]! ^= 1;
  if (order === "clears first") {
    // In one store, so that both are there at one instant.
    yield* cpu.ntStore(address + OLD_SLOT, Uint8Array.from([...cleared, ...published]));
  } else {
    yield* cpu.ntStore(address + NEW_SLOT, published);
    yield* cpu.ntStore(address + OLD_SLOT, cleared.subarray(0, 8));
  }
  object("stored", NEW_AT);
}

async function verdictOf(
  domain: "adr" | "eadr",
  order: "clears first" | "publishes first",
): Promise<Verdict> {
  const text = `
name: directory
hosts:
  a: {}
  b: { domain: ${domain}, services: none, scm: { size: 1MiB } }
programs:
  - { on: b, program: ./replaces.ts }
`;
  const program = (context: ProgramContext) => replaces(context, order);
  const rack = rackOf(text, { "./replaces.ts": { program } });
  return await explore(rack, { ...EXPLORE_DEFAULTS, cut: { host: "b" } });
}

describe("P-41: a directory of which two words become durable at one instant", () => {
  it("is cut in between: the old object is gone before the new one is there", async () => {
    for (const domain of ["adr", "eadr"] as const) {
      const { verdict, why, counterexample } = await verdictOf(domain, "clears first");
      assert.equal(verdict, "unsafe", why);
      assert.match(counterexample!.found, /the object x is gone, though .* has stored it/);
      assert.equal(counterexample!.checker, "objects-are-whole");
    }
  });

  it("is safe in the right order, and nothing is left out", async () => {
    for (const domain of ["adr", "eadr"] as const) {
      const { verdict, why, bounded, counterexample } = await verdictOf(domain, "publishes first");
      assert.equal(verdict, "safe", why ?? counterexample?.found);
      assert.equal(bounded, 0);
    }
  });
});
