import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { seeded } from "../base/property_testing.ts";
import { type Hear, Incoming, Outgoing } from "./nats_frames.ts";

const encoder = new TextEncoder(), decoder = new TextDecoder();

function bytesOf(...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const all = parts.map((part) => typeof part === "string" ? encoder.encode(part) : part);
  return new Uint8Array(all.flatMap((part) => [...part]));
}

/** What arrives as `parts` of a stream, in order. */
function heardOf(stream: Uint8Array, parts: readonly number[]) {
  const heard: { sid: number; subject: string; reply: string; payload: Uint8Array }[] = [];
  const others: string[] = [];
  const hear = (sid: number): Hear => (payload, subject, reply) =>
    heard.push({ sid, subject, reply, payload });
  const incoming = new Incoming(new Map([1, 23].map((sid) => [sid, hear(sid)])));
  for (let at = 0, i = 0; at < stream.length; i++) {
    const room = incoming.room;
    const count = Math.min(room.length, stream.length - at, parts[i % parts.length]!);
    room.set(stream.subarray(at, at + count));
    at += count;
    for (const other of incoming.take(count)) others.push(decoder.decode(other));
  }
  return { heard, others };
}

const STREAM = bytesOf(
  'INFO {"server_id":"x y z", "max_payload": 1048576, "a": "b c d e f g"}\r\n',
  "PONG\r\n",
  ...["MSG rack.r.wire.a.b 1 4\r\n", Uint8Array.of(13, 10, 77, 0), "\r\n"],
  "PING\r\n",
  "MSG rack.r.wire.a.b 23 rack.r.answer.b.a.x-7 0\r\n\r\n",
  "HMSG rack.r.answer.b.a.x-7 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
  "-ERR 'Permissions Violation for Publish to \"rack.r.wire.b.a\"'\r\n",
  "MSG t 4 5\r\nMSG x\r\n",
  "+OK\r\n",
  "MSG t 1 3\r\nend\r\n",
);

function assertStream({ heard, others }: ReturnType<typeof heardOf>): void {
  assert.deepEqual(heard, [
    { sid: 1, subject: "rack.r.wire.a.b", reply: "", payload: Uint8Array.of(13, 10, 77, 0) },
    {
      sid: 23,
      subject: "rack.r.wire.a.b",
      reply: "rack.r.answer.b.a.x-7",
      payload: new Uint8Array(),
    },
    { sid: 1, subject: "t", reply: "", payload: encoder.encode("end") },
  ]);
  assert.deepEqual(others.map((other) => other.split(" ")[0]!.trim()), [
    ...["INFO", "PONG", "PING", "HMSG", "-ERR", "MSG", "+OK"],
  ]);
  assert.equal(others[3], "HMSG rack.r.answer.b.a.x-7 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n");
  assert.equal(others[5], "MSG t 4 5\r\nMSG x\r\n");
}

describe("Incoming", () => {
  it("hands over messages of known subscriptions, and all else whole, wherever reads cut it up", () => {
    assertStream(heardOf(STREAM, [STREAM.length]));
    assertStream(heardOf(STREAM, [1]));
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
        (parts) => assertStream(heardOf(STREAM, parts)),
      ),
      seeded(),
    );
  });

  it("makes room for a message of any size, and never writes again over one that was handed over", () => {
    const sizes = [100, 64 << 10, 1, 300_000, 70_000, 0];
    const payloads = sizes.map((size, i) => new Uint8Array(size).fill(i + 1));
    const stream = new Uint8Array(
      payloads.flatMap((payload) => [
        ...bytesOf(`MSG t 1 ${payload.length}\r\n`),
        ...payload,
        13,
        10,
      ]),
    );
    for (const part of [1_000, 65_536, 1 << 20]) {
      const { heard } = heardOf(stream, [part]);
      assert.deepEqual(heard.map(({ payload }) => payload), payloads);
    }
  });

  it("ends with a sentence where it does not understand the server", () => {
    for (
      const line of ["MSG t 1", "MSG t 1 x", "MSG t 1 -1", "MSG t 1 99999999999", "MSG a b c d e 1"]
    ) {
      const read = () => heardOf(bytesOf(`${line}\r\n`), [100]);
      assert.throws(
        read,
        { kind: "lost", message: /Cannot read what the server says: MSG / },
        line,
      );
    }
  });
});

describe("Outgoing", () => {
  it("writes messages and the client's operations in the order of their coming", () => {
    const outgoing = new Outgoing();
    assert.equal(outgoing.isEmpty, true);
    outgoing.append(bytesOf("SUB t 1\r\n"));
    outgoing.publish("t", new Uint8Array());
    outgoing.publish("t", encoder.encode("nine byte"));
    outgoing.publish("rack.r.control.status", encoder.encode("ten bytes."), "rack.r.answer.b.a.1");
    outgoing.append(bytesOf("PING\r\n"));
    outgoing.publish("t", encoder.encode("x".repeat(100)));
    assert.equal(outgoing.isEmpty, false);
    assert.equal(
      decoder.decode(outgoing.take()),
      "SUB t 1\r\nPUB t 0\r\n\r\nPUB t 9\r\nnine byte\r\n" +
        "PUB rack.r.control.status rack.r.answer.b.a.1 10\r\nten bytes.\r\n" +
        `PING\r\nPUB t 100\r\n${"x".repeat(100)}\r\n`,
    );
    assert.equal(outgoing.isEmpty, true);
  });

  it("leaves alone what was taken until more is", () => {
    const outgoing = new Outgoing();
    outgoing.publish("t", encoder.encode("first"));
    const taken = outgoing.take();
    outgoing.publish("t", encoder.encode("second"));
    outgoing.publish("t", new Uint8Array(200_000));
    assert.equal(decoder.decode(taken), "PUB t 5\r\nfirst\r\n");
    const more = outgoing.take();
    outgoing.publish("t", encoder.encode("third"));
    assert.equal(more.length, "PUB t 6\r\nsecond\r\nPUB t 200000\r\n\r\n".length + 200_000);
    assert.equal(decoder.decode(more.subarray(0, 17)), "PUB t 6\r\nsecond\r\n");
    assert.equal(decoder.decode(outgoing.take()), "PUB t 5\r\nthird\r\n");
  });

  it("takes a payload as it is at that moment", () => {
    const outgoing = new Outgoing(), payload = encoder.encode("now");
    outgoing.publish("t", payload);
    payload.fill(0);
    assert.equal(decoder.decode(outgoing.take()), "PUB t 3\r\nnow\r\n");
  });

  it("knows the subjects on which something was published last, a thousand at most", () => {
    const outgoing = new Outgoing();
    assert.equal(outgoing.knows("t"), false);
    outgoing.publish("t", new Uint8Array());
    assert.equal(outgoing.knows("t"), true);
    for (let i = 0; i < 2_000; i++) outgoing.publish(`answer.${i}`, new Uint8Array());
    assert.equal(outgoing.knows("answer.1999"), true);
    const known = Array.from({ length: 2_000 }, (_, i) => outgoing.knows(`answer.${i}`));
    assert.ok(known.filter((isKnown) => isKnown).length <= 1_024);
    assert.equal(outgoing.knows("t"), false);
    outgoing.publish("t", encoder.encode("again"));
    assert.ok(decoder.decode(outgoing.take()).endsWith("PUB t 5\r\nagain\r\n"));
    assert.equal(outgoing.knows("t"), true);
  });
});
