import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { HistoryLog, Pages } from "./history.ts";
import type { RackRun } from "./rerun.ts";
import { leftOf, othersOf } from "./survivors.ts";

const [VARIANT] = variants(parseScenario("name: p\nhosts: { a: {}, b: {} }\n", "p.yaml"), {});
const PLAN = makePlan(VARIANT!);

it("leftOf: of what a card has kept for its host the last report counts, as earlier failures are over (wsp)", () => {
  const scm = new Map(["a", "b"].map((host) => [host, new Pages()]));
  scm.get("b")!.write(0, Uint8Array.of(1, 1, 1));
  const held = (node: string, ...bytes: readonly number[]) => {
    const writes = bytes.map((byte, i) => ({
      address: SCM_BASE + i,
      data: Uint8Array.of(byte).toHex(),
    }));
    const value: HeldWrites = { host: node.slice(0, 1), writes };
    return { time: 1, node, topic: "held", value };
  };
  const left = (...reports: readonly ReturnType<typeof held>[]) => {
    const run = { plan: PLAN, scm, reports } as unknown as RackRun;
    return [...leftOf(run, "b")!.read(0, 3)];
  };
  same(left(), [1, 1, 1]);
  same(left(held("b-rnic", 5, 6)), [5, 6, 1]);
  same(left(held("b-rnic", 5, 6), held("b-rnic", 8)), [8, 1, 1]);
  same(left(held("b-rnic", 5, 6), held("b-rnic")), [1, 1, 1], "all has arrived since");
  same(
    left(held("b-rnic", 5), held("a-rnic", 9, 9)),
    [5, 1, 1],
    "another card's is another host's",
  );
});

it("othersOf: memory of a host that has kept its power is what its cores see, else what is left of it", () => {
  const log = new HistoryLog();
  const lineOf = (byte: number) => new Uint8Array(64).fill(byte);
  log.durable(5, 0, lineOf(1), 64);
  log.dirty(10, 0, lineOf(2), 0xff);
  log.dirty(20, 0, lineOf(3), 0xff);
  const seen = (to: number) => {
    const scm = new Pages();
    scm.write(0, lineOf(1));
    const lives = new Map([["a", [{ from: 0, to: 2 }, { from: 4, to }]], ["b", [{ from: 0, to }]]]);
    const histories = new Map([["a", log], ["b", log]]);
    const run = { plan: PLAN, scm: new Map([["a", scm]]), reports: [], lives, histories };
    const others = othersOf(run as unknown as RackRun, { but: ["b"] });
    same([...others.keys()], ["a"]);
    const { since, memory } = others.get("a")!;
    return [since, memory.read(0, 1)[0]];
  };
  same(seen(Infinity), [4, 3]);
  same(seen(50), [undefined, 1]);
});
