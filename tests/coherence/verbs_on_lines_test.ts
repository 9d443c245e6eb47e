/** Verbs on lines of shared regions: the judge knows what they do there, and no program has to note it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { loads } from "../../console/checks/shared/loads.ts";
import { persistence } from "../../console/checks/persistence.ts";
import { PS_PER_S, PS_PER_US } from "../../fabric/base/time.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { connectToHome, exposeScm } from "./verbs_to_home.ts";

const LINES = 3, BYTES = LINES * 64;

/** Home exposes the region's memory. */
const home: Program = function* (context) {
  const { cpu, device } = context;
  const { postRecv, sge, must } = device.verbs;
  const region = yield* cpu.region("s");
  const { qp, mr } = yield* exposeScm(context, { offset: 4096, length: BYTES });
  // A SEND's bytes go to the region too.
  for (let i = 0; i < 8; i++) must(yield* postRecv(qp, { sges: [sge(mr, 0, 80)] }));
  yield* cpu.sleep(PS_PER_US);
  yield* region.load(0, BYTES);
  // Its end takes the connection with it.
  yield* cpu.sleep(PS_PER_S / 200);
};

/** Loads, stores and atomics of a far host's cores. */
const far: Program = function* ({ cpu }) {
  const region = yield* cpu.region("s"), rng = rngFor(3, cpu.host);
  yield* cpu.sleep(300 * PS_PER_US - cpu.now);
  for (let i = 0; i < 30; i++) {
    const word = 8 * rng.below(BYTES / 8);
    const kind = rng.below(3);
    if (kind === 0) yield* region.store(word, new Uint8Array(8).fill(rng.below(256)));
    else if (kind === 1) yield* region.fetchAdd(word, 1n);
    else yield* region.load(word, 8);
    yield* cpu.sleep(rng.below(PS_PER_US));
  }
  cpu.report("end", cpu.host);
};

/** The same by verbs, from a host without a coherent card. */
function* verbs(context: ProgramContext): Steps<void> {
  const { cpu, device } = context;
  const { postSend, waitCompletion, sge, must } = device.verbs;
  const rng = rngFor(4, cpu.host);
  const { qp, cq, mr, remote: { va, rkey } } = yield* connectToHome(context);
  yield* cpu.sleep(300 * PS_PER_US - cpu.now);
  let sends = 0;
  for (let i = 0; i < 30; i++) {
    cpu.store(mr.address, new Uint8Array(100).fill(rng.below(256)));
    const at = rng.below(BYTES - 100), word = at - at % 8;
    const length = 1 + rng.below(100);
    const remote = { va: va + at, rkey };
    const atomic = { swapAdd: 7n, compare: 0n };
    const aligned = { remote: { va: va + word, rkey }, atomic };
    const work = [
      { opcode: "write", sges: [sge(mr, 0, length)], remote },
      { opcode: "read", sges: [sge(mr, 200, length)], remote },
      { opcode: "fetch-add", sges: [sge(mr, 400, 8)], ...aligned },
      { opcode: "compare-swap", sges: [sge(mr, 400, 8)], ...aligned },
      ...sends < 8 ? [{ opcode: "send", sges: [sge(mr, 0, 80)] }] as const : [],
    ] as const;
    const chosen = work[rng.below(work.length)]!;
    if (chosen.opcode === "send") sends++;
    must(yield* postSend(qp, { ...chosen, sendFlags: IBV_SEND_SIGNALED }));
    const [done] = yield* waitCompletion(cq);
    assert.equal(done!.status, "SUCCESS", done!.reason);
  }
  cpu.report("end", cpu.host);
}

function rackOf(placement: string, more = ""): SimulatedRack {
  return new SimulatedRack(
    `
name: verbs-on-lines
defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }
hosts: { a: {}, b: {}, c: {}, d: { attach: pcie } }
shared: [{ name: s, home: a, far: [b, c], memory: scm, at: 4KiB, bytes: ${BYTES}, placement: ${placement}${more} }]
programs:
  - { on: a, run: ./home.ts }
  - { on: [b, c], run: ./far.ts }
  - { on: d, run: ./verbs.ts, at: 100us }
`,
    { programs: { "./home.ts": home, "./far.ts": far, "./verbs.ts": verbs } },
  ).run(PS_PER_S / 100);
}

describe("verbs on lines of a shared region", () => {
  for (const placement of ["local", "remote", "auto"]) {
    for (const more of ["", ", localCache: 1, remoteCache: 1, slots: 1"]) {
      it(`are judged with the cores' accesses, and accused of nothing: ${placement}${more}`, () => {
        // The run is held to every promise.
        const rack = rackOf(placement, more);
        assert.deepEqual(rack.reported("program-failed"), []);
        assert.deepEqual(rack.reported("end").map(String).sort(), ["b", "c", "d"]);
      });
    }
  }

  it("are found to be wrong where a READ, an atomic or SCM has what nobody left", () => {
    const record = rackOf("local").record(PS_PER_S / 100);
    assert.deepEqual([...loads.check(record), ...persistence.check(record)], []);
    const seen = record.notes.flatMap(({ by, note }, i) =>
      by.endsWith("/dma") && note.kind === "accessed" && note.bytes !== undefined ? [i] : []
    );
    assert.ok(seen.length > 8, `${seen.length}`);
    for (const i of seen) {
      const timed = record.notes[i]!, { note } = timed;
      assert.ok(note.kind === "accessed" && note.bytes !== undefined);
      const bytes = note.bytes.map((byte) => byte ^ 0x55);
      const notes = record.notes.with(i, { ...timed, note: { ...note, bytes } });
      assert.notEqual(loads.check({ ...record, notes }).length, 0, `${i}`);
    }
    const unnoted = record.notes.filter(({ by }) => !by.endsWith("/dma"));
    assert.notEqual(loads.check({ ...record, notes: unnoted }).length, 0);
  });
});
