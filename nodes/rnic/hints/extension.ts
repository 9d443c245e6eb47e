/** Hints as a feature of the card: its steps and its report. */
import { NEVER } from "../../../fabric/base/time.ts";
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import type { CardExtension, CounterReader } from "../state/card_extension.ts";
import type { Device } from "../state/device.ts";
import { tellChange, tellMissed } from "./agree.ts";
import { answerPrepared } from "./answer_hint.ts";
import { heldByHints } from "./at_rest.ts";
import { redeemContext, redeemLine, redeemPage } from "./charges.ts";
import { sendOwnHint, takeHostWork } from "./commands.ts";
import { serveWork } from "./do_work.ts";
import { endHolds, holdsWakeAt } from "./hold.ts";
import { unitsAhead } from "./look_ahead.ts";
import { noteMiss } from "./needless.ts";
import { wordsOverwritten } from "./preload.ts";
import { serveReceivers } from "./prepare.ts";
import { leadStatistics } from "./state/leads.ts";
import { snoopLine } from "./words.ts";
import { workWakeAt } from "./work.ts";

export const HINTS = {
  isOf: ({ hints }) => hints !== undefined,
  commands: { "send-hint": sendOwnHint, "hint-work": takeHostWork },
  messages: {
    "snoop-invalidate": ({ hints }, { address }) => {
      if (hints !== undefined) snoopLine(hints, address);
    },
  },
  upcalls: {
    redeemPage,
    redeemLine,
    redeemContext,
    noteMiss,
    unitsAhead,
    wordsOverwritten,
  },
  step,
  wakeAt: (device) => {
    const { hints } = device;
    return hints === undefined ? NEVER : Math.min(holdsWakeAt(device, hints), workWakeAt(hints));
  },
  statistics,
  held: heldByHints,
} as const satisfies CardExtension;

function step(device: Device): void {
  const { hints } = device;
  if (hints === undefined) return;
  serveWork(device, hints);
  endHolds(device, hints);
  if (hints.receiving.size > 0) serveReceivers(device, hints);
  if (hints.preparing.length > 0) answerPrepared(device, hints);
  tellChange(device, hints);
  if (hints.missed.length > 0) tellMissed(device, hints);
}

function statistics({ hints }: Device, reader: CounterReader): Record<string, number> {
  if (hints === undefined) return {};
  let hintPagesUnused = 0;
  for (const { kind } of hints.charges.values()) if (kind === "page") hintPagesUnused++;
  const isAtomic = (hints.plan.kinds & HINT_KINDS.atomic) !== 0;
  return {
    ...hints.counters,
    hintPagesUnused,
    ...(isAtomic && hints.wordCounters),
    ...(hints.plan.operands && hints.operandCounters),
    ...hints.work?.counters,
    // For reports alone: programs read the counters that they always did.
    ...(reader === "report" && leadStatistics(hints.leads)),
  };
}
