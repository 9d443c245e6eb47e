/**
 * Answers of every queue pair leave in the order of their requests, judged at the network ports of all
 * RNICs where frames were recorded: see `answer_order.ts`.
 */
import { countOf } from "./finding.ts";
import type { Checker } from "./run_record.ts";

export const answersInOrder: Checker = {
  name: "answers-in-order",
  promise:
    "A responder answers what has come, in the order of the requests: no ACK, READ response or other " +
    "answer passes one before it, no MSN runs back, and no NAK asks for what has been confirmed.",
  looked: ({ wire }) =>
    wire === undefined ? "frames were not recorded" : countOf(wire.answers.answers, "answer"),
  subjects: ({ wire }) => wire?.answers.answers ?? 0,
  without: "no responder has sent an answer",
  check: ({ wire }) => [...wire?.answers.findings ?? []],
};
