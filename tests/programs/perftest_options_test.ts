/**
 * perftest's options, each by what it does to the frames and figures of a rack, not by what is printed:
 * its output is `perftest_output_test.ts`.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import type { Observation } from "../../fabric/capture/observation.ts";
import type { PerftestResult, PerftestRow } from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST, type PerftestName } from "../../nodes/host/programs/perftest/terms.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

type Latency = Extract<PerftestRow, { measures: "latency" }>;
type Bandwidth = Extract<PerftestRow, { measures: "bandwidth" }>;

interface SentPacket {
  readonly from: string;
  readonly time: number;
  readonly packet: RocePacket;
}

/** One test between `a` and `b`: its result, and each packet of the test that a card has sent. */
function run(test: PerftestName, options: string, { faults = "", doorbellsToo = false } = {}) {
  const sent: SentPacket[] = [];
  let doorbells = 0;
  const see = (seen: Observation) => {
    if (seen.kind !== "sent") return;
    const { name, kind } = rack.plan.nodes[seen.node]!;
    if (seen.frame === undefined) {
      if (name === "a" && /^register write/.test(seen.text)) doorbells++;
      return;
    }
    const packet = decodePacket(seen.frame);
    if (kind !== "rnic" || isRefusal(packet) || packet.bth.destQpn === GSI_QPN) return;
    sent.push({ from: name.slice(0, 1), time: seen.startPs, packet });
  };
  const rack: SimulatedRack = new SimulatedRack(
    `
name: perftest-options
fabric: { mtu: 4096 }
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ${test}, ${options} }
faults: [${faults}]
`,
    { observer: { scope: doorbellsToo ? "all" : "wire", see, commit: () => {} } },
  );
  rack.run();
  const [result] = rack.reported("result", "a") as unknown as PerftestResult[];
  assert.ok(result !== undefined, JSON.stringify(rack.reported("program-failed")));
  const data = sent.filter(({ packet }) => packet.payload.length > 0);
  const posted = rack.record(1e13).notes.flatMap(({ node, note }) =>
    note.kind === "posted" && note.queue === "send" && node === "a" && note.qpn !== GSI_QPN
      ? [note]
      : []
  );
  return { rack, result, sent, data, doorbells, posted };
}

function rowOf<Row extends PerftestRow>(result: PerftestResult): Row {
  assert.equal(result.status, "done", result.error);
  assert.equal(result.rows.length, 1);
  return result.rows[0] as Row;
}

function nameOf(opcode: number): string {
  return opcodeRow(opcode)?.name ?? `${opcode}`;
}

/** Payload bytes that a host's card has sent. */
function bytesFrom(data: readonly SentPacket[], host: string): number {
  return data.filter(({ from }) => from === host)
    .reduce((sum, { packet }) => sum + packet.payload.length, 0);
}

const BANDWIDTHS = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"] as const;

/** A case for each: a client with these options fails with this message. */
function itRefuses(
  cases: readonly (readonly [options: string, message: RegExp, test?: PerftestName])[],
): void {
  for (const [options, message, test = "ib_write_bw"] of cases) {
    it(`refuses ${test} with ${options}`, () => {
      const rack = new SimulatedRack(`
name: refused
fabric: { mtu: 4096 }
hosts: { a: {}, b: {} }
programs: [{ on: a, run: perftest, to: b, test: ${test}, ${options} }]
`).run();
      assert.match(String(rack.reported("program-failed")[0]?.message), message);
    });
  }
}

describe("perftest -b, --bidirectional", () => {
  for (const test of BANDWIDTHS) {
    it(`${test}: both ends send alike, and the figures are the sum of both`, () => {
      const bytes = PERFTEST[test].verb === "atomic" ? 8 : 8_192;
      const options = `iterations: 40, qps: 2, size: ${bytes}`;
      const both = run(test, `${options}, bidirectional: true`);
      const row = rowOf<Bandwidth>(both.result);
      const { local, remote } = row;
      assert.ok(local !== undefined && remote !== undefined);
      assert.equal(
        row.averageBytesPerSecond,
        local.averageBytesPerSecond + remote.averageBytesPerSecond,
      );
      assert.equal(row.iterations, 80);
      const requests = (host: string) =>
        new Set(
          both.sent.filter(({ from, packet: { bth } }) =>
            from === host && /WRITE|READ REQUEST|SEND|SWAP|ADD/.test(nameOf(bth.opcode))
          ).map(({ packet: { bth } }) => `${bth.destQpn} ${bth.psn}`),
        ).size;
      assert.ok(requests("a") >= 80 && requests("b") >= 80, `${requests("a")}, ${requests("b")}`);
      const one = rowOf<Bandwidth>(run(test, options).result);
      assert.equal(one.local, undefined);
      assert.ok(row.averageBytesPerSecond > 1.1 * one.averageBytesPerSecond);
      assert.ok(row.averageBytesPerSecond < 2.1 * one.averageBytesPerSecond);
    });
  }

  it("is refused of a latency test", () => {
    const rack = new SimulatedRack(`
name: refused
hosts: { a: {}, b: {} }
programs: [{ on: a, run: perftest, to: b, test: ib_write_lat, bidirectional: true }]
`).run();
    assert.match(String(rack.reported("program-failed")[0]?.message), /not a bandwidth test/);
  });

  it("of a client that dies in the middle does not disturb the next", () => {
    const rack = new SimulatedRack(`
name: dies
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ib_send_bw, bidirectional: true }
  - { on: c, at: 400ms, run: perftest, to: b, test: ib_send_bw, bidirectional: true, iterations: 20 }
faults: [{ at: 700us, kill: a }]
`).run();
    const [result] = rack.reported("result", "c") as unknown as PerftestResult[];
    assert.equal(result?.status, "done", result?.error);
  });
});

describe("perftest --tclass and -L, --hop_limit", () => {
  for (
    const [test, connection] of [["ib_write_bw", "RC"], ["ib_write_bw", "UC"], [
      "ib_send_bw",
      "UD",
    ]] as const
  ) {
    it(`${connection}: DSCP and time to live of both ends' packets are theirs`, () => {
      const options = `connection: ${connection}, bidirectional: true, iterations: 10, size: 2KiB`;
      const { data, result } = run(test, `${options}, trafficClass: 106, hopLimit: 9`);
      rowOf(result);
      // What a UD test's two ends tell each other goes beside it, over a connection with the same path.
      for (const host of ["a", "b"]) {
        assert.ok(bytesFrom(data, host) >= 10 * 2048);
      }
      for (const { packet } of data) assert.deepEqual([packet.dscp, packet.ttl], [106 >> 2, 9]);
      const plain = run(test, options);
      for (const { packet } of plain.data) assert.deepEqual([packet.dscp, packet.ttl], [0, 64]);
    });
  }
});

describe("perftest -c, --connection", () => {
  it("UD: messages are datagrams, which nothing acknowledges; 65536 B become the path MTU", () => {
    const { result, data, sent } = run("ib_send_bw", "connection: UD, iterations: 20");
    assert.equal(rowOf(result).bytes, 4096);
    assert.equal(bytesFrom(data, "a"), 20 * 4096);
    for (const { packet } of data) assert.match(nameOf(packet.bth.opcode), /^UD SEND/);
    assert.equal(sent.filter(({ from }) => from === "b").length, 0);
  });

  it("UC: nothing is acknowledged; RC: it is", () => {
    for (const [connection, isAcknowledged] of [["UC", false], ["RC", true]] as const) {
      const { result, sent } = run("ib_write_bw", `connection: ${connection}, iterations: 20`);
      rowOf(result);
      assert.equal(sent.some(({ from }) => from === "b"), isAcknowledged, connection);
    }
  });

  for (const connection of ["UC", "UD"]) {
    it(`${connection}: ib_send_lat is a ping-pong, about as long as RC's`, () => {
      const options = "iterations: 20, size: 64";
      const other = rowOf<Latency>(
        run("ib_send_lat", `${options}, connection: ${connection}`).result,
      );
      const rc = rowOf<Latency>(run("ib_send_lat", options).result);
      assert.ok(Math.abs(other.minPs / rc.minPs - 1) < 0.1, `${other.minPs} and ${rc.minPs}`);
    });
  }

  itRefuses([
    ["connection: UD", /runs on RC, UC: not UD/, "ib_write_bw"],
    ["connection: UC", /runs on RC: not UC/, "ib_read_lat"],
    ["connection: XRC", /one of RC, UC, UD/, "ib_send_bw"],
    ["connection: UD, size: 8KiB", /at most 4096, the path MTU, on UD/, "ib_send_bw"],
  ]);
});

describe("perftest -a, --all", () => {
  it("on UD ends at the path MTU", () => {
    const { result } = run("ib_send_bw", "connection: UD, all: true, iterations: 4");
    assert.deepEqual(
      result.rows.map(({ bytes }) => bytes),
      Array.from({ length: 12 }, (_, i) => 2 << i),
    );
  });
});

describe("perftest -q, --qp, and -n, --iters", () => {
  it("16 queue pairs with 5 messages each, of every queue pair as many", () => {
    const { result, data } = run("ib_send_bw", "qps: 16, iterations: 5, size: 1KiB");
    assert.equal(rowOf(result).iterations, 80);
    const counts = Map.groupBy(data, ({ packet }) => packet.bth.destQpn);
    assert.deepEqual([...counts.values()].map(({ length }) => length), new Array(16).fill(5));
    assert.equal(result.ends.local.length, 16);
    assert.deepEqual(
      result.ends.remote.map(({ qpn }) => qpn).sort(),
      [...counts.keys()].sort(),
    );
  });
});

describe("perftest -t, -l, -Q", () => {
  it("--tx-depth 1: a message at a time; 128: the line is full", () => {
    const rate = (depth: number) =>
      rowOf<Bandwidth>(run("ib_write_bw", `depth: ${depth}, iterations: 50, size: 4KiB`).result)
        .averageBytesPerSecond;
    assert.ok(rate(1) < 0.3 * rate(128));
  });

  it("--post_list 10: a doorbell for ten messages, of which the last completes", () => {
    const list = run("ib_write_bw", "postList: 10, iterations: 200, size: 4KiB", {
      doorbellsToo: true,
    });
    const single = run("ib_write_bw", "iterations: 200, size: 4KiB", { doorbellsToo: true });
    for (const { result, data } of [list, single]) {
      assert.equal(rowOf(result).iterations, 200);
      assert.equal(data.length, 200);
    }
    assert.ok(list.doorbells < 200 / 10 + 20, `${list.doorbells}`);
    assert.ok(single.doorbells >= 200, `${single.doorbells}`);
    assert.equal(list.result.settings.cqModeration, 10);
    assert.equal(list.posted.filter(({ signaled }) => signaled).length, 20);
  });

  it("--cq-mod 25: every 25th message completes, and the last", () => {
    const { posted } = run("ib_write_bw", "cqModeration: 25, iterations: 110, size: 4KiB");
    const signaled = posted.filter((each) => each.signaled).map(({ wrId }) => wrId);
    assert.deepEqual(signaled, [25, 50, 75, 100, 110]);
  });

  it("refuses hopLimit: 0, with which no packet is sent, at its line", () => {
    assert.throws(
      () => run("ib_write_bw", "hopLimit: 0"),
      /hopLimit: found 0, expected a whole number ≥ 1, below 2\^53/,
    );
  });

  it("a message above 8 KiB completes for itself, unless -Q says otherwise", () => {
    const moderation = (options: string) =>
      run("ib_write_bw", `iterations: 200, depth: 120, ${options}`).result.settings.cqModeration;
    assert.equal(moderation("size: 8KiB"), 100);
    assert.equal(moderation("size: 16KiB"), 1);
    assert.equal(moderation("size: 16KiB, cqModeration: 30"), 30);
  });

  itRefuses([
    ["postList: 3, iterations: 10", /multiple of postList, 3: it is 10/],
    ["postList: 10, cqModeration: 4, iterations: 100", /multiple of cqModeration, 4: it is 10/],
    ["postList: 20, depth: 10", /at most the depth, 10: it is 20/],
  ]);
});

describe("perftest -I, -o, -r, -u, -A, -e", () => {
  it("--inline_size 0: the card fetches the payload, which takes longer", () => {
    const least = (inline: number) =>
      rowOf<Latency>(run("ib_write_lat", `inlineBytes: ${inline}, size: 64, iterations: 10`).result)
        .minPs;
    assert.ok(least(0) > least(64) + 100_000);
    assert.equal(least(63), least(0));
  });

  it("--outs 1: a READ at a time on each queue pair", () => {
    const rate = (outstanding: number) =>
      rowOf<Bandwidth>(
        run("ib_read_bw", `outstanding: ${outstanding}, size: 8KiB, iterations: 40`).result,
      ).averageBytesPerSecond;
    assert.ok(rate(1) < 0.4 * rate(16));
  });

  it("--rx-depth 2: SENDs wait for receives, as end-to-end credits have it; 512: they do not", () => {
    const rate = (rxDepth: number) =>
      rowOf<Bandwidth>(
        run("ib_send_bw", `rxDepth: ${rxDepth}, size: 64, iterations: 200`).result,
      ).messagesPerSecond;
    assert.ok(rate(2) < 0.6 * rate(512), `${rate(2)} and ${rate(512)}`);
  });

  it("--qp-timeout and --retry_count say when a message to a dead host has failed", () => {
    const failedAt = (options: string) => {
      const { rack, result } = run("ib_write_bw", `iterations: 5000, ${options}`, {
        faults: "{ at: 700us, kill: b }",
      });
      assert.match(result.error!, /RETRY_EXC_ERR/);
      return rack.reports.find(({ topic }) => topic === "result")!.time;
    };
    // 4.096 µs · 2^timeout, so often as is retried and once more.
    const soon = failedAt("timeout: 4, retryCount: 1"),
      late = failedAt("timeout: 8, retryCount: 7");
    assert.ok(soon < 1.2e9, `${soon}`);
    assert.ok(late > 8e9, `${late}`);
  });

  it("-A CMP_AND_SWAP and FETCH_AND_ADD are those atomics", () => {
    for (
      const [atomic, opcode] of [["compare-swap", /COMPARE & SWAP/], [
        "fetch-add",
        /FETCH & ADD/,
      ]] as const
    ) {
      const { sent, result } = run("ib_atomic_bw", `atomic: ${atomic}, iterations: 10`);
      assert.equal(rowOf(result).bytes, 8);
      const requests = sent.filter(({ from }) => from === "a");
      assert.equal(requests.length, 10);
      for (const { packet } of requests) assert.match(nameOf(packet.bth.opcode), opcode);
    }
  });

  it("--events: a completion costs an interrupt", () => {
    const typical = (completion: string) =>
      rowOf<Latency>(run("ib_send_lat", `completion: ${completion}, iterations: 10`).result)
        .typicalPs;
    assert.ok(typical("interrupt") > typical("poll") + 500_000);
  });
});

describe("perftest -D, --duration", () => {
  it("ends after so much virtual time, and has the rate of a test by number", () => {
    for (const test of ["ib_write_bw", "ib_send_bw", "ib_read_bw"] as const) {
      const { result, data } = run(test, "duration: 100us, size: 4KiB, depth: 32");
      const row = rowOf<Bandwidth>(result);
      assert.equal(row.peakBytesPerSecond, null);
      const [first, last] = [data[0]!.time, data.at(-1)!.time];
      // What is outstanding at the end, 32 messages, is still sent.
      assert.ok(last - first > 90e6 && last - first < 120e6, `${last - first}`);
      const counted = rowOf<Bandwidth>(run(test, "iterations: 150, size: 4KiB, depth: 32").result);
      const ratio = row.averageBytesPerSecond / counted.averageBytesPerSecond;
      assert.ok(Math.abs(ratio - 1) < 0.15, `${test}: ${ratio}`);
    }
  });

  it("in both directions, of SENDs too: each end goes on receiving until the other has ended", () => {
    for (const connection of ["RC", "UD"]) {
      const options = `duration: 200us, bidirectional: true, connection: ${connection}, size: 4KiB`;
      const { local, remote } = rowOf<Bandwidth>(run("ib_send_bw", options).result);
      assert.ok(local!.averageBytesPerSecond > 5e9 && remote!.averageBytesPerSecond > 5e9);
    }
  });

  it("of a latency test: mean and transactions a second", () => {
    for (const test of ["ib_write_lat", "ib_send_lat", "ib_read_lat", "ib_atomic_lat"] as const) {
      const [row] = run(test, "duration: 100us").result.rows;
      assert.equal(row?.measures, "latency-rate");
      if (row?.measures !== "latency-rate") return;
      const trips = PERFTEST[test].pingPong ? 2 : 1;
      assert.ok(Math.abs(row.averagePs * trips * row.transactionsPerSecond / 1e12 - 1) < 1e-9);
      // By number a receive is posted again only where one is still to come, as in perftest.
      const few = test === "ib_send_lat" ? ", rxDepth: 2" : "";
      const counted = rowOf<Latency>(run(test, `iterations: 40${few}`).result);
      assert.ok(Math.abs(row.averagePs / counted.averagePs - 1) < 0.1, test);
    }
  });

  itRefuses([
    ["duration: 100us, margin: 50us", /longer than two margins: they are 100 us and 50 us/],
    ["margin: 50us", /margin goes with a duration/],
    ["duration: 100us, all: true", /one size/],
  ]);

  it("says so where it is too short to count anything", () => {
    const { result } = run("ib_write_bw", "duration: 10us");
    assert.equal(result.status, "failed");
    assert.match(result.error!, /too short: fewer than two completions/);
  });
});
