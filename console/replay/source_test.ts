import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { orderOnRecord } from "../../fabric/clock/record.ts";
import { inParts, noneRead, readOrders } from "./source.ts";

const CONTENT = new Uint8Array(3_000).fill(7);

function lineOf(counter: number): string {
  const program = { run: "put", at: 0, service: false, options: { content: CONTENT } };
  const order = { at: counter * 10, host: "a", counter, incarnation: 0, program };
  return JSON.stringify(orderOnRecord(order).line);
}

describe("readOrders", () => {
  it("gives each order once, also one whose room is filled behind a later one, and reads no more than what is open", () => {
    const directory = Deno.makeTempDirSync();
    try {
      const blank = lineOf(1).replaceAll(/./g, " "), length = blank.length + 1;
      const write = (lines: readonly string[], settled?: number) => {
        Deno.writeTextFileSync(
          `${directory}/orders.jsonl`,
          lines.map((each) => `${each}\n`).join(""),
        );
        if (settled === undefined) return;
        const at = JSON.stringify({ at: settled, bytes: 0 });
        Deno.writeTextFileSync(`${directory}/orders.settled`, at);
      };
      const read = noneRead();
      const counters = () => readOrders(directory, read).map(({ counter }) => counter);
      assert.deepEqual(counters(), [], "there is no record yet");
      write([lineOf(0), blank, lineOf(2)]);
      assert.deepEqual(counters(), [0, 2]);
      write([lineOf(0), lineOf(1), lineOf(2), lineOf(3)], 2 * length);
      assert.deepEqual(counters(), [1, 3]);
      // What is settled is not looked at any more.
      write(
        ["damaged", "damaged", lineOf(2), lineOf(3), lineOf(4)].map((line) =>
          line.padEnd(length - 1)
        ),
      );
      assert.deepEqual(counters(), [4]);
      assert.deepEqual(counters(), []);
      assert.equal(read.counters.size, 3, "what it keeps is of the open part alone");
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  });

  it("reads the content of an order when it is asked for, one by one", () => {
    const directory = Deno.makeTempDirSync();
    try {
      Deno.writeTextFileSync(`${directory}/orders.jsonl`, `${lineOf(0)}\n${lineOf(1)}\n`);
      const [first, second] = readOrders(directory, noneRead());
      Deno.mkdirSync(`${directory}/orders`);
      Deno.writeFileSync(`${directory}/orders/0`, CONTENT);
      assert.deepEqual(first!.program.options["content"], CONTENT);
      assert.throws(() => second!.program, /content of order 1/);
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  });
});

describe("inParts", () => {
  it("puts orders into frames that are bounded in bytes", () => {
    const orderOf = (counter: number, bytes: number) => {
      const options = { content: new Uint8Array(bytes) };
      const program = { run: "put", at: 0, service: false, options };
      return { time: counter, host: "a", life: 0, counter, program };
    };
    const orders = Array.from({ length: 40 }, (_, i) => orderOf(i, i === 20 ? 3 << 20 : 100 << 10));
    const parts = [...inParts(orders)];
    assert.deepEqual(parts.flat(), orders);
    const bytesOf = (part: typeof orders) =>
      part.reduce((sum, { program }) => sum + program.options.content.length, 0);
    for (const part of parts) {
      assert.ok(part.length === 1 || bytesOf(part as typeof orders) <= 1 << 20);
    }
    assert.ok(parts.length <= 7, "they are no more than that takes");
  });
});
