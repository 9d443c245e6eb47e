import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { CrashCursor, HistoryLog, Pages } from "../explore/history.ts";
import { LineLog } from "./line_log.ts";

const SCM_BYTES = 3 * 4_096;

describe("LineLog", () => {
  it("P-05: has at any instant what the explorer's cursor finds after a power failure there", () => {
    const random = rngFor(7, "line-log");
    const below = (limit: number) => random.below(limit);
    const log = new LineLog(), history = new HistoryLog();
    const end = 2_000;
    for (let at = 1; at < end; at += below(3)) {
      const line = LINE_BYTES * below(SCM_BYTES / LINE_BYTES);
      const bytes = Uint8Array.from({ length: LINE_BYTES }, () => below(256));
      const what = below(20);
      if (what < 8) {
        log.dirty(at, line, bytes);
        history.dirty(at, line, bytes, 0);
      } else if (what < 14) {
        // Over lines and pages.
        const offset = below(SCM_BYTES - 300), data = bytes.subarray(0, 1 + below(60));
        log.durable(at, offset, data);
        history.durable(at, offset, data, 8);
      } else if (what < 17) {
        // A line is written back as it is, or as a core has just changed it.
        const { dirty = bytes } = log.stateOf(line, at),
          data = below(3) > 0 ? dirty.slice() : bytes;
        for (const each of [log, history]) {
          each.durable(at, line, data, LINE_BYTES);
          each.clean(at, line);
        }
      } else if (what < 19) {
        log.clean(at, line);
        history.clean(at, line);
      } else if (below(10) === 0) {
        log.beginLife(at);
        history.beginLife(at);
      }
    }
    // From here on, it is one that has forgotten what was before, twice.
    let kept = log;
    const cursor = new CrashCursor(history.entries, new Pages());
    for (let at = 1; at < end; at += 37) {
      cursor.moveTo(at);
      if (at === 1 + 37 * 20 || at === 1 + 37 * 35) kept = kept.since(at);
      assert.deepEqual(new Set(kept.dirtyLines(at)), new Set(cursor.dirty.keys()), `at ${at}`);
      for (let line = 0; line < SCM_BYTES; line += LINE_BYTES) {
        const { durable, dirty } = kept.stateOf(line, at);
        assert.deepEqual(durable, cursor.image.read(line, line + LINE_BYTES), `${line} at ${at}`);
        assert.deepEqual(dirty, cursor.dirty.get(line)?.versions.at(-1)?.bytes);
      }
    }
  });
});
