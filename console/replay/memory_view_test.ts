import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { TimedRecord } from "../../fabric/audit.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { victimOf } from "../explore/post_crash_run.ts";
import { HostMemory } from "./host_memory.ts";
import { Landing, MemoryRecord } from "./memory_record.ts";
import { lossOf } from "./memory_view.ts";
import type { Recording } from "./recording.ts";
import type { Loss } from "../api/replay.ts";

const LINE = 4096, AT = 50;
const filled = (value: number) => new Uint8Array(64).fill(value);

const PLAN = makePlan(
  variants(parseScenario("name: v\nhosts: { a: {}, b: {}, c: {} }\n", "v.yaml"))[0]!,
);
const NEVER_TOLD = { visibleAt: Infinity, claimedAt: Infinity, promisedAt: Infinity };

/** What a power cut of these devices loses of b's memory; nothing else is written. */
function lossOfB(
  record: MemoryRecord,
  { nodes = ["b"], notes = [] }: {
    readonly nodes?: readonly string[];
    readonly notes?: readonly TimedRecord[];
  },
): Loss {
  const lives = new Map(PLAN.nodes.map(({ name }) => [name, [{ from: 0, to: Infinity }]]));
  const memory = new Map(["a", "b", "c"].map((host) => {
    return [host, host === "b" ? record : new MemoryRecord()];
  }));
  const recording = { job: { plan: PLAN }, notes, lives, memory } as unknown as Recording;
  return lossOf(recording, { at: AT, nodes }, (host) => {
    const { config, noticePs } = victimOf(PLAN, host);
    const place = { config, noticePs, lives: lives.get(host)!, at: AT };
    return new HostMemory(memory.get(host)!, place);
  });
}

/** What a power cut of b loses where something else has come over a promised write. @param freed when b gave it back. */
function lossWith({ freed }: { readonly freed?: number }): Loss {
  const by = "a/0/put#0";
  const notes = [
    {
      time: 10,
      node: "a",
      by,
      note: { kind: "writes", id: 1, on: "b", at: LINE, bytes: filled(7) },
    },
    { time: 20, node: "a", by, note: { kind: "persistent", id: 1, promised: true } },
    ...(freed === undefined
      ? []
      : [{ time: freed, node: "b", by: "b/0/d#0", note: { kind: "freed", at: LINE, length: 64 } }]),
  ] as unknown as TimedRecord[];
  const record = new MemoryRecord();
  record.declare({
    ...{ by, id: 1, node: "a", on: "b", landing: new Landing(LINE, filled(7)), issuedAt: 10 },
    ...{ ...NEVER_TOLD, visibleAt: 20, promisedAt: 20 },
  });
  record.durable(15, LINE, filled(7));
  record.durable(40, LINE, filled(8));
  record.dirty(45, LINE, filled(9));
  return lossOfB(record, { notes });
}

it("lossOf: a promise is broken where its bytes are gone, and none where their memory was given back", () => {
  const { broken, lostBytes, byPlace } = lossWith({});
  same(broken.map(({ host, from, to }) => [host, from, to]), [["b", LINE, LINE + 64]]);
  same([lostBytes, byPlace.llc], [64, 64]);
  same(lossWith({ freed: 30 }).broken, []);
  equal(
    lossWith({ freed: AT }).broken.length,
    1,
    "at the instant itself: the power cut is before it",
  );
});

it("lossOf: a cut takes what the devices that it takes hold, and what is on its way from them or to them", () => {
  const record = new MemoryRecord();
  const at = (place: number) => LINE + 64 * place;
  const pass = (place: number, times: { cardAt: number; busAt: number; arrivesAt: number }) =>
    record.pass({
      ...{ landing: new Landing(at(place), filled(place)), card: "b-rnic" },
      ...{ sentAt: times.cardAt, ...times },
    });
  pass(1, { cardAt: 40, busAt: 60, arrivesAt: 70 });
  pass(2, { cardAt: 40, busAt: 45, arrivesAt: 70 });
  record.dirty(45, at(3), filled(3));
  for (const [place, node] of [[4, "a"], [5, "c"]] as const) {
    const of = { by: `${node}/0/p#0`, id: 1, node, on: "b", issuedAt: 45 };
    record.declare({ ...of, landing: new Landing(at(place), filled(place)), ...NEVER_TOLD });
  }
  const lost = (...nodes: string[]) => {
    const { lost, byPlace, lostBytes } = lossOfB(record, { nodes });
    equal(lostBytes, lost.reduce((sum, { from, to }) => sum + to - from, 0));
    equal(lostBytes, Object.values(byPlace).reduce((sum, bytes) => sum + bytes, 0));
    return lost.map(({ place, from }) => `${(from - LINE) / 64} ${place}`).join(", ");
  };
  const all = "1 card, 2 bus, 3 llc, 4 in-flight, 5 in-flight";
  equal(lost("b"), all);
  equal(lost("b", "b-rnic", "a"), all);
  equal(lost("b-rnic"), "1 card, 4 in-flight, 5 in-flight", "its host keeps the bus and its cache");
  equal(lost("a"), "4 in-flight");
  equal(lost("a-rnic"), "4 in-flight");
  equal(lost("a", "c-rnic"), "4 in-flight, 5 in-flight");
  equal(lost(), "");
});
