/**
 * A run for ui.perfetto.dev, in Chrome's JSON trace event format, in microseconds with six decimals
 * (ps).
 */
import type { TraceStep } from "../node.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import { PS_PER_US, type Time } from "../base/time.ts";
import { indexOfRnic, machineOf } from "../rack/plan/names.ts";
import { endsOf, hostsByAddress } from "../trace/trace.ts";
import { describeFrame, formatAddress } from "../trace/describe.ts";
import type { SeenEvent } from "./instants.ts";
import type { MessageSeen } from "./observation.ts";
import { mechanismOf } from "../trace/mechanism_steps.ts";
import { type Lane, type TraceEvent, type Track, Tracks } from "./tracks.ts";
import { opcodeRow } from "../wire/roce/opcode.ts";
import { peekBth } from "./bth_peek.ts";

export interface TracedRun {
  readonly label: string;
  readonly plan: RackPlan;
  readonly events: Iterable<SeenEvent>;
}

/** Of every trace: tells one from other files. */
export const PERFETTO_BEGIN = '{"displayTimeUnit":"ns","traceEvents":[';

/** In parts. */
export function* perfettoOf(runs: readonly TracedRun[]): Generator<string> {
  yield PERFETTO_BEGIN;
  let separator = "\n";
  const numbers = { pids: 0, flows: 0 };
  for (const run of runs) {
    const prefix = runs.length > 1 ? `${run.label}: ` : "";
    for (const event of eventsOfRun(run, prefix, numbers)) {
      yield separator + JSON.stringify(event);
      separator = ",\n";
    }
  }
  yield "\n]}\n";
}

interface Numbers {
  pids: number;
  flows: number;
}

function* eventsOfRun(
  { plan, events }: TracedRun,
  prefix: string,
  numbers: Numbers,
): Generator<TraceEvent> {
  const firstPid = numbers.pids + 1;
  const writer = new RunWriter(plan, numbers);
  for (const [index, { name, kind }] of plan.nodes.entries()) {
    const pid = firstPid + index;
    const args = { name: `${prefix}${name}` };
    yield { ph: "M", name: "process_name", pid, tid: 0, args };
    yield { ph: "M", name: "process_labels", pid, tid: 0, args: { labels: kind } };
    yield { ph: "M", name: "process_sort_index", pid, tid: 0, args: { sort_index: pid } };
  }
  for (const event of events) {
    writer.take(event);
    yield* writer.drain();
  }
  writer.end();
  yield* writer.drain();
}

interface Request extends Open {
  readonly host: number;
  readonly flow: number;
}

interface Open {
  readonly lane: Lane;
  readonly startPs: Time;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

const COMPLETIONS: ReadonlySet<string> = new Set(
  "S206 S306 S213 S315 S908 S1010 S1017 send-complete complete".split(" "),
);
const PM_BEGINS: ReadonlySet<string> = new Set(["S905", "S1006"]);
const PM_ENDS: ReadonlySet<string> = new Set(["S907", "S1016"]);
const LOOK_UP_READS: ReadonlySet<string> = new Set(["queue-read", "address-read"]);
const PAGE_REQUESTS: ReadonlySet<string> = new Set(["page-request", "hint-page-request"]);
/** So that a slice is visible and an arrow can end at it. */
const MOMENT_PS = 1_000;
const UNFINISHED = { unfinished: true };

class RunWriter {
  readonly #plan: RackPlan;
  readonly #tracks: Tracks;
  readonly #numbers: Numbers;
  readonly #hosts: ReadonlyMap<string, string>;
  readonly #index: ReadonlyMap<string, number>;
  /** By `host:qpn:wqe`. */
  readonly #requests = new Map<string, Request>();
  /** The RNIC's, by `rnic:qpn:wqe`. */
  readonly #work = new Map<string, Open>();
  /** The PM module's, by `rnic:connection:psn`. */
  readonly #persists = new Map<string, Open>();
  /** `connection:requester:psn` → flow, which the responder's part joins. */
  readonly #flows = new Map<string, number>();
  /** By `node queue` (Q-07). */
  readonly #lookUps = new Map<string, Open>();
  readonly #pageRequests = new Map<string, { readonly open: Open; readonly to: number }[]>();
  /** By `node cache line`, while the state is not I (C-05). */
  readonly #copies = new Map<string, Open>();
  readonly #occupied = new Map<string, number>();
  #events: TraceEvent[] = [];
  #now: Time = 0;

  constructor(plan: RackPlan, numbers: Numbers) {
    this.#plan = plan;
    this.#numbers = numbers;
    this.#tracks = new Tracks(numbers.pids + 1);
    numbers.pids += plan.nodes.length;
    this.#hosts = hostsByAddress(plan);
    this.#index = new Map(plan.nodes.map(({ name }, index) => [name, index]));
  }

  take({ time, node, seen }: SeenEvent): void {
    this.#now = time;
    for (const each of seen) {
      if (each.kind === "sent") this.#message(node, each);
      else if (each.kind === "step") this.#step(node, each.step);
    }
  }

  end(): void {
    const slices = [this.#work, this.#persists, this.#requests, this.#copies, this.#lookUps];
    for (const open of slices.flatMap((each) => [...each.values()])) this.#close(open, UNFINISHED);
    for (const { open } of [...this.#pageRequests.values()].flat()) this.#close(open, UNFINISHED);
  }

  *drain(): Generator<TraceEvent> {
    const events = this.#events;
    this.#events = [];
    yield* this.#tracks.takeMetadata();
    yield* events;
  }

  #message(node: number, message: MessageSeen): void {
    const { port, startPs, endPs, frame, text } = message;
    const track = this.#tracks.find(node, `out ${port} to ${this.#farEnd(node, port)}`);
    const name = frame === undefined ? text.split(" 0x")[0]! : frameName(frame);
    const naming = (address: number) => {
      const shown = formatAddress(address);
      return this.#hosts.get(shown) ?? shown;
    };
    const described = frame === undefined ? text : describeFrame(frame, naming);
    this.#slice(track, { startPs, endPs, name, args: { message: described } });
  }

  #farEnd(node: number, port: number): string {
    const { name } = this.#plan.nodes[node]!;
    for (const { a, b } of this.#plan.cables) {
      if (a.node === name && a.port === port) return `${b.node}:${b.port}`;
      if (b.node === name && b.port === port) return `${a.node}:${a.port}`;
    }
    return "nowhere";
  }

  #step(node: number, step: TraceStep): void {
    if (step.busy !== undefined) {
      const { track: name, fromPs, untilPs } = step.busy;
      const lane = this.#tracks.take(node, name, fromPs);
      this.#close({ lane, startPs: fromPs, name: step.text, args: {} }, {}, untilPs);
      return;
    }
    if (step.cached !== undefined) return this.#cached(node, step, step.cached);
    if (step.judged !== undefined) this.#judged(node, step, step.judged);
    const { step: name, text, qpn, psn, operation, wqe } = step;
    const track = this.#tracks.find(node, "steps");
    const args = { text, qpn, psn, wqe, operation, connection: step.connection };
    const { number } = mechanismOf(name) ?? {};
    const shown = number === undefined ? name : `${number} ${name}`;
    const instant = { ph: "i", s: "t", name: shown, cat: "step" } as const;
    this.#events.push({ ...instant, ...track, ts: us(this.#now), args });
    if (step.queue !== undefined) this.#lookUp(node, step, step.queue);
    if (step.pages !== undefined) this.#paging(node, step, step.pages);
    if (this.#plan.nodes[node]!.kind === "host") {
      if (step.step === "wqe") this.#posted(node, step);
    } else if (step.wqe !== undefined) {
      this.#requester(node, step);
    } else {
      this.#responder(node, step);
    }
  }

  #lookUp(node: number, { step, text }: TraceStep, queue: number): void {
    const key = `${node} ${queue}`, open = this.#lookUps.get(key);
    if (LOOK_UP_READS.has(step) && open === undefined) {
      this.#lookUps.set(key, this.#open(node, "queue information", text));
    } else if (step === "queue-known" && open !== undefined) {
      this.#lookUps.delete(key);
      this.#close(open);
    }
  }

  #paging(
    node: number,
    { step, text }: TraceStep,
    [key, first, end]: NonNullable<TraceStep["pages"]>,
  ): void {
    const name = `${node} ${key}`, waiting = this.#pageRequests.get(name) ?? [];
    if (PAGE_REQUESTS.has(step)) {
      waiting.push({ open: this.#open(node, "page requests", text), to: end });
      this.#pageRequests.set(name, waiting);
    } else if (step === "pages-mapped" || step === "pages-refused") {
      const isServed = ({ to }: { readonly to: number }) => first < to && to <= end;
      for (const { open } of waiting.filter(isServed)) this.#close(open);
      this.#pageRequests.set(name, waiting.filter((each) => !isServed(each)));
    }
  }

  #cached(
    node: number,
    { text, shared }: TraceStep,
    { cache, state }: NonNullable<TraceStep["cached"]>,
  ): void {
    const line = `region ${shared?.[0] ?? "?"} line ${shared?.[1] ?? "?"}`;
    const key = `${node} ${cache} ${line}`, all = `${node} ${cache}`;
    const before = this.#copies.get(key);
    if (before !== undefined) this.#close(before);
    this.#copies.delete(key);
    if (state !== "I") {
      const lane = this.#tracks.take(node, `${cache}: ${line}`, this.#now);
      this.#copies.set(key, { lane, startPs: this.#now, name: state, args: { text } });
    }
    const change = Number(state !== "I") - Number(before !== undefined);
    if (change === 0) return;
    const lines = (this.#occupied.get(all) ?? 0) + change;
    this.#occupied.set(all, lines);
    const { pid } = this.#tracks.find(node, "steps");
    const name = `${cache}: lines`;
    this.#events.push({ ph: "C", name, pid, tid: 0, ts: us(this.#now), args: { lines } });
  }

  /** A slice for each placement, and accesses in each window (C-04). */
  #judged(
    node: number,
    { step, text }: TraceStep,
    { name: region, home, far, place }: NonNullable<TraceStep["judged"]>,
  ): void {
    if (step !== "judge") return;
    const { pid } = this.#tracks.find(node, "steps"), key = `${node} placement ${region}`;
    const name = `${region}: accesses a window`;
    this.#events.push({ ph: "C", name, pid, tid: 0, ts: us(this.#now), args: { home, far } });
    const before = this.#copies.get(key);
    if (before?.name === place) return;
    if (before !== undefined) this.#close(before);
    const lane = this.#tracks.take(node, `${region}: copies are kept`, this.#now);
    this.#copies.set(key, { lane, startPs: this.#now, name: place, args: { text } });
  }

  #posted(node: number, { text, qpn, wqe, rnic = 0 }: TraceStep): void {
    const key = `${node}:${rnic}:${qpn}:${wqe}`;
    const before = this.#requests.get(key);
    // The ring has wrapped around to an unfinished WQE.
    if (before !== undefined) this.#close(before, UNFINISHED);
    const flow = ++this.#numbers.flows;
    const of = rnic === 0 ? "" : ` of RNIC ${rnic + 1}`;
    const open = this.#open(node, `requests of QP ${hex(qpn!)}${of}`, text);
    const request = { ...open, host: node, flow };
    this.#requests.set(key, request);
    this.#flow("s", flow, request.lane.track);
  }

  #requester(node: number, step: TraceStep): void {
    const { qpn, wqe, text, connection, inbound } = step;
    const key = `${node}:${qpn}:${wqe}`;
    const rnic = indexOfRnic(this.#plan.nodes[node]!.name) ?? 0;
    const hostKey = `${this.#hostOf(node)}:${rnic}:${qpn}:${wqe}`;
    const request = this.#requests.get(hostKey);
    let work = this.#work.get(key);
    if (work === undefined) {
      work = this.#open(node, `QP ${hex(qpn!)}`, text);
      this.#work.set(key, work);
      if (request !== undefined) {
        this.#flow("t", request.flow, work.lane.track);
        if (connection !== undefined && !inbound) {
          this.#flows.set(this.#flowKey(node, step), request.flow);
        }
      }
    }
    if (!COMPLETIONS.has(step.step)) return;
    this.#work.delete(key);
    this.#close(work);
    this.#flows.delete(this.#flowKey(node, step));
    if (request === undefined) return;
    this.#requests.delete(hostKey);
    this.#close(request);
    const completion = this.#open(request.host, "completions", text);
    this.#close(completion);
    this.#flow("f", request.flow, completion.lane.track);
  }

  #responder(node: number, step: TraceStep): void {
    const { psn, connection, text, inbound } = step;
    if (psn === undefined || connection === undefined || !inbound) return;
    const key = `${node}:${connection}:${psn}`;
    if (PM_BEGINS.has(step.step)) {
      const open = this.#open(node, "PM module", text);
      this.#persists.set(key, open);
      const flow = this.#flows.get(this.#flowKey(node, step));
      if (flow !== undefined) this.#flow("t", flow, open.lane.track);
    }
    const open = this.#persists.get(key);
    if (!PM_ENDS.has(step.step) || open === undefined) return;
    this.#persists.delete(key);
    this.#close(open);
  }

  #flowKey(node: number, { connection, psn, inbound }: TraceStep): string {
    const near = this.#plan.nodes[this.#hostOf(node)]!.name;
    const ends = endsOf(connection ?? "", this.#hosts);
    const far = ends.find(({ host }) => machineOf(host) !== near)?.host;
    const requester = inbound ? far && machineOf(far) : near;
    return `${connection} ${requester} ${psn}`;
  }

  #hostOf(node: number): number {
    const plan = this.#plan.nodes[node]!;
    return plan.kind === "rnic" ? this.#index.get(plan.config.host)! : node;
  }

  #open(node: number, track: string, text: string): Open {
    const lane = this.#tracks.take(node, track, this.#now);
    return { lane, startPs: this.#now, name: text.split(":")[0]!, args: { text } };
  }

  #close(open: Open, more: Readonly<Record<string, unknown>> = {}, endPs = this.#now): void {
    const { lane, startPs, name, args } = open;
    lane.freeAt = Math.max(endPs, startPs + MOMENT_PS);
    this.#slice(lane.track, { startPs, endPs, name, args: { ...args, ...more } });
  }

  #slice(track: Track, slice: Omit<Open, "lane"> & { readonly endPs: Time }): void {
    const { startPs, endPs, name, args } = slice;
    const dur = us(Math.max(endPs - startPs, MOMENT_PS));
    this.#events.push({ ph: "X", name, ...track, ts: us(startPs), dur, args });
  }

  #flow(ph: "s" | "t" | "f", id: number, track: Track): void {
    const bind = ph === "f" ? { bp: "e" as const } : {};
    const ts = us(this.#now);
    this.#events.push({ ph, name: "request", cat: "request", id, ...track, ts, ...bind });
  }
}

function frameName(frame: Uint8Array<ArrayBuffer>): string {
  const bth = peekBth(frame);
  if (bth === undefined) return "frame";
  return `${opcodeRow(bth.opcode)?.name ?? `opcode ${hex(bth.opcode)}`} psn=${bth.psn}`;
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

function us(ps: Time): number {
  return ps / PS_PER_US;
}
