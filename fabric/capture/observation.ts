/**
 * Observations of a run for captures: `recording.ts` stores them in a file, `instants.ts` merges
 * those of all partitions.
 */
import { type CableEffect, CUT_OFF, effectOf } from "../link/effect.ts";
import { wireBytes } from "../link/link.ts";
import {
  type Frame,
  type Message,
  OUTPUT_TOPIC,
  type Outputs,
  type Span,
  type TraceStep,
} from "../node.ts";
import type { AuditRecord } from "../audit.ts";
import type { Port } from "../partition/local_node.ts";
import { type Time, transferTime } from "../base/time.ts";
import { describePcie } from "../trace/describe.ts";

interface Seen {
  readonly time: Time;
  readonly node: number;
  /** The same for all observations of one event of this node; different for its next event. */
  readonly event: number;
}

export interface MessageSeen extends Seen {
  readonly kind: "sent" | "received";
  readonly port: number;
  readonly startPs: Time;
  readonly endPs: Time;
  /** Undefined for a message of the bus. */
  readonly frame: Uint8Array<ArrayBuffer> | undefined;
  /** Of a message of the bus; "" for a frame, whose bytes suffice. */
  readonly text: string;
  readonly effect?: CableEffect | undefined;
}

/** The frame was on the cable when it was cut: it does not arrive. */
export interface CutOffSeen extends Seen {
  readonly kind: "cut-off";
  readonly port: number;
  readonly startPs: Time;
  readonly frame: Uint8Array<ArrayBuffer>;
}

/**
 * To the card's own port, inside the card. Captures leave it out: it does not appear at the port
 * (rdmamojo.com, "Loopback messages in RDMA").
 */
export interface LoopedSeen extends Seen, Span {
  readonly kind: "looped";
  readonly end: "sent" | "received";
  readonly frame: Uint8Array<ArrayBuffer>;
}

export interface StepSeen extends Seen {
  readonly kind: "step";
  readonly step: TraceStep;
}

export interface NoteSeen extends Seen {
  readonly kind: "note";
  readonly by: string;
  readonly note: AuditRecord;
}

export interface ReportSeen extends Seen {
  readonly kind: "report";
  readonly topic: string;
  readonly value: unknown;
}

export type Observation =
  | MessageSeen
  | CutOffSeen
  | LoopedSeen
  | StepSeen
  | NoteSeen
  | ReportSeen;

export type FrameSeen = MessageSeen & { readonly frame: Uint8Array<ArrayBuffer> };

export function isFrameSeen(seen: Observation): seen is FrameSeen {
  return (seen.kind === "sent" || seen.kind === "received") && seen.frame !== undefined;
}

export interface Observer {
  /**
   * `notes`: audit records and reports only; `wire`: also frames; `frames`: also steps; `all`: also
   * the bus.
   */
  readonly scope: ObservationScope;
  see(observation: Observation): void;
  /** The observations since the last call belong to this span, which is about to be reported. */
  commit(span: number): void;
}

export type ObservationScope = "notes" | "wire" | "frames" | "all";

interface Passing extends Seen {
  readonly port: number;
  readonly message: Message;
}

interface Arriving extends Passing {
  readonly tailPs: Time;
}

export interface Viewpoint {
  readonly node: number;
  readonly ports: (port: number) => Pick<Port, "link" | "up" | "cutBy" | "faults">;
  readonly time: () => Time;
  readonly event: () => number;
}

export function observedOutputs(outputs: Outputs, observer: Observer, at: Viewpoint): Outputs {
  const { scope } = observer;
  const now = () => ({ time: at.time(), node: at.node, event: at.event() });
  const { quietUntil } = outputs;
  const always = {
    ...(quietUntil !== undefined && { quietUntil }),
    report(topic: string, value: unknown) {
      if (topic !== OUTPUT_TOPIC) observer.see({ kind: "report", ...now(), topic, value });
      outputs.report(topic, value);
    },
    auditing: true,
    audit(by: string, note: AuditRecord) {
      observer.see({ kind: "note", ...now(), by, note });
      outputs.audit?.(by, note);
    },
  };
  if (scope === "notes") {
    const { send, trace } = outputs;
    return {
      ...always,
      send,
      get tracing() {
        return outputs.tracing;
      },
      trace,
    };
  }
  return {
    ...always,
    looped(end: "sent" | "received", frame: Frame, { startPs, endPs }: Span) {
      observer.see({ kind: "looped", ...now(), end, startPs, endPs, frame: frame.bytes });
    },
    send(port, message, departAt) {
      const freeAt = outputs.send(port, message, departAt);
      const { link, up, cutBy, faults } = at.ports(port);
      // No message leaves over a cable without another end; over a cut cable it does.
      if ((up || cutBy !== undefined) && (scope === "all" || message.kind === "frame")) {
        const span = { startPs: link.startPs, endPs: link.freeAt };
        const sent = messageSeen("sent", { ...now(), port, message }, span);
        const effect = up ? effectOn(message, faults) : CUT_OFF;
        observer.see(effect === undefined ? sent : { ...sent, effect });
      }
      return freeAt;
    },
    get tracing() {
      return scope !== "wire" || outputs.tracing;
    },
    timing: scope === "all",
    trace(step) {
      if (scope !== "wire") observer.see({ kind: "step", ...now(), step });
      if (step.busy === undefined) outputs.trace(step);
    },
  };
}

function effectOn(message: Message, faults: Port["faults"]): CableEffect | undefined {
  if (message.kind !== "frame" || faults === undefined) return undefined;
  return effectOf(faults.leaving.fate, message);
}

/**
 * Both ends are stamped with a frame's first bit, like the clocks of network cards, so that a
 * cut-through switch does not seem to send what it has not received.
 */
export function observeArrival(
  observer: Observer,
  arriving: Arriving,
  bitsPerSecond: number,
): void {
  const { scope } = observer;
  if (scope === "notes" || (scope !== "all" && arriving.message.kind !== "frame")) return;
  observer.see(messageSeen("received", arriving, spanOf(arriving, bitsPerSecond)));
}

export function observeCutOff(observer: Observer, arriving: Arriving, bitsPerSecond: number): void {
  const { time, node, event, port, message } = arriving;
  if (observer.scope === "notes" || message.kind !== "frame") return;
  const { startPs } = spanOf(arriving, bitsPerSecond);
  observer.see({ kind: "cut-off", time, node, event, port, startPs, frame: message.bytes });
}

function spanOf(
  { time, tailPs, message }: Arriving,
  bitsPerSecond: number,
): { readonly startPs: Time; readonly endPs: Time } {
  const endPs = time + tailPs;
  return { startPs: endPs - transferTime(wireBytes(message), bitsPerSecond), endPs };
}

function messageSeen(
  kind: MessageSeen["kind"],
  { time, node, event, port, message }: Passing,
  span: { readonly startPs: Time; readonly endPs: Time },
): MessageSeen {
  const isFrame = message.kind === "frame";
  return {
    kind,
    time,
    node,
    event,
    port,
    ...span,
    frame: isFrame ? message.bytes : undefined,
    text: isFrame ? "" : describePcie(message),
  };
}
