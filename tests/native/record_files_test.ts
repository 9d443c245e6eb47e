/** Files of records of native programs (`nodes/native_records.ts`): what a killed process leaves of them. */
import assert from "node:assert/strict";
import { afterAll, describe, it } from "@std/testing/bdd";
import { recordingPort } from "../../nodes/host/native/recording_port.ts";
import { scriptedPort } from "../../nodes/host/testing/native_testing.ts";
import {
  conversation,
  done,
  replayErrorOf,
  SCRIPTS,
  startOf,
} from "../../nodes/host/testing/native_port_contract.ts";
import { inexactIn } from "../../console/rack/fault_lines.ts";
import { OutputError } from "../../fabric/base/run_ending_error.ts";
import { withFiles } from "../support/native_rack.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { openRecord, readRecords, RECORDED_FOLDER, Records } from "../../nodes/native_records.ts";

const folder = await Deno.makeTempDir({ prefix: "rackmesh-record-files-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

const newDirectory = () => Deno.makeTempDirSync({ dir: folder });
const fileOf = (directory: string) => `${directory}/${RECORDED_FOLDER}/a/talks`;

function portInto(directory: string, most?: number) {
  return recordingPort(scriptedPort(SCRIPTS), {
    open: ({ name }) => openRecord(directory, { host: "a", life: 0, name }),
    ...(most !== undefined && { most }),
  });
}

function replayed(directory: string) {
  return new Records(readRecords(directory)).port("a", 0).start(startOf("talks"));
}

describe("files of records", () => {
  it("have a whole run, in one file for the owner alone", () => {
    const directory = newDirectory();
    const seen = conversation(portInto(directory).start(startOf("talks")));
    assert.deepEqual([...Deno.readDirSync(`${directory}/${RECORDED_FOLDER}/a`)].length, 1);
    assert.equal(Deno.statSync(fileOf(directory)).mode! & 0o777, 0o600);
    assert.deepEqual(conversation(replayed(directory)), seen);
  });

  it("have all that was flushed before their process was killed", () => {
    const directory = newDirectory(), port = portInto(directory);
    const process = port.start(startOf("talks"));
    process.main.resume(done(10));
    port.flush();
    process.main.resume(done(20, { name: "post_send" }));
    port.flush();
    process.main.resume(done(30, { name: "post_send" }));
    const again = replayed(directory);
    assert.ok(again.main.resume(done(10)) !== undefined);
    assert.ok(again.main.resume(done(20, { name: "post_send" })) !== undefined);
    assert.match(
      replayErrorOf(() => again.main.resume(done(30, { name: "post_send" }))),
      /^The record of native program talks on a ends before the reply at 30 ps to request 3 of thread 0 \(post_send\): how the program went on is not known\. It needs to be run again\.$/,
    );
  });

  it("drop half a block at their end, and say it where it is needed", () => {
    const directory = newDirectory(), port = portInto(directory);
    const process = port.start(startOf("talks"));
    port.flush();
    process.main.resume(done(10));
    port.flush();
    const tail = `${fileOf(directory)}.tail`;
    Deno.truncateSync(tail, Deno.statSync(tail).size - 1);
    assert.match(
      replayErrorOf(() => replayed(directory).main.resume(done(10))),
      /ends before the reply at 10 ps to request 1 of thread 0 \(sleep\) \(\d+ B behind its last whole block are dropped: its host was killed as it wrote them\): /,
    );
  });

  it("are as long as their process has come, also where it was killed between a block and its tail's end", () => {
    const directory = newDirectory();
    const sink = openRecord(directory, { host: "a", life: 0, name: "talks" });
    const parts: Uint8Array<ArrayBuffer>[] = [];
    const record = recordingPort(scriptedPort(SCRIPTS), {
      open: () => ({ ...sink, append: (part) => void parts.push(part), flush() {}, close() {} }),
    });
    const seen = conversation(record.start(startOf("talks")));
    for (const part of parts) sink.append(part);
    sink.flush();
    const tail = Deno.readFileSync(`${fileOf(directory)}.tail`);
    sink.close();
    Deno.writeFileSync(`${fileOf(directory)}.tail`, tail);
    assert.deepEqual(conversation(replayed(directory)), seen);
  });

  it("may grow while a replay reads them", () => {
    const directory = newDirectory(), port = portInto(directory);
    const process = port.start(startOf("talks"));
    port.flush();
    const records = new Records(readRecords(directory));
    const again = records.port("a", 0).start(startOf("talks"));
    replayErrorOf(() => again.main.resume(done(10)));
    process.main.resume(done(10));
    process.kill();
    records.take(readRecords(directory));
    const other = records.port("a", 0).start(startOf("talks"));
    assert.ok(other.main.resume(done(10)) !== undefined);
  });

  it("of a record that was cut are refused, with the reason, which the run's end has, too", () => {
    const directory = newDirectory();
    conversation(portInto(directory, 100).start(startOf("talks")));
    assert.deepEqual(inexactIn(directory), [
      "the record of native program talks on a is not whole: it was longer than 100 B",
    ]);
    assert.equal(
      replayErrorOf(() => replayed(directory)),
      "The record of native program talks on a is not whole: it was longer than 100 B. It needs to " +
        "be run again.",
    );
  });

  it("on a full disk end the run with a sentence, and leave no record that lacks something", () => {
    const directory = newDirectory(), path = `${directory}/${RECORDED_FOLDER}/a/full`;
    Deno.mkdirSync(`${directory}/${RECORDED_FOLDER}/a`, { recursive: true });
    Deno.symlinkSync("/dev/full", path);
    const text = `
name: full
hosts: { a: { services: none } }
programs: [{ on: a, native: [silent] }]
`;
    const open = () => openRecord(directory, { host: "a", life: 0, name: "full" });
    const native = () => recordingPort(scriptedPort(SCRIPTS), { open });
    const rack = new SimulatedRack(text, {
      native,
      change: (plan) => withFiles(plan, {}, "silent"),
    });
    assert.throws(() => rack.run(), (error: Error) => {
      assert.ok(error instanceof OutputError, String(error));
      assert.match(error.message, /^Cannot write .*\/recorded\/a\/full: No space left on device/);
      return true;
    });
    assert.deepEqual(readRecords(directory), []);
  });

  it("of many blocks are read in order", () => {
    const directory = newDirectory();
    const sink = openRecord(directory, { host: "a", life: 0, name: "many" });
    const parts = Array.from({ length: 40 }, (_, i) => new Uint8Array(30_000).fill(i + 1));
    for (const part of parts) {
      sink.append(part);
      sink.flush();
    }
    const [record] = readRecords(directory);
    const all = parts.reduce((sum, { length }) => sum + length, 0);
    assert.ok(record!.file.length + record!.tail.length < all / 2);
    sink.close();
    const text = readRecords(directory)[0]!;
    assert.equal(text.tail.length, 0);
  });
});
