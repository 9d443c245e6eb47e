/** Messages of an access, and what they write to home's memory (C-11, decisions 7, 11, 12). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { farAccess } from "./far_card.ts";
import { dirtyInLocalCache, move } from "./home_card.ts";
import { hostAccess, hostLine, restartHost } from "./host_agent.ts";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { WHOLE_LINE } from "../wire/host_bus/line_change.ts";
import type { Access, Answer } from "./access.ts";
import { LOST } from "../wire/roce/coherence_messages.ts";
import { newOutput, type Output } from "./output.ts";
import { act, deliver, deliveries, HOST, newSystem, type System } from "./system.ts";
import { countTraffic, newTraffic, type Traffic } from "./traffic_testing.ts";

type Plain = Access & { readonly kind: "load" | "store" | "flush" };

const LINES = 8;
const size = {
  fars: 2,
  lines: LINES,
  remoteCache: { lines: LINES, writeBacks: 2 },
  home: { slots: 4, entries: LINES, localCache: { lines: 2, writeBacks: 1 } },
};

function rack(directory: "card" | "memory" = "card"): System {
  return newSystem({ size, contents: BYTE_CONTENTS, initial: () => new Uint8Array(64), directory });
}

/** Lets one of them do something, and all messages arrive. @returns answers, and messages that were sent. */
function does(
  system: System,
  by: number,
  first: (out: Output) => void,
): { readonly answers: Answer[]; readonly traffic: Traffic } {
  const traffic = newTraffic();
  const sent: System = {
    ...system,
    links: {
      wire: (message) => (countTraffic(traffic, { ...newOutput(), wire: [message] }), message),
      bus: (message) => (countTraffic(traffic, { ...newOutput(), bus: [message] }), message),
    },
  };
  const answers = act(sent, by, first).answers.map(({ answer }) => answer);
  for (let [next] = deliveries(sent); next !== undefined; [next] = deliveries(sent)) {
    answers.push(...deliver(sent, next).answers.map(({ answer }) => answer));
  }
  return { answers, traffic };
}

function access(system: System, by: number, given: Plain): ReturnType<typeof does> {
  return does(system, by, (out) => {
    const card = system.fars[by - 1];
    if (by === HOST) hostAccess(system.host, given, out);
    else if (card !== undefined) farAccess(card, given, out);
  });
}

function load(line: number): Plain {
  return { kind: "load", line, ticket: 0 };
}
function store(line: number, value = 7): Plain {
  const bytes = new Uint8Array(64).fill(value);
  return { ...load(line), kind: "store", change: { kind: "write", mask: WHOLE_LINE, bytes } };
}
function flush(line: number, lines?: number): Plain {
  return { ...load(line), kind: "flush", lines };
}

describe("traffic of an access", () => {
  it("C-11 (in part): a far load that misses takes three messages on the wire, and two on the bus; a hit none", () => {
    const system = rack();
    const miss = access(system, 1, load(0)).traffic;
    assert.deepEqual(miss.wire, { GetS: 1, DataS: 1, Complete: 1 });
    assert.deepEqual(miss.bus, { RdData: 1, GrantS: 1 });
    assert.deepEqual([miss.wireLines, miss.busLines], [1, 1]);
    assert.deepEqual(access(system, 1, load(0)).traffic, newTraffic());
  });

  it("decision 11: ping-pong of two far cards writes memory at each change of hands", () => {
    const system = rack();
    const { counts } = system.host;
    for (let turn = 0; turn < 10; turn++) access(system, 1 + turn % 2, store(0, turn));
    assert.equal(counts.cardWrites, 9);
    assert.equal(counts.llcWrites, 0);
    assert.equal(counts.notices, 10);
  });

  it("decision 11: what home's cores wrote is written once, before it is lent", () => {
    const system = rack();
    access(system, HOST, store(0));
    access(system, HOST, store(0));
    access(system, 1, load(0));
    assert.equal(system.host.counts.llcWrites, 1);
    assert.equal(system.host.counts.cardWrites, 0);
  });
});

describe("an access where the copy is kept at home", () => {
  it("[0059]: a plain write is answered without bytes, a load and an atomic with the line as they found it", () => {
    const system = rack();
    does(system, 0, (out) => move(system.home, { region: 0, place: "local" }, out));
    access(system, 1, load(1));
    const part = { kind: "write", mask: 1n, bytes: new Uint8Array(64).fill(9) } as const;
    for (const plain of [store(0, 5), { ...store(0), change: part }]) {
      const { answers: [answer], traffic } = access(system, 1, plain);
      assert.deepEqual([answer?.result, answer?.data], ["done", undefined]);
      assert.deepEqual([traffic.wire, traffic.wireLines], [{ Write: 1, Value: 1 }, 0]);
    }
    const found = new Uint8Array(64).fill(5).fill(9, 0, 1);
    const add = { kind: "add", offset: 8, operand: 1n } as const;
    const swap = { kind: "compare-swap", offset: 8, compare: 0n, swap: 7n } as const;
    const atomics = [{ ...store(0), change: add }, { ...store(0), change: swap }];
    for (const telling of [load(0), ...atomics]) {
      const { answers: [answer], traffic } = access(system, 1, telling);
      assert.equal(traffic.wireLines, 1);
      assert.deepEqual(answer?.data, found);
      if (telling.change === add) found[8]!++;
    }
  });
});

describe("a flush of many lines", () => {
  it("decision 8: is one message and one answer, whichever cache has the lines dirty", () => {
    const system = rack();
    for (const line of [0, 1, 2]) access(system, 1, store(line, 10 + line));
    access(system, 2, store(3, 13));
    access(system, HOST, store(4, 14));
    const { traffic, answers } = access(system, 1, flush(0, 6));
    assert.deepEqual(answers.map(({ result }) => result), ["done"]);
    assert.equal(traffic.wire.FlushRange, 1);
    assert.equal(traffic.wire.FlushAck, 1);
    assert.equal(traffic.wire.Flush, undefined);
    for (const line of [0, 1, 2, 3, 4]) {
      assert.deepEqual(hostLine(system.host, line).memory, new Uint8Array(64).fill(10 + line));
    }
  });

  it("decision 12: says lost where one of its lines is", () => {
    const system = rack();
    system.host.lines.set(2, { ...hostLine(system.host, 2), memory: LOST });
    assert.deepEqual(access(system, 1, flush(0, 4)).answers.map(({ result }) => result), ["lost"]);
    assert.deepEqual(access(system, 1, flush(0, 2)).answers.map(({ result }) => result), ["done"]);
    assert.deepEqual(access(system, HOST, flush(2)).answers.map(({ result }) => result), ["lost"]);
    assert.deepEqual(access(system, 1, flush(2)).answers.map(({ result }) => result), ["lost"]);
  });

  it("decision 12: of a line whose whole content is new is done", () => {
    const system = rack();
    system.host.lines.set(2, { ...hostLine(system.host, 2), memory: LOST });
    access(system, 2, store(2));
    assert.deepEqual(access(system, 1, flush(0, 4)).answers.map(({ result }) => result), ["done"]);
  });
});

describe("a directory in memory", () => {
  it("decision 7: writes memory where a line's right changes, unless its content is written anyway", () => {
    const agent = rack(), memory = rack("memory");
    for (const system of [agent, memory]) {
      // none → S: a write of the directory. S → X: one. X → X, with content: none beside it.
      access(system, 1, load(0));
      access(system, 1, store(0));
      access(system, 2, store(0));
      // X → S with the content.
      access(system, HOST, load(0));
    }
    assert.equal(agent.host.counts.directoryWrites, 0);
    assert.equal(memory.host.counts.directoryWrites, 2);
    assert.equal(memory.host.counts.cardWrites, 2);
  });

  it("decision 7: outlasts a power failure: what was lent exclusively is poisoned, and reported", () => {
    const agent = rack(), memory = rack("memory");
    for (const system of [agent, memory]) {
      access(system, 1, store(0));
      access(system, 1, load(1));
    }
    const out = newOutput();
    restartHost(memory.host, out);
    assert.deepEqual(out.lost, [0]);
    assert.equal(hostLine(memory.host, 0).memory, LOST);
    assert.notEqual(hostLine(memory.host, 1).memory, LOST);
    const forgets = newOutput();
    restartHost(agent.host, forgets);
    assert.deepEqual(forgets.lost, []);
    assert.deepEqual(hostLine(agent.host, 0).memory, new Uint8Array(64));
  });
});

describe("a power failure of home", () => {
  it("C-10, decision 12: finds what the local cache alone has, and nothing of clean lines", () => {
    const system = rack();
    does(system, 0, (out) => move(system.home, { region: 0, place: "local" }, out));
    access(system, 1, store(2, 9));
    access(system, 1, load(1));
    assert.deepEqual(dirtyInLocalCache(system.home), [
      { line: 2, data: new Uint8Array(64).fill(9) },
    ]);
    access(system, 1, flush(2));
    assert.deepEqual(dirtyInLocalCache(system.home), []);
  });
});

describe("a migration", () => {
  it("decision 18: brings each line home by ordinary transactions, and dirty ones to memory", () => {
    const system = rack();
    for (const line of [0, 1, 2]) access(system, 1, store(line, 20 + line));
    access(system, 2, load(3));
    const { traffic } = does(
      system,
      0,
      (out) => move(system.home, { region: 0, place: "local" }, out),
    );
    assert.deepEqual(traffic.wire, { RecI: 3, RecIData: 3, Inv: 1, InvAck: 1 });
    assert.deepEqual(traffic.bus, { WbMtoI: 3, Cmp: 3 });
    for (const line of [0, 1, 2]) {
      assert.deepEqual(hostLine(system.host, line).memory, new Uint8Array(64).fill(20 + line));
    }
    // Who does not know yet is told to ask again, at the new place.
    const late = access(system, 1, load(0)).traffic;
    assert.deepEqual(late.wire, { GetS: 1, Retry: 1, Read: 1, Value: 1 });
  });
});
