/**
 * Whole-system persistence (`wsp`, decision 12): what home's card has of its host's SCM when that host's power fails is
 * kept, wherever on its way it is: dirty in the local cache, given back, or on the bus as the answer to a snoop.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/build/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { heldFor, withHeld } from "../../console/rack/survived.ts";
import { recordOfShared } from "./shared_rack.ts";

const LINES = 2, AT = 2 ** 20, FROM = 100 * PS_PER_US, STORES = 16;

interface Cut {
  readonly domain: "wsp" | "eadr";
  readonly at?: Time;
  readonly starts?: boolean;
  readonly more?: string;
}

const SCENARIO = ({ domain, at, starts, more = "" }: Cut) => `
name: wsp
seed: 1
defaults: { services: none, attach: coherent, scm: { size: 2MiB } }
hosts: { a: { domain: ${domain} }, b: {} }
shared: [ { name: s, home: a, far: [b], memory: scm, at: 1MiB, bytes: 128, placement: local, lease: 20us${more} } ]
programs: [ { on: all, program: ./wsp.ts, restart: true } ]
faults:${at === undefined ? " []" : ""}
${at === undefined ? "" : `  - { at: ${at / 1000}ns, kill: a }`}
${starts ? `  - { at: 200us, start: a }` : ""}
until: 400us
`;

/** The far host counts up in each line; home looks at them now and then, and in its next life once. */
const PROGRAM: Program = function* ({ cpu }) {
  const region = yield* cpu.region("s");
  if (cpu.now > 190 * PS_PER_US) {
    for (let line = 0; line < LINES; line++) {
      const [found] = yield* region.load(64 * line, 1);
      cpu.report("found", { line, found });
    }
    return;
  }
  yield* cpu.sleep(FROM - cpu.now);
  for (let i = 1; i <= STORES; i++) {
    const line = i % LINES;
    if (region.isHome) {
      yield* cpu.sleep(2_300_000);
      yield* region.load(64 * line, 1);
    } else {
      yield* region.store(64 * line, Uint8Array.of(i));
      cpu.report("stored", { line, value: i, at: cpu.now });
    }
  }
};

function runOf(cut: Cut): RunRecord {
  const [variant] = variants(parseScenario(SCENARIO(cut), "wsp.yaml"));
  return recordOfShared({
    plan: makePlan(variant!),
    inputs: {},
    own: { "./wsp.ts": () => ({ program: PROGRAM }) },
  });
}

/** By line, what the far host knows to be stored before an instant. */
function storedBefore({ reports }: RunRecord, at: Time): number[] {
  const last = Array.from({ length: LINES }, () => 0);
  for (const { topic, value } of reports) {
    const stored = value as { line: number; value: number; at: Time };
    if (topic === "stored" && stored.at <= at) last[stored.line] = stored.value;
  }
  return last;
}

/** By line, what is in SCM, with what the card keeps for it. */
function survived({ scm, reports }: RunRecord): number[] {
  const image = withHeld(scm("a")!, heldFor("a", reports));
  return Array.from(
    { length: LINES },
    (_, line) => image.read(AT + 64 * line, AT + 64 * line + 1)[0]!,
  );
}

function foundAfter({ reports }: RunRecord): number[] {
  return reports.filter(({ topic }) => topic === "found")
    .map(({ value }) => (value as { found: number }).found);
}

/** Each instant at which a line changes its state in a cache, one before and one after it. */
function instants(): Time[] {
  const { notes } = runOf({ domain: "wsp" });
  const changes = notes.filter(({ time, note }) => time > FROM && note.kind === "line-state");
  return [...new Set(changes.flatMap(({ time }) => [time - 1, time + 1, time + 60_000]))].toSorted(
    (x, y) => x - y,
  );
}

describe("whole-system persistence of home's local cache", () => {
  const TABLES = { "as they are": "", "one line": ", localCache: 1, writeBacks: 1" };
  for (const [name, more] of Object.entries(TABLES)) {
    it(`decision 12: each store that was done survives, whenever the power fails, and home finds it: tables ${name}`, () => {
      const cuts = instants();
      assert.ok(cuts.length > 60, `${cuts.length} instants`);
      let kept = 0;
      for (const at of cuts) {
        const dead = runOf({ domain: "wsp", at, more });
        const stored = storedBefore(dead, at), left = survived(dead);
        for (const [line, value] of stored.entries()) {
          assert.ok(left[line]! >= value, `${at} ps: line ${line} has ${left[line]} of ${value}`);
          kept += value > 0 ? 1 : 0;
        }
        const back = runOf({ domain: "wsp", at, starts: true, more });
        assert.deepEqual(foundAfter(back).slice(0, LINES), left, `${at} ps`);
      }
      assert.ok(kept > 60, `${kept} lines had something to lose`);
    });
  }

  it("decision 12: eADR does not power the card", () => {
    assert.deepEqual(survived(runOf({ domain: "eadr", at: 102 * PS_PER_US })), [0, 0]);
  });
});
