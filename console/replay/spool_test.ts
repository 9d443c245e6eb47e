import assert from "node:assert/strict";
import { afterAll, describe, it } from "@std/testing/bdd";
import { Spool, spooled } from "./spool.ts";

/** Without a name: it is gone when it is closed. */
function openFile(): Deno.FsFile {
  const path = Deno.makeTempFileSync(), file = Deno.openSync(path, { read: true, write: true });
  Deno.removeSync(path);
  return file;
}

const file = openFile();
afterAll(() => file.close());

describe("Spool", () => {
  it("gives back what it was given, and holds no more in memory than it may", () => {
    const spool = new Spool(file, { cacheBytes: 1_000 });
    const all = Array.from({ length: 50 }, (_, i) => new Uint8Array(1 + 7 * i).fill(i));
    const places = all.map((each) => spool.keep(each));
    for (const i of [3, 49, 0, 3, 20, ...all.keys()].toReversed()) {
      assert.deepEqual(spool.read(places[i]!, all[i]!.length), all[i]);
      assert.deepEqual(spool.look(places[i]!, all[i]!.length), all[i]);
      assert.ok(spool.bytes.cached <= 1_000, `${spool.bytes.cached} B in memory`);
    }
    assert.equal(spool.bytes.kept, all.reduce((sum, { length }) => sum + length, 0));
    const [place, bytes] = [places[3]!, all[3]!];
    assert.equal(spool.look(place, bytes.length), spool.look(place, bytes.length));
    // A reader's own bytes are its own.
    spool.read(place, bytes.length).fill(255);
    assert.deepEqual(spool.look(place, bytes.length), bytes);
  });

  it("takes no more of the disk than it may, and says so", () => {
    const spool = new Spool(file, { fileBytes: 1_000 });
    spool.keep(new Uint8Array(900));
    assert.throws(
      () => spool.keep(new Uint8Array(101)),
      /needs more than 1000 B of disk, the most/,
    );
    assert.equal(spool.bytes.kept, 900);
    spool.keep(new Uint8Array(100));
  });

  it("says what is not there", () => {
    const spool = new Spool(file);
    assert.throws(() => spool.read(1e6, 3), /Found 0 B in the replay's file, expected 3/);
  });
});

describe("spooled", () => {
  it("leaves an order as it was, but for its content, which is read whenever it is asked for", () => {
    const spool = new Spool(file), content = new Uint8Array(3_000).fill(7);
    const program = { run: "put", at: 0, service: false, options: { to: "b", content } };
    const order = { time: 5, host: "a", life: 0, counter: 1, program };
    const kept = spooled(order, spool);
    assert.deepEqual(kept, order);
    assert.deepEqual(Object.keys(kept.program.options), Object.keys(program.options));
    assert.notEqual(kept.program.options["content"], kept.program.options["content"]);
    assert.deepEqual(spool.bytes, { kept: 3_000, cached: 0 });
    const none = { ...order, program: { ...program, options: { to: "b" } } };
    assert.equal(spooled(none, spool), none);
  });
});
