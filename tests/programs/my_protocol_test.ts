/** The example of a user's own protocol, as it is shipped. */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import myProtocol from "../../scripts/scenarios/my_protocol.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SCENARIO = `
name: my-protocol
hosts:
  a: {}
  b: { ddio: off, scm: { size: 4MiB, regions: { log: { at: 1MiB, size: 4KiB } } } }
programs:
  - { on: b, run: ./my_protocol.ts, role: server }
  - { on: a, run: ./my_protocol.ts, role: client, to: b, records: 10, at: 200us }
`;

describe("my_protocol", () => {
  it("appends its records persistently, with verbs alone", () => {
    const rack = new SimulatedRack(SCENARIO, { programs: { "./my_protocol.ts": myProtocol } })
      .run();
    const [result] = rack.reported("result");
    equal(result?.records, 10, JSON.stringify(rack.reports));
    ok((result!.latencies as number[]).every((ps) => ps > 1_000_000));
    const log = rack.scm.get("b")!.subarray(1 << 20, (1 << 20) + 640);
    same(log, Uint8Array.from({ length: 640 }, (_, i) => 1 + Math.floor(i / 64)));
  });
});
