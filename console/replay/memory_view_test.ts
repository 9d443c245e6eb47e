import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { TimedRecord } from "../../fabric/audit.ts";
import { makePlan } from "../../fabric/rack/build/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { victimOf } from "../explore/post_crash_run.ts";
import { HostMemory } from "./host_memory.ts";
import { Landing, MemoryRecord } from "./memory_record.ts";
import { lossOf } from "./memory_view.ts";
import type { Recording } from "./recording.ts";
import type { Loss } from "./types.ts";

const LINE = 4096, AT = 50;
const filled = (value: number) => new Uint8Array(64).fill(value);

/** What a power cut of b loses where something else has come over a promised write. @param freed when b gave it back. */
function lossWith({ freed }: { readonly freed?: number }): Loss {
  const [variant] = variants(parseScenario("name: v\nhosts: { a: {}, b: {} }\n", "v.yaml"));
  const plan = makePlan(variant!), by = "a/0/put#0";
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
    ...{ visibleAt: 20, claimedAt: Infinity, promisedAt: 20 },
  });
  record.durable(15, LINE, filled(7));
  record.durable(40, LINE, filled(8));
  record.dirty(45, LINE, filled(9));
  const lives = new Map(plan.nodes.map(({ name }) => [name, [{ from: 0, to: Infinity }]]));
  const memory = new Map([["a", new MemoryRecord()], ["b", record]]);
  const recording = { job: { plan }, notes, lives, memory } as unknown as Recording;
  return lossOf(recording, { at: AT, nodes: ["b"] }, (host) => {
    const { config, noticePs } = victimOf(plan, host);
    return new HostMemory(memory.get(host)!, {
      ...{ config, noticePs, lives: lives.get(host)!, at: AT },
    });
  });
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
