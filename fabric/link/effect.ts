/** The effect of a cable's faults on a frame, as text, and as data that identify it on arrival. */
import type { Frame } from "../node.ts";
import { framesText, type LinkFaultPlan } from "../rack/plan/link_plan.ts";
import { formatTime, type Time } from "../base/time.ts";
import { formatRate } from "../rack/plan/units.ts";
import type { Fate } from "./fault.ts";

export interface CableEffect {
  /** One for each kind of fault: `lost by the cable here (loss 3%)`. */
  readonly says: readonly string[];
  readonly copies: number;
  /** A held frame arrives even later. */
  readonly latePs: Time;
  readonly damaged?: Uint8Array<ArrayBuffer>;
}

export const CUT_OFF: CableEffect = { says: [lostText("cut")], copies: 0, latePs: 0 };

export function lostText(cause: string): string {
  return `lost by the cable here (${cause})`;
}

/** Undefined where no fault has affected the frame. */
export function effectOf(fate: Fate, sent: Frame): CableEffect | undefined {
  const { struck, lost, doubled, delayPs, frame } = fate;
  if (struck.length === 0) return undefined;
  const kinds = [...new Set(struck.map(({ action }) => action))];
  const says = kinds.map((action) => {
    return saysOf(struck.filter((each) => each.action === action), { fate, sent });
  });
  if (lost) return { says: says.slice(-1), copies: 0, latePs: 0 };
  return {
    says,
    copies: doubled ? 2 : 1,
    latePs: delayPs,
    ...(frame !== sent && { damaged: frame.bytes }),
  };
}

function saysOf(
  all: readonly LinkFaultPlan[],
  { fate, sent }: { readonly fate: Fate; readonly sent: Frame },
): string {
  const { action } = all[0]!;
  const cause = `${action} ${all.map(framesText).join(" and ")}`;
  switch (action) {
    case "loss":
      return lostText(cause);
    case "corrupt": {
      const sealed = all.some((fault) => fault.sealed === true) ? ", ICRC made anew" : "";
      return `corrupted by the cable: ${
        damageText(sent.bytes, fate.frame.bytes)
      }${sealed} (${cause})`;
    }
    case "duplicate":
      return `doubled by the cable (${cause})`;
    case "reorder":
      return `held back by the cable ${holdText(fate)} (${cause})`;
    case "rate":
      return `sent by the cable at ${formatRate(fate.bitsPerSecond)} (${cause})`;
    case "delay":
      return `delayed by ${formatTime(fate.delayPs)} by the cable (${cause})`;
    case "cut":
    case "heal":
      return lostText(action);
  }
}

function holdText({ overtakenBy, holdPs }: Fate): string {
  if (overtakenBy === 0) return `for ${formatTime(holdPs)}`;
  return `behind ${overtakenBy} frame${overtakenBy === 1 ? "" : "s"}, at most ${
    formatTime(holdPs)
  }`;
}

/** The first byte that differs, from 0 as in Wireshark, and its bits. */
function damageText(sent: Uint8Array, arrives: Uint8Array): string {
  const at = sent.findIndex((byte, i) => byte !== arrives[i]);
  if (at < 0) return "two faults flipped the same bit";
  return `byte ${at}, 0x${hex(sent[at]!)} became 0x${hex(arrives[at]!)}`;
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
