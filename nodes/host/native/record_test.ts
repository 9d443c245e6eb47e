import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { scriptedPort } from "../testing/native_testing.ts";
import {
  conversation,
  done,
  nativePortContract,
  replayErrorOf,
  REQUEST_FORMS,
  SCRIPTS,
  startOf,
} from "../testing/native_port_contract.ts";
import { MEMORY_BASE } from "../testing/native_testing.ts";
import { KnownMemory } from "./known_memory.ts";
import type { NativePort, NativeProcess } from "./port.ts";
import { RecordReader, RecordWriter, RequestCodec, Written } from "./record_format.ts";
import { recordingPort, type RecordSink } from "./recording_port.ts";
import { replayingPort } from "./replaying_port.ts";

interface Kept extends RecordSink {
  readonly parts: Uint8Array[];
  cutFor?: string;
}

function kept(): Kept {
  const parts: Uint8Array[] = [];
  const sink: Kept = {
    parts,
    append: (operations) => void parts.push(operations),
    flush() {},
    cut: (why) => void (sink.cutFor = why),
    close() {},
  };
  return sink;
}

function recording(most?: number): { readonly port: NativePort; readonly sink: Kept } {
  const sink = kept();
  const options = { open: () => sink, ...(most !== undefined && { most }) };
  return { port: recordingPort(scriptedPort(SCRIPTS), options), sink };
}

function replaying(parts: readonly Uint8Array[]): NativePort {
  let at = 0;
  return replayingPort("a", () => ({ next: () => parts[at++], lacks: () => "" }));
}

function recordOf(name: string, live: (process: NativeProcess) => unknown): readonly Uint8Array[] {
  const { port, sink } = recording();
  live(port.start(startOf(name)));
  return sink.parts;
}

nativePortContract("a scripted port", () => scriptedPort(SCRIPTS));
nativePortContract("a recording port", () => recording().port);
nativePortContract("a replaying port", () => {
  const records = new Map([
    ["talks", recordOf("talks", conversation)],
    ["silent", recordOf("silent", (process) => process.end())],
  ]);
  return { start: (start) => replaying(records.get(start.name)!).start(start) };
});

describe("a record", () => {
  const first = (process: NativeProcess) => {
    process.main.write(MEMORY_BASE, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    process.main.resume(done(10, { leasePs: 1_000 }));
  };
  const parts = () =>
    recordOf("talks", (process) => {
      first(process);
      process.kill();
    });
  const replayed = () => replaying(parts()).start(startOf("talks"));

  it("does not depend on leases, nor on the pieces in which the card writes", () => {
    const process = replayed();
    process.main.write(MEMORY_BASE + 8, Uint8Array.of(9, 10, 11, 12));
    process.main.write(MEMORY_BASE, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    assert.notEqual(process.main.resume(done(10, { leasePs: 20 })), undefined);
  });

  it("tells a reply at another instant", () => {
    const process = replayed();
    process.main.write(MEMORY_BASE, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    assert.equal(
      replayErrorOf(() => process.main.resume(done(11))),
      "Native program talks on a would have gone another way at the reply at 11 ps to request 1 " +
        "of thread 0 (sleep): recorded is 10 ps, found 11 ps. It needs to be run again.",
    );
  });

  it("tells other bytes in its memory", () => {
    const process = replayed();
    process.main.write(MEMORY_BASE, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13));
    assert.match(
      replayErrorOf(() => process.main.resume(done(10))),
      /: recorded is 12 B that the card has written to its memory, with hash .*, found 12 B /,
    );
  });

  it("tells a read that its run did not make", () => {
    assert.match(
      replayErrorOf(() => replayed().main.read(MEMORY_BASE, 64)),
      /recorded is a write of the card into its memory, found a read of 64 B at 0x100000\./,
    );
  });

  it("that ends too early is told with the place", () => {
    const process = replayed();
    first(process);
    assert.match(
      replayErrorOf(() => process.main.resume(done(30, { name: "post_send" }))),
      /^The record of native program talks on a ends before the reply at 30 ps to request 2 of /,
    );
  });

  it("of more bytes than are kept is cut, and the program goes on", () => {
    const { port, sink } = recording(40);
    const live = conversation(scriptedPort(SCRIPTS).start(startOf("talks")));
    assert.deepEqual(conversation(port.start(startOf("talks"))), live);
    assert.equal(sink.cutFor, "it was longer than 40 B");
  });

  it("has a program's every request, of each form and after each other", () => {
    const writer = new RecordWriter(), encoder = new RequestCodec();
    const all = [...REQUEST_FORMS, ...REQUEST_FORMS.toReversed()];
    for (const request of all) encoder.encode(writer, request);
    const bytes = writer.take(), decoder = new RequestCodec();
    const blocks = [bytes];
    const reader = new RecordReader(() => blocks.pop());
    assert.notEqual(reader.operation, undefined);
    for (const request of all) assert.deepEqual(decoder.decode(reader), request);
    assert.equal(reader.operation, undefined);
  });

  it("has whole numbers of each size", () => {
    const half = fc.maxSafeInteger().map((number) => Math.trunc(number / 2) + 0);
    const both = fc.property(fc.array(half), (numbers) => {
      const writer = new RecordWriter();
      for (const number of numbers) writer.difference(number);
      const blocks = [writer.take()], reader = new RecordReader(() => blocks.pop());
      assert.deepEqual(numbers.map(() => (reader.operation, reader.difference())), numbers);
    });
    fc.assert(both, seeded());
  });
});

describe("KnownMemory", () => {
  it("knows what was set, over pages, and zeros elsewhere", () => {
    const known = new KnownMemory(), bytes = Uint8Array.from({ length: 9_000 }, (_, i) => i % 255);
    known.set(4_095, bytes);
    assert.ok(known.has(4_095, bytes));
    assert.deepEqual(known.get(4_095, 9_000), bytes);
    assert.ok(known.has(100_000, new Uint8Array(64)));
    for (const at of [0, 1, 4_096, 8_999]) {
      const other = bytes.slice();
      other[at]!++;
      assert.equal(known.has(4_095, other), false);
    }
  });
});

describe("Written", () => {
  it("depends on bytes and places, not on pieces that begin at words", () => {
    const of = (...writes: (readonly [number, readonly number[]])[]) => {
      const written = new Written();
      for (const [at, bytes] of writes) written.add(at, Uint8Array.from(bytes));
      return written.take();
    };
    const whole = of([3, [1, 2, 3, 4, 5, 6, 7, 8]]);
    assert.deepEqual(of([8, [6, 7, 8]], [3, [1, 2, 3, 4, 5]]), whole);
    assert.notDeepEqual(of([4, [1, 2, 3, 4, 5, 6, 7, 8]]), whole);
    assert.notDeepEqual(of([3, [1, 2, 3, 4, 5, 6, 8, 7]]), whole);
  });
});
