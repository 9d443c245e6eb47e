/** What a card does for hints in every step, where it takes part in them. */
import type { Device } from "../state/device.ts";
import type { Hints } from "../state/hints/hint_state.ts";
import { tellChange, tellMissed } from "./agree.ts";
import { serveWork } from "./do_work.ts";
import { endHolds } from "./hold.ts";
import { answerPrepared } from "./answer_hint.ts";
import { serveReceivers } from "./prepare.ts";

export function serveHints(device: Device, hints: Hints): void {
  serveWork(device, hints);
  endHolds(device, hints);
  if (hints.receiving.size > 0) serveReceivers(device, hints);
  if (hints.preparing.length > 0) answerPrepared(device, hints);
  tellChange(device, hints);
  if (hints.missed.length > 0) tellMissed(device, hints);
}
