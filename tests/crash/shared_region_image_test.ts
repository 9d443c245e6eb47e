/**
 * What the crash explorer takes a power failure of a shared region's home to leave is what a run with that power failure
 * leaves: in SCM, and in the card, whose local cache `wsp` keeps (decision 12 of the coherence protocol).
 */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { crashedHostOf, holdJournal } from "../../console/explore/crashed_host.ts";
import { instantsOf } from "../../console/explore/instants.ts";
import { faultsWith, victimOf } from "../../console/explore/post_crash_run.ts";
import { runRack } from "../../console/explore/rerun.ts";
import { leftOf } from "../../console/explore/survivors.ts";
import type { ExploredRack } from "../../console/explore/types.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import { connectToHome, exposeScm } from "../coherence/verbs_to_home.ts";
import { rackOf } from "./explored_rack.ts";

const AT = 2 ** 20, LINES = 3, BYTES = 64 * LINES;
/** Of the region and its directory in SCM, two bytes for each line. */
const UNTIL = AT + BYTES + 64;
const FROM = 150 * PS_PER_US,
  POSTED = FROM + 3 * PS_PER_US,
  DIES = 160 * PS_PER_US,
  BACK = 200 * PS_PER_US;

interface Scene {
  readonly domain: "wsp" | "eadr" | "adr";
  readonly directory: "card" | "memory";
  /** More of the region: sizes of tables. */
  readonly more?: string;
  readonly faults?: string;
}

const SCENARIO = ({ domain, directory, more = "", faults = "[]" }: Scene) => `
name: image
seed: 1
defaults: { services: none, attach: coherent, scm: { size: 2MiB } }
hosts: { a: { domain: ${domain} }, b: {}, c: {}, w: { attach: pcie } }
shared:
  - { name: s, home: a, far: [b, c], memory: scm, at: 1MiB, bytes: ${BYTES}, placement: local, lease: 20us, directory: ${directory}${more} }
programs: [ { on: all, program: ./image.ts, restart: true } ]
faults: ${faults}
until: 400us
`;

/** Far hosts store and flush, home loads and stores, and w writes over all lines with a WRITE. */
const PROGRAM: Program = function* (context) {
  const { cpu, device } = context;
  if (cpu.host === "w") {
    const { postSend, waitCompletion, sge, must } = device.verbs;
    yield* cpu.sleep(20 * PS_PER_US);
    const { qp, cq, mr, remote } = yield* connectToHome(context);
    for (let i = 0; i < 3; i++) {
      cpu.store(mr.address, new Uint8Array(BYTES).fill(0xe0 + i));
      if (i === 0) yield* cpu.sleep(POSTED - cpu.now);
      const sges = [sge(mr, 0, BYTES)];
      must(yield* postSend(qp, { opcode: "write", sges, remote, sendFlags: IBV_SEND_SIGNALED }));
      yield* waitCompletion(cq);
    }
    return;
  }
  if (cpu.host === "a") {
    yield* cpu.region("s");
    yield* exposeScm(context, { offset: AT, length: BYTES });
  }
  if (cpu.now < FROM) yield* cpu.sleep(FROM - cpu.now);
  const rng = rngFor(1, `accesses of ${cpu.host}`);
  for (let i = 1; i <= 12; i++) {
    const line = rng.below(LINES) * 64;
    try {
      yield* accessLine(cpu, line, i);
    } catch (error) {
      if (!/^Region(Lost|Fenced|Refused)$/.test((error as Error).name)) throw error;
      yield* cpu.sleep(20 * PS_PER_US);
    }
  }
};

function* accessLine(cpu: ProgramContext["cpu"], line: number, i: number): Steps<void> {
  const region = yield* cpu.region("s");
  const bytes = Uint8Array.of(cpu.host.charCodeAt(0), i);
  if (!region.isHome) {
    yield* region.store(line + (cpu.host === "b" ? 16 : 32), bytes);
    if (i % 4 === 0) yield* region.flush(line, 64);
    return;
  }
  yield* cpu.sleep(1_700_000);
  if (i % 3 === 0) yield* region.store(line + 8, bytes);
  else yield* region.load(line, 8);
}

function rackFor(scene: Scene): ExploredRack {
  return rackOf(SCENARIO(scene), { "./image.ts": { program: PROGRAM } });
}

interface Compared {
  readonly cuts: number;
  /** At so many of them the card keeps something; and that is so late. */
  readonly kept: number;
  readonly late: number;
  /** Lines that the local cache has dirty before an instant. */
  readonly cachedAt: (at: Time) => number;
}

/**
 * Compares with a run at the first and the last instants of spans in which nothing changes, `most` of them at most; and
 * the two ends of each span with each other.
 */
function compare(scene: Scene, most: number): Compared {
  const rack = rackFor(scene);
  const recording = runRack(rack, { histories: true });
  const victim = victimOf(rack.plan, "a");
  const crashed = crashedHostOf(recording, victim);
  const imageAt = (at: Time) => {
    crashed.cursor.moveTo(at);
    holdJournal(crashed, recording, at);
    return crashed.state.image.read(AT, UNTIL);
  };
  const rng = rngFor(3, "instants");
  const first = instantsOf(recording, { victims: [victim], runs: undefined, from: FROM });
  const share = Math.min(1, most / first.length);
  let cuts = 0, kept = 0, late = 0;
  for (const [i, at] of first.slice(0, -1).entries()) {
    const next = first[i + 1]!, from = imageAt(at), isKept = crashed.held.length > 0;
    const isTried = rng.below(1_000_000) < share * 1_000_000;
    const last = rng.below(2) === 0 ? next - 1 : at + rng.below(next - at);
    same(
      imageAt(last),
      from,
      `nothing changes from ${at} to ${next} ps, but it does at ${last} ps`,
    );
    if (!isTried) continue;
    for (const cut of new Set([at, last])) {
      const faults = faultsWith(rack.plan.faults, { hosts: ["a"], at: cut });
      const killed = runRack(rack, { faults });
      same(
        leftOf(killed, "a")!.read(AT, UNTIL),
        from,
        `${JSON.stringify(scene)}: cut at ${cut} ps`,
      );
    }
    cuts++;
    if (isKept) kept++;
    if (isKept && at > BACK) late++;
  }
  const caches = recording.held.get(victim.config.rnics[0]!)![0]!;
  return { cuts, kept, late, cachedAt: (at) => caches.cachedAt(at).length };
}

describe("the crash explorer's image of a shared region's home", () => {
  for (const directory of ["card", "memory"] as const) {
    it(`decision 12: wsp, directory in the ${directory}: is what a power failure leaves, in the card's caches, too`, () => {
      const { cuts, kept } = compare({ domain: "wsp", directory }, 80);
      ok(cuts > 60 && kept > 55, `${cuts} cuts, at ${kept} of them something is kept`);
    });

    it(`decision 12: wsp, directory in the ${directory}, tables of one line`, () => {
      const more = ", localCache: 1, writeBacks: 1";
      const { cuts, kept } = compare({ domain: "wsp", directory, more }, 40);
      ok(cuts > 25 && kept > 20, `${cuts} cuts, at ${kept} of them something is kept`);
    });

    it(`decision 12: wsp, directory in the ${directory}, behind an earlier failure of home`, () => {
      const faults = `[ { at: ${DIES / PS_PER_US}us, kill: a }, { at: ${
        BACK / PS_PER_US
      }us, start: a } ]`;
      const { cuts, kept, late, cachedAt } = compare({ domain: "wsp", directory, faults }, 50);
      ok(
        kept > 20 && late > 10,
        `${cuts} cuts, ${kept} with something kept, ${late} of a's return`,
      );
      ok(cachedAt(DIES) > 0, "it had something");
      equal(cachedAt(BACK), 0, "the next life begins with nothing");
    });

    for (const domain of ["adr", "eadr"] as const) {
      it(`decision 12: ${domain}, directory in the ${directory}: has nothing of the card's`, () => {
        const { cuts, kept } = compare({ domain, directory }, 30);
        ok(cuts > 20, `${cuts} cuts`);
        equal(kept, 0);
      });
    }
  }
});
