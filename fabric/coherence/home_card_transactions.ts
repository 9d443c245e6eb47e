/**
 * HC: applies a message or an event to its line's row (`home_card_table.ts`), and executes the row's sends:
 * to the bus, to a far card, at once to the local cache, or on behalf of a far card whose life has ended.
 */
import { farReceive } from "./far_card.ts";
import {
  drop,
  type HomeCard,
  homeLine,
  replaceRequest,
  type Request,
  REQUESTS,
  sendTo,
} from "./home_card_state.ts";
import {
  type HomeEvent,
  type HomeInput,
  type HomeLine,
  type HomeSend,
  homeState,
  NONE,
} from "./home_card_table.ts";
import {
  type Agent,
  type Data,
  LOCAL_CACHE,
  LOST,
  type WireMessage,
} from "../wire/roce/coherence_messages.ts";
import type { Answer } from "./access.ts";
import { newOutput, type Output, type Turn } from "./output.ts";
import { rowOf } from "./table.ts";

/** Stores the line's state. */
export function keep(card: HomeCard, line: number, now: HomeLine): void {
  // A right to share without a lent copy is dropped silently: the bus's snoop finds I.
  if (isLent(now) || now.phase !== "idle" || now.snoop !== null) card.lines.set(line, now);
  else card.lines.delete(line);
}

/** @throws MissingRow for an event that cannot come now. */
export function apply(
  card: HomeCard,
  { line, event, message }: { line: number; event: HomeEvent; message: HomeInput },
  out: Output,
): void {
  const before = homeLine(card, line);
  const state = homeState(before);
  const row = rowOf(card.table, { state, event, who: "home card", line });
  const { line: after, send } = row(before, message);
  out.changed.push(line);
  keep(card, line, after);
  const isEnd = before.serving !== null && after.serving === null;
  // A line of a range is answered with the range.
  const isPart = isEnd && finish(card, { line, before, data: message.data }, out);
  for (const each of send ?? []) if (!isPart) emit(card, { line, send: each }, out);
  const { phase, snoop } = homeLine(card, line);
  if (phase !== "idle" || snoop === null || snoop.isServed) return;
  // "Else deferred": until now.
  keep(card, line, { ...homeLine(card, line), snoop: null });
  apply(card, { line, event: snoop.kind, message: { data: undefined } }, out);
}

/** Frees the slot of an ended transaction. @returns whether it was a part of a range. */
function finish(
  card: HomeCard,
  { line, before: { serving }, data }: {
    readonly line: number;
    readonly before: HomeLine;
    readonly data: Data | undefined;
  },
  out: Output,
): boolean {
  const part = serving?.kind === "Flush"
    ? card.requests.find(({ range }) => range?.open.includes(line))
    : undefined;
  if (part !== undefined) {
    finishPart(card, { request: part, line, data }, out);
    return true;
  }
  const request = card.requests.find(({ message, isBegun, access, range }) =>
    isBegun && access === null && range === undefined && message.line === line &&
    message.agent === serving?.agent
  );
  if (request !== undefined) drop(card, request);
  return false;
}

/**
 * One line of a range is in home's persistence domain; the last one answers for all (decisions 8,
 * 12).
 */
function finishPart(
  card: HomeCard,
  { request, line, data }: { request: Request; line: number; data: Data | undefined },
  out: Output,
): void {
  const { message, range } = request;
  if (range === undefined) return;
  const open = range.open.filter((each) => each !== line);
  const isLost = range.isLost || data === LOST;
  if (open.length + range.left.length > 0) {
    replaceRequest(card, request, { ...request, range: { ...range, open, isLost } });
    return;
  }
  drop(card, request);
  const { agent, life, line: first, lines } = message;
  if (card.lives.get(agent) !== life) return;
  const result = isLost ? LOST : undefined;
  sendTo(card, { kind: "FlushAck", line: first, agent, lines, data: result }, out);
}

function emit(
  card: HomeCard,
  { line, send }: { readonly line: number; readonly send: HomeSend },
  out: Output,
): void {
  if (send.to === "bus") {
    out.bus.push({ kind: send.kind, line, data: send.data });
    return;
  }
  const { to: agent, kind, data } = send;
  const life = card.lives.get(agent);
  if (life === undefined || (send.life !== undefined && send.life !== life)) {
    emitToDead(card, { line, send }, out);
    return;
  }
  const message = { kind, line, agent, data };
  if (agent !== LOCAL_CACHE) {
    sendTo(card, message, out);
    return;
  }
  const own: WireMessage = { ...message, life, homeLife: card.life };
  local(card, (its) => farReceive(card.local, own, its), out);
}

/** A dead card, or one with another life by now, answers nothing: home answers for it. */
function emitToDead(
  card: HomeCard,
  { line, send }: { readonly line: number; readonly send: Exclude<HomeSend, { to: "bus" }> },
  out: Output,
): void {
  const { to: agent, kind, data } = send;
  switch (kind) {
    case "Inv":
    case "RecI":
    case "RecS":
      answerFor(card, { line, agent }, out);
      break;
    case "DataS": {
      // It is no sharer: an `Inv` would meet a next life that has not heard its `Welcome`.
      const lent = homeLine(card, line);
      keep(card, line, { ...lent, sharers: lent.sharers & ~(1 << agent) });
      apply(card, { line, event: "Complete", message: { agent, data: undefined } }, out);
      break;
    }
    case "DataE": {
      // It was never sent, so nothing is lost: it goes back, and a waiting snoop continues to wait
      // for that.
      const { snoop } = homeLine(card, line);
      keep(card, line, { ...homeLine(card, line), snoop: null });
      apply(card, { line, event: "Complete", message: { agent, data: undefined } }, out);
      apply(card, { line, event: "Put", message: { agent, life: send.life ?? 0, data } }, out);
      keep(card, line, { ...homeLine(card, line), snoop });
      break;
    }
    default:
      break;
  }
}

/** The answer on behalf of a dead card to an `Inv` or a recall. */
export function answerFor(
  card: HomeCard,
  { line, agent }: { readonly line: number; readonly agent: Agent },
  out: Output,
): void {
  const isOwner = homeLine(card, line).owner === agent;
  const data = isOwner ? lastOf(card, { line, agent }, out) : undefined;
  const event = isOwner ? "RecIData" : "InvAck";
  apply(card, { line, event, message: { agent, data } }, out);
}

/** A dead card's last word about its exclusive line: its write-back, or nothing. */
export function lastOf(
  card: HomeCard,
  { line, agent }: { readonly line: number; readonly agent: Agent },
  out: Output,
): Data {
  const put = card.requests.find(({ message, isBegun }) =>
    !isBegun && message.kind === "Put" && message.line === line && message.agent === agent
  );
  if (put?.message.data !== undefined) return put.message.data;
  out.lost.push(line);
  return LOST;
}

/** Queues a request behind earlier ones. */
export function take(card: HomeCard, request: Request, out: Output): void {
  card.requests.push(request);
  out.turns.push(...turnsOf(request, "taken"));
}

/** Ends a request that has not begun with all its lines. */
export function dropWaiting(card: HomeCard, request: Request, out: Output): void {
  drop(card, request);
  out.turns.push(...turnsOf(request, "dropped"));
}

/** `Read` and `Write` do not request the line: the local cache does, in its own order. */
function turnsOf({ message, range }: Request, step: "taken" | "dropped"): Turn[] {
  if (message.kind === "Read" || message.kind === "Write") return [];
  return (range?.left ?? [message.line]).map((line) => ({ step, line, message }));
}

/**
 * Dropped turns of all requests that have not begun with all their lines, when the card loses its
 * state.
 */
export function turnsForgotten({ requests }: Pick<HomeCard, "requests">): Turn[] {
  return requests.filter(({ isBegun }) => !isBegun).flatMap((each) => turnsOf(each, "dropped"));
}

/** Lets the local cache act; its requests are queued, its answers are taken at once. */
export function local(card: HomeCard, act: (its: Output) => void, out: Output): void {
  const its = newOutput();
  act(its);
  for (const message of its.wire) {
    if (REQUESTS.has(message.kind)) {
      take(card, { message, isBegun: false, access: null }, out);
    } else apply(card, { line: message.line, event: message.kind as HomeEvent, message }, out);
  }
  out.changed.push(...its.changed);
  out.states.push(...its.states);
  for (const answer of its.answers) answerFar(card, answer, out);
}

function answerFar(card: HomeCard, answer: Answer, out: Output): void {
  const request = card.requests.find(({ access }) => access === answer.access);
  if (request === undefined) {
    out.answers.push(answer);
    return;
  }
  const { agent, life, line, kind, change } = request.message;
  drop(card, request);
  // [0059]: for a plain write "only a write-done" goes back. A store to the whole line may have
  // found the line lost, and is still done.
  const isTold = kind !== "Write" || card.local.contents.tellsOld(change);
  const found = !isTold || answer.data === LOST ? undefined : answer.data;
  const data = answer.result === "lost" ? LOST : found;
  if (card.lives.get(agent) === life) sendTo(card, { kind: "Value", line, agent, data }, out);
}

/**
 * A line has an entry while it is lent, or about to be; other transactions need only their slot.
 */
export function isLent({ sharers, owner, serving }: HomeLine): boolean {
  return sharers !== 0 || owner !== NONE || serving?.kind === "GetS" || serving?.kind === "GetM";
}
