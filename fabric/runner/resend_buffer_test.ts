import { beforeEach, describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { ResendBuffer } from "./resend_buffer.ts";
import { type Event, EVENT_KINDS } from "../partition/event_queue.ts";

function event(time: number): Event {
  return {
    time,
    kind: EVENT_KINDS.message,
    source: 0,
    counter: time,
    target: 1,
    sourceLife: 0,
    targetLife: 0,
    input: { kind: "wake" },
  };
}

const batch = (first: number, ...times: number[]) => ({
  incarnation: 0,
  first,
  events: times.map(event),
});
const times = (events: readonly Event[]) => events.map(({ time }) => time);

describe("ResendBuffer", () => {
  let buffer: ResendBuffer;
  beforeEach(() => {
    buffer = new ResendBuffer();
  });

  it("counts for each span what was sent, with its earliest arrival, once", () => {
    for (const at of [30, 20, 25]) buffer.keep("b", event(at));
    assert.deepEqual(buffer.takeSent(), [["b", 3, 20]]);
    assert.deepEqual(buffer.takeSent(), []);
    buffer.keep("b", event(40));
    assert.deepEqual(buffer.takeSent(), [["b", 4, 40]]);
    assert.deepEqual(buffer.allSent(), [["b", 4, 20]]);
    buffer.confirm("b", 2);
    assert.deepEqual(buffer.allSent(), [["b", 4, 25]], "of what is not confirmed");
  });

  it("keeps what is not confirmed and sends it again from any number", () => {
    for (const time of [1, 2, 3, 4]) buffer.keep("b", event(time));
    buffer.confirm("b", 2);
    assert.deepEqual(times(buffer.keptFor("b", 0).events), [3, 4]);
    assert.equal(buffer.keptFor("b", 0).first, 2);
    assert.deepEqual(times(buffer.keptFor("b", 3).events), [4]);
    buffer.confirm("b", 1);
    assert.deepEqual(times(buffer.keptFor("b", 0).events), [3, 4]);
    assert.equal(buffer.keptFor("b", 0).first, 2, "an older confirmation changes nothing");
  });

  it("hands over each event once, in order, through loss, repetition and overlap", () => {
    buffer.receive("a", batch(2, 3, 4));
    assert.equal(buffer.have("a", 0, 4), 0);
    buffer.receive("a", batch(0, 1, 2));
    assert.equal(buffer.have("a", 0, 4), 2);
    buffer.receive("a", batch(1, 2, 3, 4));
    assert.equal(buffer.have("a", 0, 4), 4);
    assert.deepEqual(times(buffer.take("a", 0, 3)), [1, 2, 3]);
    buffer.receive("a", batch(0, 1, 2, 3, 4));
    assert.deepEqual(times(buffer.take("a", 0, 4)), [4]);
    assert.deepEqual(times(buffer.take("a", 0, 4)), []);
  });

  it("counts a peer's next incarnation from 0, beside what is left of the one before", () => {
    buffer.receive("a", batch(0, 1, 2));
    buffer.receive("a", { ...batch(0, 50), incarnation: 1 });
    assert.deepEqual(times(buffer.take("a", 1, 1)), [50]);
    assert.deepEqual(times(buffer.take("a", 0, 2)), [1, 2]);
  });

  it("begins after what an earlier life was sent, also where some of it is here already", () => {
    buffer.receive("a", batch(0, 1));
    buffer.skip("a", 0, 1);
    buffer.receive("a", batch(1, 2));
    assert.equal(buffer.have("a", 0, 2), 2);
    assert.deepEqual(times(buffer.take("a", 0, 2)), [2]);
  });
});
