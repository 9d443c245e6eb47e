/** The port of libibverbs' rc_pingpong, `scripts/scenarios/rc_pingpong.ts`: what it sends, and what its options do. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import rcPingpong from "../../scripts/scenarios/rc_pingpong.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SCENARIO = await Deno.readTextFile(
  new URL("../../scripts/scenarios/rc_pingpong.yaml", import.meta.url),
);

interface Result {
  readonly iters: number;
  readonly size: number;
  readonly tookPs: number;
}

/** The shipped scenario with other options at both ends. */
function run(
  { a, b }: Readonly<Record<"a" | "b", string>>,
  { unsound }: { readonly unsound?: string } = {},
) {
  const shipped = "iters: 100, chk: true";
  const [server, client, ...more] = SCENARIO.split(shipped);
  assert.deepEqual(more.length, 1, `${shipped} at both ends`);
  const rack = new SimulatedRack([server, b, client, a, more[0]].join(""), {
    programs: { "./rc_pingpong.ts": rcPingpong },
    trace: true,
    ...(unsound !== undefined && { unsound }),
  }).run();
  const resultOf = (host: string) => rack.reported("result", host)[0] as unknown as Result;
  const sends = (host: string) =>
    rack.traces.filter(({ node, step }) => node === `${host}-rnic` && step.step === "S309")
      .map(({ step }) => step.text);
  return { rack, resultOf, sends };
}

describe("scripts/scenarios/rc_pingpong.ts", () => {
  it("sends to and fro as often as it is told, in packets of the path's MTU", () => {
    const options = "iters: 3, chk: true, rxDepth: 2, mtu: 2048";
    const { resultOf, sends } = run({ a: options, b: options });
    for (const host of ["a", "b"]) {
      assert.equal(resultOf(host).iters, 3);
      // The ring has two entries, as one is left free.
      const expected = [0, 1, 0].map((i) => `send at ${i}: 4096 B in 2 packets`);
      assert.deepEqual(sends(host), expected);
    }
  });

  it("sleeps on completion events, which takes longer", () => {
    const tookPs = (options: string) => run({ a: options, b: options }).resultOf("a").tookPs;
    const polled = tookPs("iters: 3, size: 64, chk: true");
    assert.ok(tookPs("iters: 3, size: 64, chk: true, events: true") > polled);
  });

  it("looks at what has arrived, if it is told to", () => {
    // The server's buffer is longer than the client's message, so its last byte stays its own.
    const ends = { a: "iters: 1, size: 64", b: "iters: 1, size: 128, chk: true" };
    const { rack } = run(ends, { unsound: "the server fails" });
    const [failure] = rack.reported("program-failed", "b");
    assert.match(JSON.stringify(failure), /Message 1 ends with 123: expected 124/);
  });
});
