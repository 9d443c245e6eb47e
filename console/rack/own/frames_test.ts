import { deepStrictEqual as same, equal, rejects } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { framed, framesOf, isSaid } from "./frames.ts";

async function read(...parts: Uint8Array<ArrayBuffer>[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const frame of framesOf(ReadableStream.from(parts))) found.push(frame);
  return found;
}

describe("framesOf", () => {
  it("gives back what was framed, in parts of any size, up to the end", async () => {
    const values = [["answer", { a: [1, "x"], bytes: new Uint8Array([1, 2]) }], "stop", 5];
    const all = Uint8Array.from(values.flatMap((value) => [...framed(value)]));
    for (const size of [1, 3, 7, all.length]) {
      const parts = Array.from(
        { length: Math.ceil(all.length / size) },
        (_, i) => all.slice(i * size, (i + 1) * size),
      );
      same(await read(...parts), values);
    }
    same(await read(all.slice(0, -1)), values.slice(0, -1));
  });

  it("refuses bytes that are no message", async () => {
    await rejects(read(Uint8Array.of(0, 0, 0, 1, 0xff)), /Found damaged bytes/);
  });
});

describe("isSaid", () => {
  it("knows what a process says", () => {
    for (const said of [["progress", 1], ["answer", null], ["failed", { message: "x", code: 2 }]]) {
      equal(isSaid(said), true);
    }
    for (const other of [1, null, [], ["else"], ["failed"], ["failed", { message: 1 }]]) {
      equal(isSaid(other), false);
    }
  });
});
