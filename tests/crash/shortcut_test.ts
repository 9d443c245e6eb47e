/**
 * What the crash explorer takes as known without running the rack again is what a run shows: what a power
 * failure at an instant leaves, and what the others are told after it.
 */
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import type { Time } from "../../fabric/base/time.ts";
import {
  faultsWith,
  PostCrashRuns,
  type Victim,
  victimOf,
} from "../../console/explore/post_crash_run.ts";
import { crashedHostOf, holdJournal } from "../../console/explore/crashed_host.ts";
import { CrashCursor, Pages } from "../../console/explore/history.ts";
import { instantsOf } from "../../console/explore/instants.ts";
import { type RackRun, runRack } from "../../console/explore/rerun.ts";
import type { ExploredRack } from "../../console/explore/types.ts";
import { type PutOf, putRack } from "./explored_rack.ts";

/** Everything at once that a cable may do to frames, without a number of its own in time. */
const BAD_CABLES =
  "[{ link: b, loss: 5% }, { link: a, reorder: 5%, by: 2, hold: 20us }, { link: tor->b-rnic, duplicate: 10% }]";

const CASES: readonly (PutOf & { readonly name: string })[] = [
  { name: "write-only, DDIO on", method: "write-only", ddio: "on" },
  { name: "write-read, DDIO off", method: "write-read", ddio: "off" },
  { name: "send-flush, DDIO off", method: "send-flush", ddio: "off" },
  { name: "write-send, DDIO on", method: "write-send", ddio: "on" },
  { name: "persist-opcode, DDIO off", method: "persist-opcode", ddio: "off" },
  { name: "persist-address, DDIO on", method: "persist-address", ddio: "on" },
  {
    name: "write-flush, DDIO on, eADR",
    method: "write-flush",
    ddio: "on",
    hostB: ", domain: eadr",
  },
  {
    name: "persist-opcode, DDIO on, bad cables",
    method: "persist-opcode",
    ddio: "on",
    bytes: 600,
    depth: 3,
    faults: BAD_CABLES,
  },
];

interface Scene {
  readonly rack: ExploredRack;
  readonly recording: RackRun;
  readonly victim: Victim;
  readonly runs: PostCrashRuns;
}

function sceneOf(of: PutOf): Scene {
  const rack = putRack(of);
  const recording = runRack(rack, { histories: true });
  const victim = victimOf(rack.plan, "b");
  const runs = new PostCrashRuns(rack, { recording, victim }, { histories: false, keep: 0 });
  return { rack, recording, victim, runs };
}

/** From the first message's post to the last thing that is said: where it is about something. */
function windowOf({ recording }: Scene): { from: Time; until: Time } {
  const from = recording.notes.find(({ note }) => note.kind === "writes")!.time;
  return { from, until: recording.notes.findLast(({ node }) => node === "a")!.time + 2 };
}

/** First and last instants of all spans in which nothing changes, and a few within them. */
function instantsIn(scene: Scene, seed: number): Time[] {
  const { recording, victim, runs } = scene;
  const { from, until } = windowOf(scene);
  const first = instantsOf(recording, { victims: [victim], runs, from, until });
  const rng = rngFor(seed, "instants");
  const within = first.slice(1).flatMap((at, i) => {
    const span = at - first[i]!;
    return i % 3 === 0 && span > 2 ? [first[i]! + 1 + rng.below(span - 1)] : [];
  });
  return [...new Set([...first, ...first.map((at) => at - 1), ...within])].filter((at) => at > 0)
    .sort((x, y) => x - y);
}

describe("the crash explorer's shortcut", () => {
  for (const [seed, { name, ...of }] of CASES.entries()) {
    it(`P-05, P-41: is what a power failure at that instant does: ${name}`, () => {
      const scene = sceneOf(of);
      const { rack, recording, victim, runs } = scene;
      const cursor = new CrashCursor(recording.histories.get("b")!.entries, new Pages());
      const instants = instantsIn(scene, seed);
      ok(instants.length > 20, `${instants.length} instants`);
      for (const at of instants) {
        cursor.moveTo(at);
        const faults = faultsWith(rack.plan.faults, { hosts: ["b"], at });
        const killed = runRack(rack, { faults });
        equal(killed.scm.get("b")!.firstDifference(cursor.image), undefined, `SCM at ${at}`);
        const { reports, notes, cutAt } = runs.at(at);
        const isOthers = ({ node }: { node: string }) =>
          node !== "b" && !victim.config.rnics.includes(node);
        const what = `power fails at ${at}, derived from ${cutAt}`;
        same(killed.reports.filter(isOthers), reports, what);
        same(killed.notes.filter(isOthers), notes, what);
      }
      ok(runs.count < instants.length / 3, `${runs.count} runs`);
    });
  }

  it("P-05: wsp: has what the card keeps for its host, and what the host gets when it is back", () => {
    for (const ddio of ["off", "on"] as const) {
      const scene = sceneOf({ method: "write-only", ddio, bytes: 600, hostB: ", domain: wsp" });
      const { rack, recording, victim } = scene;
      const object = recording.notes.flatMap(({ note }) => note.kind === "writes" ? [note.at] : []);
      const crashed = crashedHostOf(recording, victim);
      let held = 0;
      for (const at of instantsIn(scene, 7)) {
        crashed.cursor.moveTo(at);
        holdJournal(crashed, recording, at);
        held += crashed.held.length;
        const faults = faultsWith(rack.plan.faults, { hosts: ["b"], at });
        const back = { at: at + 1e12, action: "start", node: "b" } as const;
        const again = runRack(rack, { faults: [...faults, back] }).scm.get("b")!;
        const [from, to] = [object[0]!, object[0]! + 600];
        same(
          again.read(from, to),
          crashed.state.image.read(from, to),
          `DDIO ${ddio}, cut at ${at} ps`,
        );
      }
      ok(held > 0, "the card keeps something at some instant");
    }
  });

  it("P-41: hears more, the later the power fails: an ACK under way at the failure is told after it", () => {
    const scene = sceneOf({ method: "write-only", ddio: "off" });
    const { recording, victim, runs } = scene;
    const { from, until } = windowOf(scene);
    let frames = -1;
    let late = 0;
    for (const at of instantsOf(recording, { victims: [victim], runs, from, until })) {
      const after = runs.at(at);
      ok(after.frames >= frames, "what was sent stays sent");
      frames = after.frames;
      const persistent = after.notes.find(({ note }) => note.kind === "persistent");
      if (persistent !== undefined && persistent.time > at) late++;
    }
    ok(late > 0);
    // The card learns of the failure later than it happens, and answers until then.
    const [sent] = recording.sendings.get("b-rnic")!.frames.slice(-1);
    const justInTime = sent! - victim.noticePs + 1;
    equal(runs.framesBy(justInTime), runs.framesBy(justInTime - 1) + 1);
  });

  it("names a program that keeps something from run to run", () => {
    let runs = 0;
    const rack = putRack({ method: "write-only", ddio: "off" });
    const plan = {
      ...rack.plan,
      nodes: rack.plan.nodes.map((node) => {
        if (node.kind !== "host" || node.name !== "a") return node;
        const own = { run: "./forgetful.ts", at: 0, service: false, options: {} };
        return { ...node, config: { ...node.config, programs: [own] } };
      }),
    };
    // deno-lint-ignore require-yield -- it only reports
    const program = function* ({ cpu }: ProgramContext): Steps<void> {
      cpu.report(runs++ === 0 ? "first" : "again", {});
    };
    const own = { ...rack, plan, own: { "./forgetful.ts": () => ({ program }) } };
    const recording = runRack(own, { histories: true });
    const victim = victimOf(plan, "b");
    const postCrash = new PostCrashRuns(own, { recording, victim }, { histories: false, keep: 0 });
    let message = "";
    try {
      postCrash.at(recording.endPs);
    } catch (error) {
      message = (error as Error).message;
    }
    ok(/a reported "first".*keeps something outside/.test(message), message);
  });
});
