/**
 * Ends the timed work of hints (001_ [0114]): each item then has the effect that it would have at once without
 * `work:`.
 */
import type { HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { missingContext, warmContext } from "../queues/context.ts";
import type { Device } from "../state/device.ts";
import type { Hints, WorkItem } from "./state/hint_state.ts";
import { beginJob, takeDue, takeFromHost } from "./work.ts";
import { rights } from "../state/life_cycle.ts";
import { endMaking } from "./hold.ts";
import { fetchWord } from "./preload.ts";
import { sendAnnouncement } from "./look_ahead.ts";
import { sendAnswer } from "./answer_hint.ts";
import { takeAnnouncement } from "./prepare.ts";
import type { Sender } from "./send_hint.ts";
import { traceHintIn } from "./trace.ts";

/** A peer's hint has come: it is taken apart when the units that parse it have done so (H-20). */
export function workOnHint(
  device: Device,
  sender: Sender,
  { message, requester }: { readonly message: HintMessage; readonly requester: number },
): void {
  const { hints, qp } = sender;
  if (device.out.tracing) traceHintIn(device, qp, message);
  const elements = message.groups.reduce((sum, { entries }) => sum + entries.length, 0);
  const item = { kind: "announcement", qp, life: qp.life, message, requester } as const;
  if (beginJob(device, hints, { job: "prepare", item, elements })) return;
  takeAnnouncement(device, sender, { message, requester });
}

/** Ends the work that is due. Called in every step. */
export function serveWork(device: Device, hints: Hints): void {
  const { work } = hints;
  if (work === undefined || work.due.length === 0) return;
  for (const item of takeDue(device, work)) finishWork(device, hints, item);
}

/** A core of the host has done its part of a job; the card does the rest. @returns whether the card waited for it. */
export function endHostWork(device: Device, id: number): boolean {
  const { hints } = device;
  const item = hints?.work && takeFromHost(hints.work, id);
  if (hints?.work === undefined || item === undefined) return false;
  hints.work.isOnCore = true;
  finishWork(device, hints, item);
  hints.work.isOnCore = false;
  return true;
}

function finishWork(device: Device, hints: Hints, item: WorkItem): void {
  switch (item.kind) {
    case "announcement": {
      const { qp, life, message, requester } = item;
      const end = hints.ends.get(qp);
      // A queue pair that has begun anew meanwhile has not announced it.
      if (
        life !== qp.life || end === undefined || end.life !== life ||
        !rights(qp.state).takesRequests
      ) return;
      return takeAnnouncement(device, { hints, qp, end }, { message, requester });
    }
    case "answer":
      return sendAnswer(device, hints, item.preparation);
    case "hint":
      if (item.life === item.by.life && rights(item.by.state).sends) {
        sendAnnouncement(device, { hints, ...item }, item.message);
      }
      return endMaking(device, hints, item.held);
    case "context":
      if (item.life !== item.qp.life || missingContext(device, item.qp) !== item.queue) return;
      return warmContext(device, item.qp, item.queue);
    case "word":
      return fetchWord(device, item.word);
    case "receive":
      // Every step looks at receives that are set aside.
      return;
  }
}
