import { beforeEach, describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { PostOffice } from "./resend_buffer.ts";
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

describe("PostOffice", () => {
  let post: PostOffice;
  beforeEach(() => {
    post = new PostOffice();
  });

  it("tells of each span what was sent and its earliest arrival, once", () => {
    for (const at of [30, 20, 25]) post.post("b", event(at));
    assert.deepEqual(post.takeSent(), [["b", 3, 20]]);
    assert.deepEqual(post.takeSent(), []);
    post.post("b", event(40));
    assert.deepEqual(post.takeSent(), [["b", 4, 40]]);
    assert.deepEqual(post.allSent(), [["b", 4, 20]]);
    post.confirm("b", 2);
    assert.deepEqual(post.allSent(), [["b", 4, 25]], "of what is not confirmed");
  });

  it("keeps what is not confirmed and sends it again from any number", () => {
    for (const time of [1, 2, 3, 4]) post.post("b", event(time));
    post.confirm("b", 2);
    assert.deepEqual(times(post.keptFor("b", 0).events), [3, 4]);
    assert.equal(post.keptFor("b", 0).first, 2);
    assert.deepEqual(times(post.keptFor("b", 3).events), [4]);
    post.confirm("b", 1);
    assert.deepEqual(times(post.keptFor("b", 0).events), [3, 4]);
    assert.equal(post.keptFor("b", 0).first, 2, "an older word of it changes nothing");
  });

  it("hands over each event once, in order, through loss, repetition and overlap", () => {
    post.receive("a", batch(2, 3, 4));
    assert.equal(post.have("a", 0, 4), 0);
    post.receive("a", batch(0, 1, 2));
    assert.equal(post.have("a", 0, 4), 2);
    post.receive("a", batch(1, 2, 3, 4));
    assert.equal(post.have("a", 0, 4), 4);
    assert.deepEqual(times(post.take("a", 0, 3)), [1, 2, 3]);
    post.receive("a", batch(0, 1, 2, 3, 4));
    assert.deepEqual(times(post.take("a", 0, 4)), [4]);
    assert.deepEqual(times(post.take("a", 0, 4)), []);
  });

  it("counts a peer's next incarnation from 0, beside what is left of the one before", () => {
    post.receive("a", batch(0, 1, 2));
    post.receive("a", { ...batch(0, 50), incarnation: 1 });
    assert.deepEqual(times(post.take("a", 1, 1)), [50]);
    assert.deepEqual(times(post.take("a", 0, 2)), [1, 2]);
  });

  it("begins after what an earlier life was sent, also where some of it is here already", () => {
    post.receive("a", batch(0, 1));
    post.skip("a", 0, 1);
    post.receive("a", batch(1, 2));
    assert.equal(post.have("a", 0, 2), 2);
    assert.deepEqual(times(post.take("a", 0, 2)), [2]);
  });
});
