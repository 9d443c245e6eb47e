/** What leaves nodes: in which order, over what, and when it is heard. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../base/time.ts";
import type { Departure } from "./outgoing.ts";
import {
  createRig,
  frame,
  LATENCY_PS,
  leastPs,
  PROCESSING_PS,
  type Script,
  threeInARow,
} from "./partition_testing.ts";

describe("Frames that leave a partition", () => {
  it("do so in the order in which they were sent, which their counters have, once", () => {
    const sends: Script = ({ now, input, out }) => {
      if (input.kind !== "power") return;
      // The last one's time of departure is no later than the first one's: it waits for the transmitter.
      for (const extra of [2, 0, 1]) out.send(1, frame(extra), now + PROCESSING_PS.b!);
    };
    const { partition } = createRig({ scripts: { b: sends } });
    partition.advance(NEVER);
    const departures = partition.takeDepartures();
    assert.deepEqual(
      departures.map((
        { to, event: { counter, time, source, target } },
      ) => [to, counter, time - leastPs("b"), source, target]),
      [["c", 0, 2, 1, 2], ["c", 1, 3, 1, 2], ["c", 2, 5, 1, 2]],
    );
    assert.deepEqual(partition.takeDepartures(), []);
  });

  it("do so in the order of the events that sent them, over all nodes", () => {
    // Both are joined to c here, by cables of their own.
    const end = (node: string, port: number) => ({ node, port });
    const cable = { kind: "network" as const, latencyPs: 5_000, bitsPerSecond: 672e12 };
    const sends: Script = ({ now, input, out }) => {
      if (input.kind === "power") return now + 1_000;
      if (input.kind === "wake") out.send(1, frame(), now + PROCESSING_PS.b!);
      return NEVER;
    };
    const { partition } = createRig({
      scripts: { a: sends, b: sends },
      plan: {
        cables: [
          { ...cable, a: end("a", 0), b: end("b", 0) },
          { ...cable, a: end("a", 1), b: end("c", 0) },
          { ...cable, a: end("b", 1), b: end("c", 1) },
        ],
        faults: ["a", "b"].map((node) => ({ at: 90_000, action: "kill" as const, node })),
      },
    });
    partition.advance(NEVER);
    const sent = partition.takeDepartures().map(({ event: { source, input } }) =>
      "port" in input ? [source, input.kind, input.port] : []
    );
    // At one instant deadlines are served in the order of the partition's nodes.
    assert.deepEqual(sent, [
      [0, "message", 0],
      [1, "message", 1],
      [0, "link", 0],
      [1, "link", 1],
    ]);
  });

  it("carry the time to their last bit where the other end acts on their head", () => {
    const { nodes } = threeInARow();
    const headFirst = nodes.map((node) =>
      node.kind === "switch"
        ? { ...node, config: { ...node.config, mode: "cut-through" as const } }
        : node
    );
    const sends: Script = ({ now, input, out }) => {
      if (input.kind === "power") out.send(1, frame(9), now + PROCESSING_PS.b!);
    };
    const { partition } = createRig({ scripts: { b: sends }, plan: { nodes: headFirst } });
    partition.advance(NEVER);
    const [{ event: { time, input } }] = partition.takeDepartures() as [Departure];
    assert.ok(input.kind === "message");
    assert.deepEqual([time, input.tailPs], [leastPs("b"), 9]);
  });
});

describe("A cable whose other end has no power", () => {
  it("takes the transmitter's time all the same, and what is sent gets nowhere", () => {
    const sends: Script = ({ now, input, out }) => {
      if (input.kind !== "wake") return now < 10_000 ? 10_000 : 30_000;
      out.send(0, frame(now === 10_000 ? 40_000 : 0), now + PROCESSING_PS.b!);
      return now === 10_000 ? 30_000 : NEVER;
    };
    const faults = [
      { at: 1_000, action: "kill", node: "a" },
      { at: 20_000, action: "start", node: "a" },
    ] as const;
    const { partition, heard } = createRig({ scripts: { b: sends }, plan: { faults } });
    partition.advance(NEVER);
    const second = 10_000 + PROCESSING_PS.b! + 40_001 + 1 + LATENCY_PS;
    assert.deepEqual(heard.filter((line) => line.includes("message")), [
      `a/1 message:0 @${second}`,
    ]);
  });
});
