/**
 * Selects the lines of one program operation from the trace of a rack. Pure. A line has the keys
 * that its device knows: the program's its operation and work request, the driver's the WQE, an
 * RNIC's the PSN, memory's the bytes of SCM and the tag of a read. Only this file joins them.
 *
 *     operation ─ program's lines ─ wrId → WQE ─ start of the WQE → PSNs ─ all lines of these PSNs
 *                                                receive WQEs they take → the lines that posted them
 *                 the WQE's doorbell, by its queue and the pointer's time, and the RNIC's reads
 *                 of the queue until the WQE begins
 *                 pages and contexts that these lines wait for, until they are there
 *                 tags of DMA reads in these lines ─ the same reads as they come to the host
 *                 bytes of SCM ─ the memory's lines about them meanwhile
 */
import type { TraceStep } from "../node.ts";
import type { ModuleCost } from "./access_modules.ts";
import { hostOfRnic, indexOfRnic, machineOf, rnicName } from "../rack/plan/names.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { Time } from "../base/time.ts";
import { formatAddress } from "./describe.ts";
import { arrowOf, type Figure, figureOfPost, figureOfWrite, stepIn } from "./trace_figures.ts";

export interface TraceLine extends TraceStep {
  readonly time: Time;
  readonly node: string;
  /** Of the frame that carries out the step or caused it, where frames were seen. */
  readonly frame?: number;
}

/** Its connection names hosts, regardless of the device that wrote it. */
export interface Line extends TraceLine {
  readonly host: string | undefined;
  /** The device itself, or the one that a host's line concerns; undefined for a switch. */
  readonly card: string | undefined;
  readonly peer: string | undefined;
  readonly peerCard: string | undefined;
}

export interface Trace {
  readonly lines: readonly Line[];
  /** By host, its first RNIC, by which it shares regions. */
  readonly cards: ReadonlyMap<string, string>;
  readonly switches: readonly string[];
}

/** A message of `put`, or a work request of any other program. */
export interface Operation {
  readonly node: string;
  readonly connection: string;
  readonly number: number;
  readonly startPs: Time;
  readonly from: number;
  readonly until: number;
  /** Of an access to a shared region; `connection` is then that line, in words. */
  readonly shared?: readonly [region: number, line: number];
}

export interface LadderRow {
  readonly time: Time;
  readonly node: string;
  readonly step: string;
  readonly text: string;
  readonly to?: string;
  readonly frame?: number;
}

export interface Ladder {
  readonly operation: Operation;
  readonly figure: Figure | undefined;
  readonly columns: readonly string[];
  readonly rows: readonly LadderRow[];
  readonly conclusion: LadderRow;
  readonly costs?: readonly ModuleCost[];
}

/** In order of time, those of one node in the order in which it wrote them. */
export function readTrace(lines: readonly TraceLine[], plan: RackPlan): Trace {
  const read = lineReader(plan);
  return {
    lines: lines.map(read),
    cards: cardsOf(plan),
    switches: plan.nodes.filter(({ kind }) => kind === "switch").map(({ name }) => name),
  };
}

function cardsOf({ nodes }: RackPlan): Map<string, string> {
  return new Map(
    nodes.flatMap((node) =>
      node.kind === "rnic" && indexOfRnic(node.name) === 0
        ? [[node.config.host, node.name] as const]
        : []
    ),
  );
}

function lineReader(plan: RackPlan): (line: TraceLine) => Line {
  const hosts = new Map(plan.nodes.flatMap((node) => {
    if (node.kind === "switch") return [];
    return [[node.name, node.kind === "host" ? node.name : node.config.host] as const];
  }));
  const names = hostsByAddress(plan);
  const known = new Map<string, { readonly connection: string; readonly cards: string[] }>();
  return (line) => {
    const host = hosts.get(line.node);
    const card = host === line.node ? rnicName(host, line.rnic) : host && line.node;
    if (line.connection === undefined) {
      return { ...line, host, card, peer: undefined, peerCard: undefined };
    }
    let ends = known.get(line.connection);
    if (ends === undefined) {
      const found = endsOf(line.connection, names);
      const connection = found.map((end) => `${end.host}:${end.qpn}`).join("-");
      known.set(
        line.connection,
        ends = { connection, cards: found.map(({ host }) => cardAt(host)) },
      );
    }
    const peerCard = ends.cards.find((end) => end !== card);
    const peer = peerCard && machineOf(peerCard);
    return { ...line, connection: ends.connection, host, card, peer, peerCard };
  };
}

function cardAt(end: string): string {
  return hostOfRnic(end) === undefined ? rnicName(end) : end;
}

/** Devices name connections by addresses; a further RNIC's address has that RNIC's name. */
export function hostsByAddress(
  { addresses }: Pick<RackPlan, "addresses">,
): ReadonlyMap<string, string> {
  return new Map(Object.entries(addresses).map(([host, at]) => [formatAddress(at), host]));
}

export function endsOf(
  text: string,
  names: ReadonlyMap<string, string>,
): { host: string; qpn: string }[] {
  const match = /^(.+):(\d+)-(.+):(\d+)$/.exec(text);
  if (match === null) return [];
  const [, here, qpn, there, farQpn] = match as unknown as [string, string, string, string, string];
  return [
    { host: names.get(here) ?? here, qpn },
    { host: names.get(there) ?? there, qpn: farQpn },
  ].sort((x, y) => (x.host < y.host ? -1 : 1));
}

/** In the order of their begin: those that programs number, else work requests. */
export function operationsOf(trace: Trace): readonly Operation[] {
  const finder = new OperationFinder();
  for (const [i, line] of trace.lines.entries()) finder.addRead(line, i);
  return finder.operations();
}

/**
 * `open`: no completion of its last work request is known; `failed`: one of its work requests has
 * completed with an error.
 */
export type OperationStatus = "open" | "completed" | "failed";

/** With its program's last line about it; a work request has its first line. */
export interface FoundOperation extends Operation {
  /** Its first work request: `write`, `send`, `atomic-write`; else the first step. */
  readonly kind: string;
  readonly status: OperationStatus;
  /** When its program had the last completion of its work requests; -1: none is known. */
  readonly completedAt: Time;
  readonly last: Pick<TraceLine, "time" | "step" | "text">;
}

/** A completion of a send queue, as its program has taken it. */
export interface TakenCompletion {
  readonly time: Time;
  readonly node: string;
  /** Of the host, from 0; absent: the first. */
  readonly rnic?: number;
  readonly qpn: number;
  readonly wrId: number | string;
  readonly status: string;
}

type Found = { -readonly [K in keyof FoundOperation]: FoundOperation[K] };

export class OperationFinder {
  readonly #read: ((line: TraceLine) => Line) | undefined;
  readonly #numbered: Found[] = [];
  readonly #current = new Map<string, { readonly found: Found; readonly step: string }>();
  /** While no program has numbered an operation; `connection` is "" until its card begins it. */
  #requests: Found[] = [];
  readonly #posted = new Map<string, Found>();
  /** By queue pair, in the order of posts: work requests whose completion is not known. */
  readonly #uncompleted = new Map<string, Map<string, Found>>();
  readonly #latest = new WeakMap<Found, string>();

  /** @param plan lines are taken as devices write them; absent: as they are read. */
  constructor(plan?: RackPlan) {
    this.#read = plan && lineReader(plan);
  }

  static of(plan: RackPlan): OperationFinder {
    return new OperationFinder(plan);
  }

  add(line: TraceLine, index: number): void {
    if (line.operation === undefined && line.wqe === undefined) return;
    this.addRead(this.#read!(line), index);
  }

  addRead(line: Line, index: number): void {
    if (line.operation !== undefined) this.#addNumbered(line, index);
    if (this.#numbered.length === 0 && line.wqe !== undefined) this.#addRequest(line, index);
  }

  /** Requests of a send queue complete in order: earlier ones without a completion have succeeded. */
  complete({ time, status, wrId, ...queue }: TakenCompletion): void {
    const requests = this.#uncompleted.get(queueKey(queue)), taken = String(wrId);
    if (requests?.has(taken) !== true) return;
    for (const [id, found] of requests) {
      requests.delete(id);
      found.completedAt = time;
      const isFailed = id === taken && status !== "SUCCESS";
      if (isFailed) found.status = "failed";
      else if (found.status === "open" && this.#latest.get(found) === id) {
        found.status = "completed";
      }
      if (id === taken) break;
    }
  }

  #addUncompleted(line: Line, found: Found): void {
    const { host, qpn, wrId, rnic } = line;
    if (host === undefined || line.node !== host || qpn === undefined || wrId === undefined) return;
    if (!isPost(line)) return;
    const key = queueKey({ node: host, qpn, ...(rnic !== undefined && { rnic }) });
    let requests = this.#uncompleted.get(key);
    if (requests === undefined) this.#uncompleted.set(key, requests = new Map());
    // The receive of an answer is posted before the request.
    if (found.kind === "recv") found.kind = kindOf(line.text)!;
    const id = String(wrId);
    requests.delete(id);
    requests.set(id, found);
    this.#latest.set(found, id);
    if (found.status === "completed") found.status = "open";
  }

  operations(): readonly FoundOperation[] {
    if (this.#numbered.length > 0) return this.#numbered;
    const counts = new Map<string, number>();
    return this.#requests.flatMap((found) => {
      const { connection, node } = found;
      if (connection === "") return [];
      const key = `${node} ${connection}`, number = counts.get(key) ?? 0;
      counts.set(key, number + 1);
      return [{ ...found, number }];
    });
  }

  #addNumbered(line: Line, from: number): void {
    const { operation: number, connection, host, node, time, step, text } = line;
    if (number === undefined || connection === undefined || host === undefined) return;
    const key = `${connection} ${number}`;
    const known = this.#current.get(key);
    // A later life reuses a queue pair's number: the same first step again begins another
    // operation.
    const isNew = known === undefined || (known.step === step && known.found.node === node);
    const last = { time, step, text };
    if (!isNew) {
      if (known.found.node === node) {
        known.found.last = last;
        this.#addUncompleted(line, known.found);
      }
      return;
    }
    if (known !== undefined) known.found.until = from;
    const at = { startPs: time, from, until: Infinity };
    const found: Found = { node: host, connection, number, ...at, ...begun(line), last };
    this.#addUncompleted(line, found);
    this.#current.set(key, { found, step });
    this.#numbered.push(found);
    this.#requests = [];
    this.#posted.clear();
  }

  #addRequest(line: Line, from: number): void {
    const { host, card, node, step, qpn, wqe, connection, time, text } = line;
    if (host === undefined) return;
    const key = `${card} ${qpn} ${wqe}`;
    if (node === card) {
      const found = this.#posted.get(key);
      if (found !== undefined) found.connection = connection ?? "";
      this.#posted.delete(key);
    } else if (step === "wqe") {
      const at = { startPs: time, from, until: Infinity };
      const found: Found = {
        ...{ node: host, connection: "", number: 0, ...at, ...begun(line) },
        last: { time, step, text },
      };
      this.#addUncompleted(line, found);
      this.#posted.set(key, found);
      this.#requests.push(found);
    }
  }
}

/** `posts write of message 3`, `WQE of write at 115 of the send queue`. */
const POST = /^(?:posts(?: a)?|WQE of) ([\w-]+)/;

function isPost({ text }: Line): boolean {
  return POST.test(text);
}

function begun({ text, step }: Line): Pick<Found, "kind" | "status" | "completedAt"> {
  return { kind: kindOf(text) ?? step, status: "open", completedAt: -1 };
}

function kindOf(text: string): string | undefined {
  return POST.exec(text)?.[1]?.toLowerCase();
}

function queueKey({ node, rnic = 0, qpn }: Pick<TakenCompletion, "node" | "rnic" | "qpn">): string {
  return `${node} ${rnic} ${qpn}`;
}

interface Span {
  readonly requester: string;
  readonly from: number;
  readonly to: number;
}

const PSN_MASK = 0xff_ffff;

export function ladderOf(trace: Trace, operation: Operation): Ladder {
  const { lines } = trace;
  const chosen = new Set<number>(seedsOf(trace, operation));
  const spans = addWork(trace, chosen);
  for (let i = operation.from; i < Math.min(operation.until, lines.length); i++) {
    if (isOfSpan(lines[i]!, operation.connection, spans)) chosen.add(i);
  }
  addReceives(trace, chosen);
  addDoorbells(trace, chosen);
  addHinted(trace, operation, chosen);
  addAnswers(trace, chosen);
  addWaits(trace, chosen);
  addReads(trace, operation, chosen);
  addMemory(trace, operation, chosen);
  const picked = [...chosen].sort((x, y) => x - y).map((i) => lines[i]!);
  const figure = picked.map(({ step }) => figureOfPost(step)).find((each) => each !== undefined);
  const write = figureOfWrite(picked.map(({ step }) => step));
  const rows = picked.map((line) => rowOf(line, { figure, write, operation }));
  const said = rows.filter((row, i) => {
    return row.node === operation.node && picked[i]!.operation === operation.number;
  });
  return {
    operation,
    figure,
    columns: columnsOf(trace, operation),
    rows,
    conclusion: said.at(-1) ?? rows.at(-1)!,
  };
}

function seedsOf({ lines }: Trace, operation: Operation): number[] {
  const { from, until, number, connection } = operation;
  if (lines[from]!.operation === undefined) return [from];
  const seeds: number[] = [];
  for (let i = from; i < Math.min(until, lines.length); i++) {
    const line = lines[i]!;
    if (line.operation === number && line.connection === connection) seeds.push(i);
  }
  return seeds;
}

/** @returns PSNs of the chosen work requests. */
function addWork(trace: Trace, chosen: Set<number>): Span[] {
  const spans: Span[] = [];
  for (const i of [...chosen]) {
    const wqe = trace.lines[i]!.step === "wqe" ? i : wqeOf(trace, i);
    const start = wqe === undefined ? undefined : startOf(trace, wqe);
    if (wqe === undefined || start?.psn === undefined) continue;
    chosen.add(wqe);
    const { psn, lastPsn = psn, host, peer, inbound } = start;
    spans.push({ requester: inbound ? peer! : host!, from: psn, to: lastPsn });
  }
  return spans;
}

function wqeOf({ lines }: Trace, post: number): number | undefined {
  const { node, card, qpn, wrId, time } = lines[post]!;
  if (wrId === undefined) return undefined;
  for (let i = post + 1; i < lines.length && lines[i]!.time === time; i++) {
    const line = lines[i]!;
    const isIts = line.step === "wqe" && line.node === node && line.card === card &&
      line.qpn === qpn;
    if (isIts && line.wrId === wrId) return i;
  }
  return undefined;
}

function startOf({ lines }: Trace, wqe: number): Line | undefined {
  const { card, qpn, wqe: position } = lines[wqe]!;
  for (let i = wqe + 1; i < lines.length; i++) {
    const line = lines[i]!;
    if (line.node === card && line.qpn === qpn && line.wqe === position) return line;
    // The ring has wrapped around: this WQE was never started.
    if (line.step === "wqe" && line.card === card && line.qpn === qpn && line.wqe === position) {
      break;
    }
  }
  return undefined;
}

function isOfSpan(line: Line, connection: string, spans: readonly Span[]): boolean {
  const { psn } = line;
  if (psn === undefined || line.connection !== connection) return false;
  const requester = line.inbound ? line.peer : line.host;
  const { lastPsn = psn } = line;
  return spans.some((span) =>
    span.requester === requester &&
    (isWithin(psn, span.from, span.to) || isWithin(span.from, psn, lastPsn))
  );
}

function isWithin(psn: number, from: number, to: number): boolean {
  return ((psn - from) & PSN_MASK) <= ((to - from) & PSN_MASK);
}

function addReceives({ lines }: Trace, chosen: Set<number>): void {
  for (const i of [...chosen]) {
    const { recvs, host, card, qpn, node } = lines[i]!;
    if (recvs === undefined || node === host) continue;
    for (let at = i - 1; at >= 0; at--) {
      const line = lines[at]!;
      // H-21: a hint has set the receive WQE aside.
      if (line.step === "receive-ahead" && line.node === node && line.recvs![0] === recvs[0]) {
        chosen.add(at);
      }
      if (
        line.node !== host || line.card !== card || line.qpn !== qpn ||
        !line.recvs?.includes(recvs[0]!)
      ) continue;
      if (line.operation === undefined) chosen.add(at);
      break;
    }
  }
}

function addDoorbells({ lines }: Trace, chosen: Set<number>): void {
  for (const i of [...chosen]) {
    const wqe = lines[i]!;
    if (wqe.step !== "wqe" || wqe.queue === undefined) continue;
    let rung = i + 1;
    while (rung < lines.length && !isDoorbellOf(lines[rung]!, wqe)) rung++;
    if (rung === lines.length) continue;
    const { card } = wqe;
    const doorbell = lines[rung]!, reads: number[] = [];
    let last = rung, isTaken = false;
    for (let at = rung; at < lines.length; at++) {
      const line = lines[at]!;
      if (isBegin(line, { wqe, card }) || isReused(line, wqe)) break;
      if (line.queue !== wqe.queue || line.step === "wqe" || line.card !== card) continue;
      const isIts = line.stamp === doorbell.stamp || hasUnit(line, wqe.wqe!);
      if (isIts) {
        chosen.add(at);
        last = at;
        isTaken ||= line.node === card;
      } else if (isTaken && line.stamp === undefined && line.units === undefined) reads.push(at);
    }
    for (const at of reads) if (at < last) chosen.add(at);
  }
}

function isDoorbellOf({ step, node, card, queue }: Line, wqe: Line): boolean {
  return step === "doorbell" && node === wqe.node && card === wqe.card && queue === wqe.queue;
}

function isBegin(
  line: Line,
  { wqe, card }: { readonly wqe: Line; readonly card: string | undefined },
): boolean {
  return line.node === card && line.qpn === wqe.qpn && line.wqe === wqe.wqe;
}

/** The ring has wrapped around: another WQE lies there. */
function isReused(line: Line, wqe: Line): boolean {
  return line !== wqe && line.step === "wqe" && line.card === wqe.card && line.qpn === wqe.qpn &&
    line.wqe === wqe.wqe;
}

function hasUnit({ units }: Line, unit: number): boolean {
  return units !== undefined && units[0] <= unit && unit < units[1];
}

const HINTED: ReadonlySet<string> = new Set(["hint-in", "hint-decision", "hint-answer"]);

/** For counted messages (H-03) a hint has only the first one's PSN. */
function addHinted({ lines }: Trace, { until, connection }: Operation, chosen: Set<number>): void {
  for (const i of [...chosen]) {
    const { step, psn, lastPsn } = lines[i]!;
    if (step !== "hint-out" || lastPsn === undefined) continue;
    for (let at = i + 1; at < Math.min(until, lines.length); at++) {
      const line = lines[at]!;
      if (line.psn !== psn || line.connection !== connection || !line.inbound) continue;
      if (HINTED.has(line.step)) chosen.add(at);
    }
  }
}

/** Where the requester gets some (H-22). */
function addAnswers({ lines }: Trace, chosen: Set<number>): void {
  for (const i of [...chosen]) {
    const { step, node, hint } = lines[i]!;
    if (step !== "hint-out" || hint === undefined) continue;
    for (let at = i + 1; at < lines.length; at++) {
      const line = lines[at]!;
      if (line.node !== node || line.hint !== hint) continue;
      if (line.step === "hint-answered") chosen.add(at);
      // A hint in form of a READ or WRITE of no bytes has the PSN of its request as its number.
      else if (line.time > lines[i]!.time) break;
    }
  }
}

const WAITS: ReadonlySet<string> = new Set([
  "hint-decision",
  "page-fault",
  "translation-wait",
  "receive-ahead",
  "context-wait",
]);
/** Pages are there, or never will be. */
const PAGE_ENDS: ReadonlySet<string> = new Set([
  "pages-mapped",
  "pages-refused",
  "translations-known",
]);

function addWaits(trace: Trace, chosen: Set<number>): void {
  const { lines } = trace;
  for (const i of [...chosen]) {
    const { step, pages, queue } = lines[i]!;
    if (!WAITS.has(step)) continue;
    if (pages !== undefined) addPages(trace, chosen, i);
    if (queue !== undefined) addLookUp(trace, chosen, i);
  }
}

function addLookUp({ lines }: Trace, chosen: Set<number>, of: number): void {
  const { time, node, queue } = lines[of]!;
  let from = of;
  // It begins in the step that needs it, before that step's line.
  while (from > 0 && lines[from - 1]!.time === time) from--;
  for (let at = from; at < lines.length; at++) {
    const line = lines[at]!;
    if (line.node !== node || line.queue !== queue || line.stamp !== undefined) continue;
    if (line.psn === undefined && line.units === undefined) chosen.add(at);
    if (at > of && line.step === "queue-known") return;
  }
}

function addPages({ lines }: Trace, chosen: Set<number>, from: number): void {
  const { card, pages: [key, first, end] } = lines[from] as Line & Required<Pick<Line, "pages">>;
  const away = new Set(Array.from({ length: end - first }, (_, i) => first + i));
  for (let at = from + 1; at < lines.length && away.size > 0; at++) {
    const { card: itsCard, psn, recvs, pages, step } = lines[at]!;
    if (pages === undefined || itsCard !== card || pages[0] !== key) continue;
    if (psn !== undefined || recvs !== undefined || pages[1] >= end || pages[2] <= first) continue;
    chosen.add(at);
    if (!PAGE_ENDS.has(step)) continue;
    for (let page = pages[1]; page < pages[2]; page++) away.delete(page);
  }
}

/**
 * A read belongs to the latest use of its tag. Messages that share an LSB read (P-24) share its
 * line.
 */
function addReads({ lines }: Trace, operation: Operation, chosen: Set<number>): void {
  let last = 0;
  for (const i of chosen) last = Math.max(last, i);
  const endPs = lines[last]!.time;
  /** By RNIC and tag; `isOwn`: of this operation. */
  const uses = new Map<string, { readonly time: Time; readonly isOwn: boolean }>();
  for (let i = operation.from; i < lines.length && lines[i]!.time <= endPs; i++) {
    const { tag, node, host, card, time } = lines[i]!;
    if (tag === undefined || host === undefined) continue;
    const key = `${card} ${tag}`;
    const use = uses.get(key);
    if (node === host) {
      if (use?.isOwn) chosen.add(i);
    } else {
      const isOwn = chosen.has(i) || (use !== undefined && use.time === time && use.isOwn);
      uses.set(key, { time, isOwn });
    }
  }
}

function addMemory(trace: Trace, operation: Operation, chosen: Set<number>): void {
  const { lines } = trace;
  const indexes = [...chosen].sort((x, y) => x - y);
  const range = indexes.map((i) => lines[i]!).find(({ scm }) => scm !== undefined)?.scm;
  const peer = lines[indexes[0]!]!.peer ?? indexes.map((i) => lines[i]!.peer).find(Boolean);
  if (range === undefined) return;
  const endPs = lines[indexes.at(-1)!]!.time;
  for (let i = operation.from; i < lines.length && lines[i]!.time <= endPs; i++) {
    const { node, scm, tag, operation: number } = lines[i]!;
    if (node !== peer || scm === undefined || number !== undefined || tag !== undefined) continue;
    if (scm[0] < range[1] && scm[1] > range[0]) chosen.add(i);
  }
}

function rowOf(
  line: Line,
  { figure, write, operation }: {
    readonly figure: Figure | undefined;
    readonly write: Figure;
    readonly operation: Operation;
  },
): LadderRow {
  const { time, node, text, host, card, peer, peerCard, inbound, frame } = line;
  const isOwn = (inbound ? peer : host) === operation.node;
  const step = stepIn(figure, { step: line.step, isOwn, write });
  const arrow = arrowOf(step);
  const to = arrow === "host"
    ? host
    : arrow === "card"
    ? card
    : arrow === "peer"
    ? peerCard
    : undefined;
  return {
    ...{ time, node, step, text },
    ...(to !== undefined && to !== node && { to }),
    ...(frame !== undefined && { frame }),
  };
}

function columnsOf({ switches }: Trace, { node, connection }: Operation): string[] {
  const ends = endsOf(connection, new Map()).map(({ host }) => cardAt(host));
  const own = ends.find((card) => machineOf(card) === node) ?? rnicName(node);
  const far = ends.find((card) => card !== own) ?? own;
  const between = switches.length === 1 ? switches : [];
  return [...new Set([node, own, ...between, far, machineOf(far)])];
}
