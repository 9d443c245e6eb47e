/** perftest where something is in its way: power failures, memory, MTUs, other clients. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import type { PathMtu } from "../../nodes/host/cm/connect.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

interface Rack {
  /** Programs beside the server on b. */
  readonly programs: readonly string[];
  readonly faults?: readonly string[];
  readonly mtu?: number;
}

function start({ programs, faults = [], mtu = 4096 }: Rack): SimulatedRack {
  return new SimulatedRack(`
name: perftest-faults
fabric: { mtu: ${mtu} }
hosts: { a: {}, b: {}, c: {} }
programs: [${["{ on: b, run: perftest-server }", ...programs].join(", ")}]
faults: [${faults.join(", ")}]
`).run();
}

function client(on: string, rest: string): string {
  return `{ on: ${on}, run: perftest, to: b, ${rest} }`;
}

function resultOf(rack: SimulatedRack, host: string): PerftestResult {
  const [result] = rack.reported("result", host);
  assert.ok(result !== undefined, JSON.stringify(rack.reports));
  return result as unknown as PerftestResult;
}

describe("perftest, its server", () => {
  it("takes what many queue pairs send, however far it is behind", () => {
    const rack = start({
      programs: [client("a", "test: ib_send_bw, size: 1, qps: 16, iterations: 600")],
    });
    const result = resultOf(rack, "a");
    assert.equal(result.status, "done", result.error);
  });

  it("has one place for each queue pair, not more", () => {
    const programs = [client("a", "test: ib_write_bw, size: 8MiB, qps: 24, iterations: 1")];
    assert.equal(resultOf(start({ programs }), "a").status, "done");
  });

  it("refuses what it has no memory for, says why, and serves the next", () => {
    const programs = [
      client("a", "test: ib_write_bw, size: 8MiB, qps: 16, iterations: 1, memory: scm"),
      client("c", "at: 5ms, test: ib_send_lat, iterations: 10"),
    ];
    const rack = start({ programs });
    assert.match(resultOf(rack, "a").error!, /needs 268435456 B of SCM: b has 67108864 B/);
    assert.equal(resultOf(rack, "c").status, "done");
    assert.deepEqual(rack.reported("program-failed"), []);
  });

  it("serves a stream and a ping-pong at once", () => {
    const programs = [
      client("a", "test: ib_send_bw, iterations: 1000"),
      client("c", "test: ib_send_lat, iterations: 100"),
    ];
    const rack = start({ programs });
    for (const host of ["a", "c"]) assert.equal(resultOf(rack, host).status, "done", host);
  });

  it("serves the next when its card is back, whenever that has failed", () => {
    for (const at of ["60us", "700us"]) {
      const rack = start({
        programs: [
          client("a", "test: ib_write_lat, iterations: 400"),
          client("c", "at: 250ms, test: ib_send_lat, iterations: 10"),
        ],
        faults: [`{ at: ${at}, kill: b-rnic }`, "{ at: 2ms, start: b-rnic }"],
      });
      assert.deepEqual(rack.reported("program-failed"), [], at);
      assert.equal(resultOf(rack, "c").status, "done", at);
    }
  });

  for (const test of ["ib_send_lat", "ib_write_lat", "ib_send_bw"]) {
    it(`serves the next where a client dies in the middle of ${test}`, () => {
      const rack = start({
        programs: [
          client("a", `test: ${test}, iterations: 3000`),
          client("c", "at: 250ms, test: ib_send_lat, iterations: 10"),
        ],
        faults: ["{ at: 700us, kill: a }"],
      });
      assert.equal(resultOf(rack, "c").status, "done");
    });
  }
});

describe("perftest, its client", () => {
  for (const test of ["ib_send_lat", "ib_write_lat", "ib_send_bw", "ib_read_lat"]) {
    it(`says so where the server dies in the middle of ${test}, and does not hang`, () => {
      const rack = start({
        programs: [client("a", `test: ${test}, iterations: 3000`)],
        faults: ["{ at: 700us, kill: b }"],
      });
      const result = resultOf(rack, "a");
      assert.equal(result.status, "failed");
      assert.match(result.error!, /Completed with|nothing has come/);
    });
  }

  it("names the port's MTU where the path's is larger", () => {
    const programs = [client("a", "test: ib_write_lat, mtu: 4096")];
    const { error } = resultOf(start({ programs, mtu: 1024 }), "a");
    assert.match(error!, /path MTU is 4096: expected .* at most the port's 1024/);
  });

  for (
    const [option, message] of [["mtu: 300", /256, 512/], ["qps: 16385", /at most 16384/]] as const
  ) {
    it(`refuses ${option}`, () => {
      const rack = start({ programs: [client("a", `test: ib_write_bw, ${option}`)] });
      const [failure] = rack.reported("program-failed", "a");
      assert.match(String(failure?.message), message);
    });
  }
});

describe("connect", () => {
  it("refuses a path MTU that there is not, and the host's connection manager lives on", () => {
    const scenario = `
name: mtu
hosts: { a: {}, b: {} }
programs: [{ on: a, run: ./odd.ts }]
`;
    const rack = new SimulatedRack(scenario, {
      programs: {
        *"./odd.ts"({ cpu, device }) {
          const { allocPd, connect, createCq, must, refused } = device.verbs;
          const cq = must(yield* createCq(device, { entries: 8 }));
          const qp = { pd: allocPd(device), sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2 };
          const pathMtu = 300 as PathMtu;
          const answer = yield* connect(device, { to: "b", service: "none", qp, pathMtu });
          cpu.report(
            "answer",
            refused(answer) ? { refused: answer.refused, reason: answer.reason } : {},
          );
        },
      },
    }).run();
    const [answer] = rack.reported("answer");
    assert.equal(answer?.refused, "local");
    assert.match(String(answer?.reason), /options\.pathMtu is 300: expected one of 256, 512/);
    assert.deepEqual(rack.reported("program-failed"), []);
  });
});
