/**
 * What is seen of a run where a capture is wanted: messages at the ends of cables, steps that devices
 * trace, and how long parts of them are busy. A partition tells an {@link Observer}; `recording.ts` is
 * how observations outlive its process; `instants.ts` puts those of all partitions in one order.
 */
import { type CableEffect, CUT_OFF, effectOf } from "../link/effect.ts";
import { type Link, wireBytes } from "../link/link.ts";
import type { Message, Outputs, TraceStep } from "../node.ts";
import type { Note } from "../audit.ts";
import type { Port } from "../partition/local_node.ts";
import { type Time, transferTime } from "../base/time.ts";
import { describePcie } from "../trace/describe.ts";

interface Seen {
  /** When the event happened in which it was seen. */
  readonly time: Time;
  /** The node's index in the plan. */
  readonly node: number;
  /** Same for all that one event of this node did, different for the next event's. */
  readonly event: number;
}

/** A message at this node's end of a cable. */
export interface MessageSeen extends Seen {
  readonly kind: "sent" | "received";
  readonly port: number;
  /** When its first and its last bit pass this end. */
  readonly startPs: Time;
  readonly endPs: Time;
  /** Undefined for a message of the bus. */
  readonly frame: Uint8Array<ArrayBuffer> | undefined;
  /** What a message of the bus is, for people; "" for a frame, which tells by itself. */
  readonly text: string;
  /** Of a frame that is sent over a cable with faults, what they do to it, if anything. */
  readonly effect?: CableEffect | undefined;
}

/** A frame that was on the cable when that was cut: it has not arrived at this node's end. */
export interface CutOffSeen extends Seen {
  readonly kind: "cut-off";
  readonly port: number;
  /** When its first bit would have passed this end. */
  readonly startPs: Time;
  readonly frame: Uint8Array<ArrayBuffer>;
}

export interface StepSeen extends Seen {
  readonly kind: "step";
  readonly step: TraceStep;
}

export interface NoteSeen extends Seen {
  readonly kind: "note";
  /** The program that made it. */
  readonly by: string;
  readonly note: Note;
}

export type Observation = MessageSeen | CutOffSeen | StepSeen | NoteSeen;

/** Whether it is of a message at an end of a cable. */
export function isMessageSeen(seen: Observation): seen is MessageSeen {
  return seen.kind === "sent" || seen.kind === "received";
}

/** A frame at an end of a cable. */
export type FrameSeen = MessageSeen & { readonly frame: Uint8Array<ArrayBuffer> };

export function isFrameSeen(seen: Observation): seen is FrameSeen {
  return isMessageSeen(seen) && seen.frame !== undefined;
}

/** Whom a partition tells what happens in it. */
export interface Observer {
  /**
   * `notes`: what programs were told, which each scope has. `wire`: frames as well. `frames`: steps as
   * well, which makes a capture. `all`: messages of the bus and busy parts as well.
   */
  readonly scope: ObservationScope;
  see(observation: Observation): void;
  /** All that was seen since the last call happened in this span, which is about to be reported. */
  commit(span: number): void;
}

export type ObservationScope = "notes" | "wire" | "frames" | "all";

interface Passing extends Seen {
  readonly port: number;
  readonly message: Message;
}

/** Where outputs are: a node, its ports, and the event that it is at. */
export interface Viewpoint {
  readonly node: number;
  readonly ports: (port: number) => Pick<Port, "link" | "up" | "cutBy" | "faults">;
  readonly time: () => Time;
  readonly event: () => number;
}

/** A node's outputs, of which an observer is told what goes through them. */
export function observedOutputs(outputs: Outputs, observer: Observer, at: Viewpoint): Outputs {
  const { node } = at;
  const { scope } = observer;
  const noting = {
    noting: true,
    note(by: string, note: Note) {
      observer.see({ kind: "note", time: at.time(), node, event: at.event(), by, note });
      outputs.note?.(by, note);
    },
  };
  if (scope === "notes") return withNotes(outputs, noting);
  return {
    ...noting,
    send(port, message, departAt) {
      const freeAt = outputs.send(port, message, departAt);
      const { link, up, cutBy, faults } = at.ports(port);
      // Nothing leaves over a cable without another end; into one that is cut it does.
      if ((up || cutBy !== undefined) && (scope === "all" || message.kind === "frame")) {
        const of = { time: at.time(), node, event: at.event(), port, message };
        const sent = messageSent(of, link);
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
      if (scope !== "wire") {
        observer.see({ kind: "step", time: at.time(), node, event: at.event(), step });
      }
      if (step.busy === undefined) outputs.trace(step);
    },
    report: outputs.report,
  };
}

/** The outputs, whose `tracing` stays what it is from call to call. */
function withNotes(outputs: Outputs, noting: Pick<Outputs, "noting" | "note">): Outputs {
  return {
    ...noting,
    send: outputs.send,
    get tracing() {
      return outputs.tracing;
    },
    trace: outputs.trace,
    report: outputs.report,
  };
}

/** What is decided of a frame that has just been sent over a cable that is up. */
function effectOn(message: Message, faults: Port["faults"]): CableEffect | undefined {
  if (message.kind !== "frame" || faults === undefined) return undefined;
  return effectOf(faults.leaving.fate, message);
}

/** What is seen of a message that `link` has just taken: its transmitter is free when it has left. */
function messageSent(of: Passing, link: Link): MessageSeen {
  const endPs = link.freeAt;
  const startPs = endPs - transferTime(wireBytes(of.message), link.bitsPerSecond);
  return seen("sent", of, { startPs, endPs });
}

/**
 * Tells an observer that wants it of a message that has arrived over a cable of this rate, `tailPs` before
 * its last bit (see `Input` of `node.ts`). Both ends are stamped by a frame's first bit, as the clocks of network cards do,
 * so that a cut-through switch does not seem to send what it has not got.
 */
export function observeArrival(
  observer: Observer,
  of: Passing & { readonly tailPs: Time },
  bitsPerSecond: number,
): void {
  const { scope } = observer;
  if (scope === "notes" || (scope !== "all" && of.message.kind !== "frame")) return;
  observer.see(seen("received", of, spanOf(of, bitsPerSecond)));
}

/** Tells an observer that wants it of a frame that is lost, as its cable was cut before it arrived. */
export function observeCutOff(
  observer: Observer,
  of: Passing & { readonly tailPs: Time },
  bitsPerSecond: number,
): void {
  const { time, node, event, port, message } = of;
  if (observer.scope === "notes" || message.kind !== "frame") return;
  const { startPs } = spanOf(of, bitsPerSecond);
  observer.see({ kind: "cut-off", time, node, event, port, startPs, frame: message.bytes });
}

/** When the first and the last bit of a message pass the end at which it arrives. */
function spanOf(
  { time, tailPs, message }: Passing & { readonly tailPs: Time },
  bitsPerSecond: number,
): { readonly startPs: Time; readonly endPs: Time } {
  const endPs = time + tailPs;
  return { startPs: endPs - transferTime(wireBytes(message), bitsPerSecond), endPs };
}

function seen(
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
