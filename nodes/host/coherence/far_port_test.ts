import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { FarPort } from "./far_port.ts";

function bench() {
  const ended: string[] = [], refused: number[] = [];
  const port = new FarPort({
    send: () => {},
    ended: (ticket, { result }) => void ended.push(`${ticket} ${result}`),
    refused: (region) => void refused.push(region),
  });
  const answer = (tag: number, result: "done" | "refused") =>
    port.take({ kind: "far-answer", tag, result });
  return { port, ended, refused, answer };
}

describe("FarPort", () => {
  it("decision 13: each access ends once, however often the card fails, and whatever comes late", () => {
    const { port, ended, answer } = bench();
    for (const ticket of [1, 2]) port.request(ticket, { region: 7, line: 0, op: "load" });
    answer(1, "done");
    answer(1, "done");
    port.disconnected();
    port.disconnected();
    answer(2, "done");
    assert.deepEqual(ended, ["1 done", "2 fenced"]);
    port.request(3, { region: 7, line: 0, op: "load" });
    port.disconnected();
    assert.deepEqual(ended.slice(2), ["3 fenced"]);
  });

  it("tells of the region that the card has refused, before the access ends", () => {
    const { port, ended, refused, answer } = bench();
    port.request(1, { region: 7, line: 0, op: "load" });
    port.request(2, { region: 8, line: 0, op: "store" });
    answer(2, "refused");
    assert.deepEqual([refused, ended], [[8], ["2 refused"]]);
    answer(2, "refused");
    assert.deepEqual(refused, [8]);
  });
});
