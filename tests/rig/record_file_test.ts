/** Files of records of the timekeeper (`fabric/clock/record_file.ts`): unit tests may write no file. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { RecordError } from "../../fabric/clock/record.ts";
import { appendLine, readLines } from "../../fabric/clock/record_file.ts";

describe("a file of records", () => {
  let directory: string, file: string;

  beforeEach(() => {
    directory = Deno.makeTempDirSync();
    file = `${directory}/faults.jsonl`;
  });

  afterEach(() => Deno.removeSync(directory, { recursive: true }));

  it("has whole lines for who comes after one that was killed in the middle of a line, and for the next", () => {
    assert.deepEqual(readLines(file), []);
    appendLine(file, { at: 1 });
    appendLine(file, { at: 2, of: "größer als ein Byte" });
    const line = `${JSON.stringify({ at: 3, of: "größer" })}\n`;
    const bytes = new TextEncoder().encode(line);
    for (let cut = 1; cut < bytes.length; cut++) {
      Deno.writeFileSync(file, bytes.subarray(0, cut), { append: true });
      assert.deepEqual(readLines<{ at: number }>(file).map(({ at }) => at), [1, 2]);
      assert.ok(Deno.readTextFileSync(file).endsWith("}\n"), "half a line is gone");
    }
    appendLine(file, { at: 4 });
    assert.deepEqual(readLines<{ at: number }>(file).map(({ at }) => at), [1, 2, 4]);
  });

  it("is read from where a line begins, and what was never used of its room is none", () => {
    appendLine(file, 1);
    const from = Deno.statSync(file).size;
    Deno.writeTextFileSync(file, `${" ".repeat(20)}\n`, { append: true });
    appendLine(file, 2);
    Deno.writeTextFileSync(file, "[3", { append: true });
    assert.deepEqual(readLines(file, from), [2]);
    assert.deepEqual(readLines(file), [1, 2]);
  });

  it("says where it cannot be written", () => {
    const nowhere = `${directory}/none/x.jsonl`;
    assert.throws(
      () => appendLine(nowhere, 1),
      (error) =>
        error instanceof RecordError && error.message.startsWith(`Cannot write ${nowhere}: `),
    );
  });
});
