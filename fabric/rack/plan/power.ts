/**
 * The power state of nodes through scripted faults. A killed host's RNICs are held in reset; an
 * RNIC that dies alone is a card failure, also in a host without power. A power cycle of the
 * machine restarts it, unless the scenario starts it by itself.
 */
import { hostOfRnic } from "./names.ts";
import type { FaultPlan } from "./plan.ts";
import { formatTime, PS_PER_MS, type Time } from "../../base/time.ts";

/** A choice: from a shutdown without `within` to its power failure. */
export const SHUTDOWN_PS = PS_PER_MS;

export interface PowerFault extends FaultPlan {
  /** For a host's start: its dead cards stay dead. */
  readonly card?: "off";
  /** For a host's kill: begin of the orderly shutdown that it ends. */
  readonly shutDownAt?: Time;
}

export function wordOf({ action, shutDownAt }: PowerFault): "kill" | "start" | "shutdown" {
  return shutDownAt === undefined ? action : "shutdown";
}

export interface PowerTracker {
  /** Why the fault cannot happen now; undefined if it can. */
  refusal(fault: PowerFault): { readonly found: string; readonly expected: string } | undefined;
  /** @returns the faults of single nodes that it consists of. */
  apply(fault: PowerFault): FaultPlan[];
}

export function createPowerTracker(faults: readonly PowerFault[]): PowerTracker {
  const dead = new Map<string, FaultPlan>();
  const deadCards = (host: string) =>
    [...dead.keys()].filter((node) => hostOfRnic(node) === host).sort();
  return {
    refusal({ action, node, card }) {
      const kill = dead.get(node);
      if (card !== undefined && !(action === "start" && deadCards(node).length > 0)) {
        return {
          found: `card: off, of a ${action} of ${node}`,
          expected: "the start of a host, after a kill of its RNIC",
        };
      }
      if ((kill !== undefined) === (action === "start")) return undefined;
      return kill === undefined
        ? { found: `start of ${node}, which is alive`, expected: "a kill before it" }
        : {
          found: `kill of ${node}, which is dead since ${formatTime(kill.at)}`,
          expected: "a start before it",
        };
    },
    apply(fault) {
      const { card, shutDownAt: _, ...single } = fault, { action, node } = single;
      if (action === "kill") {
        dead.set(node, single);
        return [single];
      }
      dead.delete(node);
      if (card === "off") return [single];
      const later = faults.slice(faults.indexOf(fault) + 1);
      const started = deadCards(node).filter((rnic) =>
        later.find((each) => each.node === rnic)?.action !== "start"
      );
      for (const rnic of started) dead.delete(rnic);
      return [single, ...started.map((rnic) => ({ ...single, node: rnic }))];
    },
  };
}
