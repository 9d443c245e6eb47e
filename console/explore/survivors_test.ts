import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { makePlan } from "../../fabric/rack/build/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { Pages } from "./history.ts";
import type { RackRun } from "./rerun.ts";
import { leftOf } from "./survivors.ts";

it("leftOf: of what a card has kept for its host the last report counts, as earlier failures are over (wsp)", () => {
  const [variant] = variants(parseScenario("name: p\nhosts: { a: {}, b: {} }\n", "p.yaml"), {});
  const plan = makePlan(variant!);
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
    const run = { plan, scm, reports } as unknown as RackRun;
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
