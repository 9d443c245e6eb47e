import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Tracks } from "./tracks.ts";

describe("Tracks", () => {
  it("has as many lanes of a name as were needed at once, and names each once", () => {
    const tracks = new Tracks(10);
    const first = tracks.take(2, "IIO", 0);
    const second = tracks.take(2, "IIO", 0);
    assert.deepEqual([first.track, second.track], [{ pid: 12, tid: 1 }, { pid: 12, tid: 2 }]);
    second.freeAt = 5;
    assert.notEqual(tracks.take(2, "IIO", 4), second);
    assert.equal(tracks.take(2, "IIO", 5), second);
    assert.deepEqual(tracks.find(2, "IIO"), first.track);
    assert.deepEqual(tracks.find(3, "IIO"), { pid: 13, tid: 1 });
    const names = tracks.takeMetadata().filter(({ name }) => name === "thread_name");
    assert.deepEqual(names.map(({ args }) => args!["name"]), ["IIO", "IIO (2)", "IIO (3)", "IIO"]);
    assert.deepEqual(tracks.takeMetadata(), []);
  });
});
