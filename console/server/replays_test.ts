/** Who asks for a replay while all are busy waits in a line: nobody is refused, none waits for ever. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Replay, ReplayOptions } from "../replay/client.ts";
import { Replays, ReplaysBusy } from "./replays.ts";

interface Opening {
  readonly run: string;
  readonly options: ReplayOptions;
  readonly opened: PromiseWithResolvers<Replay>;
}

/** Replays that open when a test says so. */
function replaysOf(openMax: number): { readonly replays: Replays; readonly openings: Opening[] } {
  const openings: Opening[] = [];
  const open = (({ run }, options = {}) => {
    const opened = Promise.withResolvers<Replay>();
    openings.push({ run, options, opened });
    return opened.promise;
  }) as typeof Replay.open;
  return { replays: new Replays({ wallMs: () => 0, openMax, open }), openings };
}

const REPLAY = { isOver: false, close: () => Promise.resolve() } as unknown as Replay;

/** A question that is answered when a test says so. */
function asked(replays: Replays, ...runs: string[]) {
  return askedBy(undefined, replays, ...runs);
}

function askedBy(user: string | undefined, replays: Replays, ...runs: string[]) {
  const answer = Promise.withResolvers<string>(), leaving = new AbortController();
  const targets = runs.map((run) => ({ run }));
  const done = replays.askTogether(targets, () => answer.promise, {
    signal: leaving.signal,
    user,
  });
  return { answer: () => answer.resolve(runs.join()), done, leave: () => leaving.abort() };
}

/** Until all that can go on has. */
const settled = () => new Promise((resolve) => setTimeout(resolve));

describe("Replays", () => {
  it("opens as many as it may; the next ones wait in the order in which they came", async () => {
    const { replays, openings } = replaysOf(2);
    const all = ["a", "b", "c", "d"].map((run) => asked(replays, run));
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b"]);
    assert.deepEqual(["c", "d", "e"].map((run) => replays.stateOf({ run })), [
      { state: "waiting", place: 1, length: 2, before: ["a", "b"] },
      { state: "waiting", place: 2, length: 2, before: ["a", "b"] },
      { state: "closed" },
    ]);
    // An open one is asked at once.
    const again = asked(replays, "b");
    for (const { opened } of openings) opened.resolve(REPLAY);
    again.answer();
    assert.equal(await again.done, "b");
    all[0]!.answer();
    assert.equal(await all[0]!.done, "a");
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b", "c"]);
    assert.deepEqual(replays.stateOf({ run: "d" }), {
      ...{ state: "waiting", place: 1, length: 1, before: ["b", "c"] },
    });
    openings[2]!.opened.resolve(REPLAY);
    for (const each of all) each.answer();
    await all[2]!.done;
    assert.equal(openings.at(-1)!.run, "d");
    openings.at(-1)!.opened.resolve(REPLAY);
    await all[3]!.done;
    await replays.end();
  });

  it("lets nobody overtake one that needs more room", async () => {
    const { replays, openings } = replaysOf(2);
    const [a, b, both, e] = [["a"], ["b"], ["c", "d"], ["e"]].map((runs) =>
      asked(replays, ...runs)
    );
    for (const { opened } of openings) opened.resolve(REPLAY);
    a!.answer();
    await a!.done;
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b"], "there is room for e alone");
    for (const each of [b, both, e]) each!.answer();
    for (let done = 2; done < 5; done++) {
      await settled();
      openings[done]!.opened.resolve(REPLAY);
    }
    await Promise.all([b!.done, both!.done, e!.done]);
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b", "c", "d", "e"]);
    await replays.end();
  });

  it("says how far a replay is, and that it is there", async () => {
    const { replays, openings } = replaysOf(1);
    const one = asked(replays, "a");
    const progress = { atPs: 5, endPs: 10, events: 7 };
    openings[0]!.options.onProgress!(progress);
    assert.deepEqual(replays.stateOf({ run: "a" }), {
      state: "replaying",
      pass: "first",
      ...progress,
    });
    openings[0]!.opened.resolve(REPLAY);
    one.answer();
    await one.done;
    assert.deepEqual(replays.stateOf({ run: "a" }), { state: "ready" });
    // A question about an early instant: it takes another pass.
    const other = asked(replays, "a");
    await settled();
    assert.deepEqual(replays.stateOf({ run: "a" }), { state: "ready" });
    openings[0]!.options.onProgress!(progress);
    const again = { state: "replaying", pass: "again", ...progress };
    assert.deepEqual(replays.stateOf({ run: "a" }), again);
    other.answer();
    await other.done;
    assert.deepEqual(replays.stateOf({ run: "a" }), { state: "ready" });
    await replays.end();
  });

  it("never holds one replay while it waits for another", async () => {
    const { replays, openings } = replaysOf(2);
    const all = [asked(replays, "a", "b"), asked(replays, "b", "c"), asked(replays, "c", "a")];
    for (const each of all) each.answer();
    for (let done = 0; done < openings.length; done++) {
      openings[done]!.opened.resolve(REPLAY);
      await settled();
    }
    assert.deepEqual(await Promise.all(all.map(({ done }) => done)), ["a,b", "b,c", "c,a"]);
    await replays.end();
  });

  it("leaves room for others: one user's questions hold two, and those behind them are not in others' way", async () => {
    const { replays, openings } = replaysOf(3);
    const [one, , third] = ["a", "b", "c"].map((run) => askedBy("ada", replays, run));
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b"]);
    assert.equal(replays.stateOf({ run: "c" }).state, "waiting");
    const other = askedBy("bob", replays, "d");
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b", "d"]);
    for (const { opened } of openings) opened.resolve(REPLAY);
    other.answer();
    await other.done;
    assert.equal(replays.stateOf({ run: "c" }).state, "waiting", "there is room, but not for ada");
    one!.answer();
    await one!.done;
    assert.deepEqual(openings.map(({ run }) => run), ["a", "b", "d", "c"]);
    openings.at(-1)!.opened.resolve(REPLAY);
    third!.answer();
    await third!.done;
    await replays.end();
  });

  it("lets one go that fails, that leaves, and all when the console ends", async () => {
    const { replays, openings } = replaysOf(1);
    const [first, second, third, fourth] = ["a", "b", "c", "d"].map((run) => asked(replays, run));
    second!.leave();
    await assert.rejects(second!.done, { name: "AbortError" });
    openings[0]!.opened.reject(new Error("it is inexact"));
    await assert.rejects(first!.done, /inexact/);
    assert.deepEqual(openings.map(({ run }) => run), ["a", "c"]);
    assert.deepEqual(replays.stateOf({ run: "a" }), { state: "closed" });
    openings[1]!.opened.resolve(REPLAY);
    await settled();
    await Promise.all([replays.end(), assert.rejects(fourth!.done, ReplaysBusy)]);
    third!.answer();
    await third!.done;
    await assert.rejects(asked(replays, "e").done, ReplaysBusy);
  });
});
