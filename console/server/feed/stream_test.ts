/** A page that stops reading costs nothing: it loses detail, and is told so. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Batch, StateMessage } from "../../api/feed.ts";
import type { Console } from "../context.ts";
import { Ring } from "./ring.ts";
import { feed } from "./stream.ts";

const STATE: StateMessage = {
  type: "state",
  run: "r",
  scenario: "s",
  seed: 1,
  clock: null,
  nodes: [],
  processes: [],
  links: [],
  counters: {},
  traffic: [],
};

/** A rack that says what the test tells it to. */
function stage() {
  const ring = new Ring(0, { messages: 50 });
  const readers = new Set<() => void>();
  const watchers = {
    join: (_run: string, wake: () => void) => {
      readers.add(wake);
      const watcher = { ring, state: () => Promise.resolve(STATE) };
      return { watcher, leave: () => readers.delete(wake) };
    },
  };
  const jobs = { list: () => [], join: () => () => {}, find: () => undefined, runsVersion: 0 };
  const parts = { watchers, jobs } as unknown as Pick<Console, "watchers" | "jobs">;
  const say = (atPs: number) => {
    ring.push({ type: "report", node: "a", topic: "t", value: null, atPs });
    for (const wake of readers) wake();
  };
  return { parts, readers, say };
}

describe("feed", () => {
  it("holds nothing for a reader that does not read, and tells it what it has missed", async () => {
    const { parts, readers, say } = stage();
    const batches: Batch[] = [];
    let read = Promise.withResolvers<void>(), end = () => {};
    const done = feed({
      ...parts,
      run: "r",
      after: undefined,
      isAborted: () => false,
      write: async (line) => {
        batches.push(JSON.parse(line));
        await read.promise;
      },
      onEnd: (stop) => end = stop,
    });
    await turn();
    assert.deepEqual(batches.map(({ messages }) => messages.map(({ type }) => type)), [["state"]]);
    for (let i = 1; i <= 1_000; i++) say(i);
    await turn();
    assert.equal(batches.length, 1, "nothing is written to it meanwhile");
    read.resolve();
    await turn(100);
    assert.deepEqual(batches[1]!.messages.map(({ type }) => type), ["dropped", "state"]);
    assert.deepEqual(batches[1]!.messages[0], { type: "dropped", count: 950 });
    read = Promise.withResolvers();
    read.resolve();
    for (let i = 0; i < 20; i++) say(i);
    await turn(100);
    const last = batches.slice(2).flatMap(({ messages }) => messages);
    assert.equal(last.length, 20);
    assert.ok(batches.length <= 5, `${batches.length} lines: what comes at once is one`);
    end();
    await done;
    assert.equal(readers.size, 0);
  });
});

function turn(ms = 5): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
