/**
 * A scripted peer: a host without power in the end, and its card, as the survivors see them: frames at their
 * times, and then none. What the two did to make these frames was recorded once and is not run again.
 */
import { type Frame, type Node, PORTS } from "../../fabric/node.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";

/** A frame as a card hands it to its network port. */
export interface SentFrame {
  readonly at: Time;
  readonly departAt: Time;
  readonly frame: Frame;
}

/** The two nodes that it replaces, and all that they send. */
export interface ScriptedPeer {
  readonly host: string;
  readonly rnic: string;
  readonly sent: readonly SentFrame[];
}

/** Makes nodes as `create` does, but for these two. */
export function withScriptedPeer(
  create: CreateNode,
  { host, rnic, sent }: ScriptedPeer,
): CreateNode {
  return (name, life, unsaved) => {
    if (name === host) return { ...NOTHING_DONE, name, kind: "host" };
    return name === rnic ? cardOf(name, sent) : create(name, life, unsaved);
  };
}

const NOTHING_DONE: Omit<Node, "name" | "kind"> = {
  processingPs: 0,
  step() {},
  wakeAt: () => NEVER,
  statistics: () => ({}),
};

function cardOf(name: string, sent: readonly SentFrame[]): Node {
  let next = 0;
  return {
    ...NOTHING_DONE,
    name,
    kind: "rnic",
    step(now, input, out) {
      // What an earlier life sent, an earlier life sent.
      if (input.kind === "power") { while (next < sent.length && sent[next]!.at < now) next++; }
      for (let one = sent[next]; one?.at === now; one = sent[++next]) {
        out.send(PORTS.rnicNetwork, one.frame, one.departAt);
      }
    },
    wakeAt: () => sent[next]?.at ?? NEVER,
  };
}
