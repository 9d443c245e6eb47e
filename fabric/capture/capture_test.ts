import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CUT_OFF } from "../link/effect.ts";
import { PORTS } from "../node.ts";
import { makePlan } from "../rack/assembly/topology.ts";
import { variants } from "../rack/scenario/variants.ts";
import { captureOf } from "./capture.ts";
import type { SeenEvent } from "./instants.ts";
import type { MessageSeen } from "./observation.ts";
import { parseScenario } from "../rack/scenario/parse_scenario.ts";

/** Two hosts and their cards on one cable of 100 Gb/s. Nodes: x, x-rnic, y, y-rnic. */
const SCENARIO = `
name: two
fabric: { topology: direct, rate: 100Gbps, latency: 1ns }
hosts: { x: {}, y: {} }
`;
const [VARIANT] = variants(parseScenario(SCENARIO, "two.yaml"));
const PLAN = makePlan(VARIANT!);
/** Port of both cards. */
const PORT = PORTS.rnicNetwork;

function passing(
  kind: MessageSeen["kind"],
  of: { time: number; card: 0 | 1; startPs: number; byte: number },
): SeenEvent {
  const { time, card, byte, startPs } = of;
  const node = 2 * card + 1;
  const frame = new Uint8Array(60).fill(byte);
  const at = { time, node, event: 0, port: PORT, startPs, endPs: startPs + 6_720 };
  const seen = { kind, ...at, frame, text: "" };
  return { time, node, seen: [seen] };
}

/** Interface and first byte of each packet. */
function packetsOf(events: readonly SeenEvent[]): (readonly [port: number, byte: number])[] {
  return [...captureOf(PLAN, { label: "two", events })].flatMap((block) => {
    const view = new DataView(block.buffer);
    return view.getUint32(0, true) === 6 ? [[view.getUint32(8, true), block[28]!] as const] : [];
  });
}

/** Comments of the packets, in their order. */
function commentsOf(events: readonly SeenEvent[], plan = PLAN): string[] {
  return [...captureOf(plan, { label: "two", events })].flatMap((block) => {
    const view = new DataView(block.buffer);
    if (view.getUint32(0, true) !== 6) return [];
    const options = 28 + view.getUint32(20, true);
    const isComment = view.getUint16(options, true) === 1;
    const length = view.getUint16(options + 2, true);
    const text = block.subarray(options + 4, options + 4 + length);
    return [isComment ? new TextDecoder().decode(text) : ""];
  });
}

describe("captureOf", () => {
  it("numbers the ends of network cables by node and port, and writes none twice", () => {
    const blocks = [...captureOf(PLAN, { label: "its label", events: [] })];
    const text = blocks.map((block) => new TextDecoder().decode(block));
    assert.equal(blocks.length, 3);
    assert.ok(text[0]!.includes("two, its label, seed 1"));
    assert.ok(text[1]!.includes("x-rnic:1") && text[1]!.includes("cable to y-rnic:1"));
    assert.ok(text[2]!.includes("y-rnic:1") && text[2]!.includes("cable to x-rnic:1"));
  });

  it("orders frames by their first bit, seen before they leave or after they have come", () => {
    const events = [
      passing("sent", { time: 0, card: 1, startPs: 9_000, byte: 3 }),
      passing("sent", { time: 1_000, card: 0, startPs: 1_000, byte: 1 }),
      passing("received", { time: 8_720, card: 1, startPs: 2_000, byte: 1 }),
      passing("received", { time: 16_720, card: 0, startPs: 10_000, byte: 3 }),
    ];
    assert.deepEqual(packetsOf(events), [[0, 1], [1, 1], [1, 3], [0, 3]]);
  });

  it("marks a frame as lost when its cable was cut on its way, or before it left", () => {
    const lost = "lost by the cable here (cut)";
    const late = passing("sent", { time: 0, card: 0, startPs: 2_000, byte: 3 });
    const [seen] = late.seen;
    const events: SeenEvent[] = [
      // Of three alike, the second is on the cable when that is cut.
      passing("sent", { time: 0, card: 0, startPs: 0, byte: 1 }),
      passing("sent", { time: 0, card: 0, startPs: 1_000, byte: 1 }),
      passing("sent", { time: 0, card: 0, startPs: 4_000, byte: 1 }),
      { ...late, seen: [{ ...seen as MessageSeen, effect: CUT_OFF }] },
      passing("sent", { time: 0, card: 1, startPs: 3_000, byte: 1 }),
      {
        time: 8_720,
        node: 3,
        seen: [{
          kind: "cut-off",
          ...{ time: 8_720, node: 3, event: 0, port: PORT, startPs: 2_000 },
          frame: new Uint8Array(60).fill(1),
        }],
      },
    ];
    assert.deepEqual(packetsOf(events), [[0, 1], [0, 1], [0, 3], [1, 1], [0, 1]]);
    assert.deepEqual(commentsOf(events), ["", lost, lost, "", ""]);
  });

  it("marks it so for a cable of any length", () => {
    const long = SCENARIO.replace("1ns", "100us");
    const plan = makePlan(variants(parseScenario(long, "long.yaml"))[0]!);
    const onTheWay = [1, 2, 3, 4].map((i) => {
      const time = i * 25_000_000;
      return passing("sent", { time, card: 1, startPs: time, byte: 9 });
    });
    const at = { time: 100_008_720, node: 3, event: 9, port: PORT, startPs: 100_002_000 };
    const frame = new Uint8Array(60).fill(1);
    const events: SeenEvent[] = [
      passing("sent", { time: 0, card: 0, startPs: 2_000, byte: 1 }),
      ...onTheWay,
      { ...at, seen: [{ kind: "cut-off", ...at, frame }] },
    ];
    const comments = commentsOf(events, plan);
    assert.deepEqual(comments, ["lost by the cable here (cut)", "", "", "", ""]);
  });

  it("lets frames go as time passes, and keeps the order over any number of them", () => {
    const events = Array.from({ length: 500 }, (_, i) => {
      const time = i * 1_000_000;
      return passing("sent", { time, card: i % 2 === 0 ? 0 : 1, startPs: time + 7, byte: i % 251 });
    });
    let taken = 0, packets = 0;
    const written = captureOf(PLAN, {
      label: "two",
      events: (function* () {
        for (const event of events) {
          taken++;
          yield event;
        }
      })(),
    });
    for (const block of written) {
      if (block[0] !== 6) continue;
      packets++;
      assert.ok(taken - packets < 20, `${taken} frames were taken when ${packets} were written`);
    }
    assert.equal(packets, 500);
    assert.deepEqual(packetsOf(events).map(([, byte]) => byte), events.map((_, i) => i % 251));
  });
});
