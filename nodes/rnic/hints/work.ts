/**
 * Timed work of hints (001_ [0114], `hint_work.ts`): the card's hardware is a pipeline, its firmware one processor,
 * which the driver's commands take too; the card waits for work of the host's cores. The effect at its end is data,
 * as all waiting work in this card.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  costOf,
  isOnCore,
  WORK_JOBS,
  type WorkJob,
  type WorkPiece,
  workPs,
} from "../../../fabric/rack/plan/hint_work.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import type { DueWork, Hints, Work, WorkItem } from "./state/hint_state.ts";

/** [choice] Hints, and answers, that wait for work at a time; a further one is lost, as it may be on the wire. */
const WAITING_MAX = 256;
/** H-24: of these, those of one requester, so that it does not take the places of others. */
const WAITING_OF_ONE_MAX = 64;

/**
 * True if the job takes time: `finishWork` applies `item` at its end. False where the plan has nothing of the job:
 * the caller applies it at once.
 */
export function beginJob(
  device: Device,
  hints: Hints,
  { job, item, elements }: {
    readonly job: WorkJob;
    readonly item: WorkItem;
    readonly elements: number;
  },
): boolean {
  const { work } = hints;
  if (work === undefined) return false;
  const rest = timedPieces(work, job);
  if (rest.length === 0) return false;
  if (isFull(work, item)) work.counters.hintsOverrun++;
  else goOn(device, work, { at: device.now, item, job, rest, elements });
  return true;
}

/** True if {@link beginJob} will let the job take time. */
export function takesTime({ work }: Hints, job: WorkJob): boolean {
  return work !== undefined && timedPieces(work, job).length > 0;
}

function timedPieces({ plan }: Work, job: WorkJob): WorkPiece[] {
  return WORK_JOBS[job].filter((piece) => costOf(plan, piece) !== undefined);
}

/** As {@link beginJob}, of one pre-emptive action (H-21). @returns when it ends; undefined: at once. */
export function beginAction(
  device: Device,
  hints: Hints,
  { piece, item }: { readonly piece: WorkPiece; readonly item: WorkItem },
): Time | undefined {
  const { work } = hints;
  if (work === undefined || costOf(work.plan, piece) === undefined) return undefined;
  const at = serve(device, work, { pieces: [piece], elements: 1 });
  insert(work, { at, item, job: undefined, rest: [], elements: 1 });
  return at;
}

/** H-24: peers can cause this work by as many messages as they like. The card's own work is never lost. */
function isFull({ due, atHost }: Work, added: WorkItem): boolean {
  const requester = requesterOf(added);
  if (requester === undefined) return false;
  let all = 0, its = 0;
  for (const { item } of [...due, ...atHost.values()]) {
    if (item.kind !== added.kind) continue;
    all++;
    if (requesterOf(item) === requester) its++;
  }
  return all >= WAITING_MAX || its >= WAITING_OF_ONE_MAX;
}

function requesterOf(item: WorkItem): number | undefined {
  switch (item.kind) {
    case "announcement":
      return item.requester;
    case "answer":
      return item.preparation.requester;
    default:
      return undefined;
  }
}

/** Begins the next pieces, as far as one place does them: one event tells a core of all of them. */
function goOn(device: Device, work: Work, due: DueWork): void {
  const { plan } = work;
  const piece = due.rest[0]!;
  if (isOnCore(plan[piece]!)) {
    const id = work.nextId++;
    work.atHost.set(id, due);
    work.counters.hintWorkEvents++;
    raiseEvent(device, { type: "HINT_WORK", id, job: due.job!, elements: due.elements });
    return;
  }
  const end = due.rest.findIndex((each) => plan[each] !== plan[piece]);
  const pieces = end < 0 ? due.rest : due.rest.slice(0, end);
  const at = serve(device, work, { pieces, elements: due.elements });
  insert(work, { ...due, at, rest: due.rest.slice(pieces.length) });
}

/** @returns when hardware or firmware has done pieces of one place. */
function serve(
  { now }: Device,
  { plan, firmware, counters }: Work,
  { pieces, elements }: { readonly pieces: readonly WorkPiece[]; readonly elements: number },
): Time {
  const ps = pieces.reduce((sum, piece) => sum + workPs(plan, piece, elements), 0);
  if (plan[pieces[0]!] !== "firmware") return now + ps;
  const from = Math.max(now, firmware.freeAt);
  counters.hintFirmwarePs += ps;
  counters.hintFirmwareWaitPs += from - now;
  firmware.freeAt = from + ps;
  return firmware.freeAt;
}

function insert({ due }: Work, added: DueWork): void {
  let place = due.length;
  while (place > 0 && due[place - 1]!.at > added.at) place--;
  due.splice(place, 0, added);
}

/** A core has done its part. @returns the item to apply now; undefined where the card waits for none of that number. */
export function takeFromHost({ atHost }: Work, id: number): WorkItem | undefined {
  const due = atHost.get(id);
  atHost.delete(id);
  return due?.item;
}

/** Due jobs go on. @returns the items to apply now, in order. */
export function takeDue(device: Device, work: Work): WorkItem[] {
  const items: WorkItem[] = [];
  while (work.due.length > 0 && work.due[0]!.at <= device.now) {
    const due = work.due.shift()!;
    if (due.rest.length === 0) items.push(due.item);
    else goOn(device, work, due);
  }
  return items;
}

/** When {@link takeDue} has something to do. */
export function workWakeAt({ work }: Hints): Time {
  return work?.due[0]?.at ?? NEVER;
}

/** When a command of the driver is done: behind the firmware's work for hints. */
export function commandDoneAt({ now, timing, hints }: Device): Time {
  const work = hints?.work;
  if (work === undefined) return now + timing.commandPs;
  work.firmware.freeAt = Math.max(now, work.firmware.freeAt) + timing.commandPs;
  return work.firmware.freeAt;
}

/**
 * A core decides without knowing what the card has asked for by itself, and the firmware may be slow to tell: the
 * core's pages are asked for in any case.
 */
export function asksAgain({ work }: Hints): boolean {
  return work !== undefined && work.isOnCore && work.plan.request === "driver";
}
