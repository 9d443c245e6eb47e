/** The responder's answers (H-22): a hint is prepared for, or the reasons why elements of it are not. */
import type { HintEntry, HintGroup } from "../../../fabric/wire/roce/hint.ts";
import type { HintReason } from "../../../fabric/wire/roce/hint_eth.ts";
import type { Device } from "../state/device.ts";
import type { HintElement, Hints, Preparation } from "./state/hint_state.ts";
import { beginJob } from "./work.ts";
import type { WantedPage } from "../state/paging_state.ts";
import { senderOf, wantedKinds, wordOf } from "./agree.ts";
import { needlessOf } from "./back_off.ts";
import { splitGroups } from "./build_hint.ts";
import { type Sender, sendHint } from "./send_hint.ts";
import { traceHintAnswer } from "./trace.ts";

/** Answers hints that are prepared for. Called at the end of every step, while there are any. */
export function answerPrepared(device: Device, hints: Hints): void {
  const { preparing } = hints;
  for (let i = 0; i < preparing.length;) {
    const each = preparing[i]!;
    const isOver = each.life !== each.qp.life;
    if (!isOver && !isDone(device, hints, each)) {
      i++;
      continue;
    }
    preparing.splice(i, 1);
    if (!isOver) answer(device, hints, each);
  }
}

/** True if everything has come that is going to come. A page of a deregistered region is not waited for. */
export function isDone(device: Device, hints: Hints, { lines, elements }: Preparation): boolean {
  if (lines.missing > 0) return false;
  return elements.every(({ pages, word, receiver }) => {
    // A word behind a write is not waited for: that write waits for this answer.
    if (word?.state === "coming" || areComing(device, pages)) return false;
    const ahead = receiver && hints.receiving.get(receiver);
    return ahead === undefined || (ahead.wanted === 0 && !areComing(device, ahead.pages));
  });
}

/** True if a page is still to come. A page that was refused or taken back, or whose region is gone, is not. */
function areComing({ paging }: Device, pages: readonly WantedPage[]): boolean {
  return pages.some((wanted) =>
    !isThere(wanted) && wanted.table.demand![wanted.page]!.asked !== 0 &&
    paging.tables.has(wanted.table)
  );
}

function isThere({ table, page, rights }: WantedPage): boolean {
  return table.demand![page]!.rights >= rights;
}

/** H-22: answers behind the preparation. */
export function answer(device: Device, hints: Hints, preparation: Preparation): void {
  const item = { kind: "answer", qp: preparation.qp, preparation } as const;
  const { length: elements } = preparation.elements;
  if (beginJob(device, hints, { job: "answer", item, elements })) return;
  sendAnswer(device, hints, preparation);
}

/** Sends the answer, from the state of now. */
export function sendAnswer(device: Device, hints: Hints, preparation: Preparation): void {
  const { qp, life, sequence, elements, isAsked } = preparation;
  if (life !== qp.life) return;
  const sender = senderOf(hints, qp);
  if (sender === undefined) return;
  if (!isAsked) return acknowledge(device, sender, preparation);
  const byReason = new Map<HintReason, HintElement[]>();
  for (const element of elements) {
    const reason = reasonOf(hints, preparation, element);
    if (reason === "none") continue;
    const found = byReason.get(reason);
    if (found === undefined) byReason.set(reason, [element]);
    else found.push(element);
  }
  if (byReason.size === 0) return acknowledge(device, sender, preparation);
  // A hint to a group may have been longer than a packet of the queue pair that answers it.
  const { pathMtu } = sender.qp.attributes;
  const parts = [...byReason].flatMap(([reason, refused]) =>
    splitGroups(groupsOf(refused), pathMtu).map((groups) => ({ reason, groups }))
  );
  if (device.out.tracing) {
    for (const { reason, groups } of parts) {
      for (const group of groups) traceHintAnswer(device, qp, { sequence, group, reason });
    }
  }
  for (const [i, { reason, groups }] of parts.entries()) {
    // The NAK tells the peer which kinds are wanted: others may be.
    const kinds = reason === "not-wanted" ? wantedKinds(device, hints) : 0;
    const answer = i < parts.length - 1;
    const word = wordOf(hints, { type: "refused", reason, sequence, kinds, answer });
    sendHint(device, sender, { ...word, groups });
  }
}

/** H-22: all is prepared for. The ACK names what hints have been needless for, for long. */
function acknowledge(
  device: Device,
  sender: Sender,
  { requester, sequence, elements, isAsked }: Preparation,
): void {
  const { hints } = sender;
  const groups = needlessOf(device, hints, { by: sender.qp, requester, elements });
  if (!isAsked && groups.length === 0) return;
  if (device.out.tracing) {
    for (const group of groupsOf(elements)) {
      traceHintAnswer(device, sender.qp, { sequence, group, reason: "none" });
    }
  }
  sendHint(device, sender, { ...wordOf(hints, { type: "prepared", sequence }), groups });
}

/** H-22: the reason in detail, as far as the element's key check has passed. */
function reasonOf(
  { receiving }: Hints,
  { isOverfull }: Preparation,
  { reason, pages, receiver }: HintElement,
): HintReason {
  if (reason !== "none") return reason;
  if (isOverfull) return "quota";
  const ahead = receiver && receiving.get(receiver);
  if (ahead !== undefined && ahead.reason !== "none") return ahead.reason;
  return [...pages, ...ahead?.pages ?? []].every(isThere) ? "none" : "error";
}

/** Elements as an answer names them: by the numbers that the peer has sent. */
function groupsOf(elements: readonly HintElement[]): HintGroup[] {
  const groups: { destQpn: number; sourceQpn: number; entries: HintEntry[] }[] = [];
  for (const { ends, entry } of elements) {
    const last = groups.at(-1);
    const { operands: _, parts: __, ...rest } = entry;
    const named = { ...rest, rkey: 0, length: 0, va: 0n, objects: [] };
    if (last?.destQpn === ends.destQpn && last.sourceQpn === ends.sourceQpn) {
      last.entries.push(named);
    } else groups.push({ ...ends, entries: [named] });
  }
  return groups;
}
