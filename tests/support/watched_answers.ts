/** The order of answers, to which every whole rack is held, for the unit rig and for files of captures. */
import assert from "node:assert/strict";
import { AnswerOrder } from "../../console/checks/answer_order.ts";
import { describeFrame } from "../../fabric/trace/describe.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import type { ReadCapture } from "./pcapng_reader.ts";
import type { Rig } from "../../nodes/rnic/testing/rnic_testing.ts";

/** What is wrong with the answers of each card in a capture, whose ports are named after them. */
export function wrongAnswersIn({ frames }: ReadCapture): string[] {
  const orders = new Map<string, AnswerOrder>();
  return frames.flatMap(({ port, direction, bytes }) => {
    if (!/^[^:]*-rnic:/.test(port)) return [];
    const order = orders.get(port) ?? new AnswerOrder();
    orders.set(port, order);
    if (direction === "out") return order.sent(bytes, 0)?.text ?? [];
    order.received(bytes);
    return [];
  });
}

/** Watches the rig's cards from now on. @returns what fails where an answer was out of order meanwhile. */
export function watchAnswers(rig: Rig): () => AnswerOrder["answers"] {
  const orders = { a: new AnswerOrder(), b: new AnswerOrder() };
  const found: string[] = [];
  rig.watch = (side, kind, bytes) => {
    // A damaged frame is not taken.
    if (isRefusal(decodePacket(bytes))) return;
    if (kind === "received") return orders[side].received(bytes);
    const wrong = orders[side].sent(bytes, 0);
    if (wrong === undefined) return;
    found.push(`${side} sends ${describeFrame(bytes)}, which ${wrong.text}`);
  };
  return () => {
    assert.deepEqual(found, [], "answers leave in order");
    return orders.a.answers + orders.b.answers;
  };
}
