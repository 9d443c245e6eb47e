import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { QueuePair } from "../state/queue_pair.ts";
import { leaveHints } from "./agree.ts";
import type { HintEnd, Hints } from "./state/hint_state.ts";

const PEER = 0x0a00_0002, OTHER = 0x0a00_0003;

function queuePair(address: number): QueuePair {
  return { path: { address } } as QueuePair;
}

describe("leaveHints", () => {
  it("H-08: a carrier that is gone, or begins anew, carries for its peer no more; others go on", () => {
    const [carrier, own, other] = [PEER, PEER, OTHER].map(queuePair) as [
      QueuePair,
      QueuePair,
      QueuePair,
    ];
    const end = {} as HintEnd;
    const hints = {
      ends: new Map([[carrier, end], [own, end], [other, end]]),
      carriers: new Map([[PEER, carrier], [OTHER, other]]),
    } as unknown as Hints;
    leaveHints(hints, own);
    same([...hints.ends.keys()], [carrier, other]);
    same([...hints.carriers], [[PEER, carrier], [OTHER, other]]);
    leaveHints(hints, carrier);
    same([...hints.ends.keys()], [other]);
    same([...hints.carriers], [[OTHER, other]]);
  });
});
