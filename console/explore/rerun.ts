/** Runs a rack from its beginning, in memory, and keeps what an exploration needs. */
import { type Node, OUTPUT_TOPIC, type Outputs, PORTS, type TraceStep } from "../../fabric/node.ts";
import type { PlacedPayload } from "../../fabric/placed_payload.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import type { FaultPlan, RackPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import type { UnfinishedReport } from "../../fabric/partition/partition.ts";
import { NEVER, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import type { FactoryOptions } from "../../nodes/make_host.ts";
import { lengthOf } from "../../fabric/wire/roce/packet.ts";
import { isLineWrite } from "../../fabric/wire/host_bus/coherent.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { Reported } from "../../nodes/host/recovery/protocol.ts";
import { HeldHistory } from "./held_history.ts";
import { HistoryLog, Pages } from "./history.ts";
import type { ExploredRack } from "./types.ts";
import { type Life, livesOf } from "../checks/lives.ts";

export interface RunOptions {
  readonly faults?: readonly FaultPlan[];
  readonly writebacks?: readonly WritebackPlan[];
  /** Of every host's memory; also keeps what RNICs send. */
  readonly histories?: boolean;
  readonly onTrace?: (time: Time, node: string, step: TraceStep) => void;
  readonly eventsMax?: number;
  readonly onRest?: FactoryOptions["onRest"];
}

export interface BusWrite {
  readonly at: Time;
  readonly arrivesAt: Time;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Payload that an RNIC writes to memory. */
export interface Placed extends PlacedPayload {
  readonly at: Time;
}

export interface Sendings {
  readonly frames: Time[];
  readonly frameBytes: number[];
  readonly busWrites: BusWrite[];
  readonly lines: BusWrite[];
  /** Where the run is traced: in the order of time. */
  readonly placed: Placed[];
}

export interface RackRun {
  readonly plan: RackPlan;
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly reports: readonly Reported[];
  readonly unfinished: readonly UnfinishedReport[];
  /** By time; those of one node in the order in which it made them. */
  readonly notes: readonly TimedRecord[];
  readonly scm: ReadonlyMap<string, Pages>;
  readonly histories: ReadonlyMap<string, HistoryLog>;
  /** By RNIC, where histories were asked for: in each of its lives. */
  readonly held: ReadonlyMap<string, readonly HeldHistory[]>;
  readonly sendings: ReadonlyMap<string, Sendings>;
  readonly endPs: Time;
  readonly events: number;
  /** By the plan's `until`, or `eventsMax`. */
  readonly isCutOff: boolean;
  readonly isEndless: boolean;
}

/** A run has some thousand events; a program may look for a failed host endlessly. */
const EVENTS_MORE = 400_000;
const SLICE_PS = 1_000 * PS_PER_US;

/** Beyond so many events a run with a power failure is endless. */
export function eventsMaxOf({ events }: Pick<RackRun, "events">): number {
  return EVENTS_MORE + 10 * events;
}

export function runRack(rack: ExploredRack, options: RunOptions = {}): RackRun {
  const plan = planOf(rack.plan, options);
  const lives = livesOf(plan, plan.faults);
  const reports: Reported[] = [], notes: TimedRecord[] = [];
  const scm = new Map<string, Pages>();
  for (const { name, kind } of plan.nodes) if (kind === "host") scm.set(name, new Pages());
  const histories = new Map<string, HistoryLog>(), sendings = new Map<string, Sendings>();
  const held = new Map<string, HeldHistory[]>();
  const made = nodeFactory({
    plan,
    image: (host) => (offset, length) => scm.get(host)!.read(offset, offset + length),
    inputs: (host) => rack.inputs[host] ?? {},
    own: rack.own,
    native: rack.native,
    ...(options.onRest && { onRest: options.onRest }),
    ...(options.histories && {
      memoryLog(host, life) {
        const known = histories.get(host);
        known?.beginLife(lives.get(host)![life]!.from);
        const history = known ?? new HistoryLog();
        histories.set(host, history);
        return history;
      },
      heldLog(rnic, life) {
        const history = new HeldHistory(), known = held.get(rnic) ?? [];
        known[life] = history;
        held.set(rnic, known);
        return history;
      },
    }),
  });
  const create = rack.replace?.(made) ?? made;
  const simulator = new Simulator({
    plan,
    ...(rack.orders && { orders: rack.orders }),
    create: options.histories ? watched(create, { plan, sendings }) : create,
    onDurable: (host, writes) => {
      for (const { offset, data } of writes) scm.get(host)!.write(offset, data);
    },
    onReport: (time, node, topic, value) => {
      if (topic !== OUTPUT_TOPIC) reports.push({ time, node, topic, value });
    },
    onAudit: (time, node, by, note) => void notes.push({ time, node, by, note }),
    ...(options.onTrace && { onTrace: options.onTrace }),
  });
  const { eventsMax = Infinity } = options;
  const endsAt = plan.until ?? NEVER;
  while (simulator.next < endsAt && simulator.events < eventsMax) {
    simulator.run(eventsMax === Infinity ? NEVER : simulator.next + SLICE_PS);
  }
  const { now: endPs, next, events } = simulator;
  const unfinished = simulator.unfinished();
  const kept = { reports, unfinished, notes, scm, histories, held, sendings };
  const isEndless = next < endsAt;
  return { plan, lives, ...kept, endPs, events, isCutOff: next !== NEVER, isEndless };
}

function planOf(plan: RackPlan, { faults, writebacks }: RunOptions): RackPlan {
  const { writebacks: planned = [], ...rest } = plan;
  const all = [...planned, ...writebacks ?? []];
  return { ...rest, faults: faults ?? plan.faults, ...(all.length > 0 && { writebacks: all }) };
}

function watched(
  create: CreateNode,
  { plan, sendings }: { readonly plan: RackPlan; readonly sendings: Map<string, Sendings> },
): CreateNode {
  const latencies = new Map(
    plan.cables.flatMap(({ kind, a, b, latencyPs }) =>
      kind === "bus" ? [[a.node, latencyPs], [b.node, latencyPs]] : []
    ),
  );
  return (name, life, unsaved) => {
    const node = create(name, life, unsaved);
    if (node.kind !== "rnic") return node;
    let sent = sendings.get(name);
    if (sent === undefined) {
      sendings.set(
        name,
        sent = { frames: [], frameBytes: [], busWrites: [], lines: [], placed: [] },
      );
    }
    return watchedRnic(node, { sent, busLatencyPs: latencies.get(name) ?? 0 });
  };
}

function watchedRnic(
  node: Node,
  { sent, busLatencyPs }: { readonly sent: Sendings; readonly busLatencyPs: Time },
): Node {
  let now: Time = 0;
  let wrapped: { readonly original: Outputs; readonly outputs: Outputs } | undefined;
  const watch = (out: Outputs): Outputs => ({
    get tracing() {
      return out.tracing;
    },
    get timing() {
      return out.timing === true;
    },
    get auditing() {
      return out.auditing === true;
    },
    send(port, message, departAt) {
      const freeAt = out.send(port, message, departAt);
      if (port === PORTS.rnicNetwork && message.kind === "frame") {
        sent.frames.push(now);
        sent.frameBytes.push(lengthOf(message));
      } else if (message.kind === "memory-write" && message.address >= SCM_BASE) {
        const offset = message.address - SCM_BASE;
        const arrivesAt = freeAt + busLatencyPs;
        sent.busWrites.push({ at: now, arrivesAt, offset, bytes: message.data });
      } else if (isLineWrite(message) && message.address >= SCM_BASE) {
        // The card has kept it since its port took it, while it asked for the lines.
        const offset = message.address - SCM_BASE, { takenAt: at = now, data: bytes } = message;
        sent.busWrites.push({ at, arrivesAt: freeAt + busLatencyPs, offset, bytes });
      } else if (message.kind === "line" && message.address >= SCM_BASE) {
        const { address, data } = message, offset = address - SCM_BASE;
        if (!(data instanceof Uint8Array)) return freeAt;
        sent.lines.push({ at: now, arrivesAt: freeAt + busLatencyPs, offset, bytes: data });
      }
      return freeAt;
    },
    trace: (step) => out.trace(step),
    report: (topic, value) => out.report(topic, value),
    audit: (by, note) => out.audit?.(by, note),
    ...(out.tracing && { placed: (payload) => void sent.placed.push({ at: now, ...payload }) }),
  });
  return {
    ...node,
    step(time, input, out) {
      now = time;
      if (wrapped?.original !== out) wrapped = { original: out, outputs: watch(out) };
      node.step(time, input, wrapped.outputs);
    },
  };
}
