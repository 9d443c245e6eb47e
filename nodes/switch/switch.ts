/**
 * An Ethernet switch with output queues. Read `forwarding.ts`, `output_queue.ts`, `shared_buffer.ts` and
 * `marking.ts` first.
 *
 * A frame leaves at least `latencyPs` after its arrival. A port selects its next frame `latencyPs` before that leaves,
 * so that a pause or a mark still affects every queued frame.
 */
import { fail } from "../../fabric/base/assert.ts";
import {
  askPause,
  askResume,
  createPauseRequests,
  createPauses,
  endPauses,
  forgetRequests,
  pausedTime,
  type PauseRequests,
  takePfc,
} from "../../fabric/link/pause.ts";
import type { Frame, Input, Node, Outputs } from "../../fabric/node.ts";
import type { EcnParameters, SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { switchProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { ETHERNET_BYTES } from "../../fabric/wire/roce/ethernet.ts";
import {
  frameDestination,
  frameEcn,
  framePriority,
  markCongestion,
} from "../../fabric/wire/roce/frame_peek.ts";
import { headOf, lengthOf } from "../../fabric/wire/roce/packet.ts";
import { ECN } from "../../fabric/wire/roce/ipv4.ts";
import { decodePfc, isMacControl, PRIORITIES } from "../../fabric/wire/roce/pfc.ts";
import { createCounters } from "./counters.ts";
import { choosePort, createMultipath, type Multipath } from "./ecmp.ts";
import { FLOOD, lookUp, RESERVED, UNKNOWN } from "./forwarding.ts";
import { isMarked } from "./marking.ts";
import { IncomingFrames } from "./incoming.ts";
import {
  createRoutes,
  forgetNeighbour,
  isWithdrawn,
  nextWithdrawalAt,
  type Routes,
  takeWithdrawal,
  withdrawals,
} from "./routes.ts";
import {
  createOutputQueue,
  dequeue,
  enqueue,
  laneBytes,
  mayGoAt,
  nextPriority,
  type OutputQueue,
} from "./output_queue.ts";
import {
  createSharedBuffer,
  type Full,
  fullFor,
  occupy,
  type Passage,
  type SharedBuffer,
  vacate,
} from "./shared_buffer.ts";
import {
  createGroupTable,
  forgetPort,
  groupPorts,
  type GroupTable,
  introduce,
  type OwnFrame,
  takeReport,
} from "./snooping.ts";

/**
 * The switch has no power yet; ports are up until a link event. `seed` is the run's: only marking
 * draws from it.
 */
export function createSwitch(
  name: string,
  plan: SwitchPlan,
  options: { readonly seed: number },
): Node {
  return new Switch(name, plan, options.seed);
}

class Switch implements Node {
  readonly name: string;
  readonly kind = "switch";
  readonly processingPs: Time;
  readonly actsOnHead: boolean;
  readonly #table: ReadonlyMap<number, number>;
  readonly #multipath: Multipath | undefined;
  readonly #routes: Routes;
  #routesAt: Time = NEVER;
  readonly #groups: GroupTable;
  readonly #queues: OutputQueue[];
  readonly #rates: readonly number[] | undefined;
  readonly #incoming = new IncomingFrames();
  readonly #buffer: SharedBuffer;
  readonly #requests: PauseRequests[];
  readonly #ecn: EcnParameters | null;
  /** One per port, so that a port's traffic does not affect another's marks. */
  readonly #rngs: Rng[];
  readonly #hasPriorities: boolean;
  #now: Time = 0;
  #out: Outputs | undefined;
  #wakeAt: Time = NEVER;
  /** The sum, over all queued frames, of the queue length that a frame has met, itself included. */
  #queueSeenBytes = 0;
  readonly #counters = createCounters();
  readonly #said = new Set<number | Full>();

  constructor(name: string, plan: SwitchPlan, seed: number) {
    this.name = name;
    this.processingPs = switchProcessingPs(plan);
    this.actsOnHead = plan.mode === "cut-through";
    this.#table = new Map(plan.forwarding);
    this.#multipath = createMultipath(name, plan, { seed });
    this.#routes = createRoutes(plan);
    this.#groups = createGroupTable(plan);
    this.#rates = plan.portRates;
    this.#buffer = createSharedBuffer(plan);
    this.#hasPriorities = plan.congestion !== undefined;
    const ports = Array.from({ length: plan.ports }, (_, port) => port);
    const { ecn, pfc } = plan.congestion ?? { ecn: null, pfc: null };
    this.#ecn = ecn;
    this.#rngs = ecn === null ? [] : ports.map((port) => rngFor(seed, `${name}/ecn/${port}`));
    this.#queues = ports.map((port) =>
      createOutputQueue(pfc === null ? undefined : createPauses(pfc.ports[port]!.bitsPerSecond))
    );
    this.#requests = pfc === null
      ? []
      : ports.map((port) => createPauseRequests(pfc.mac, pfc.ports[port]!.bitsPerSecond));
  }

  step(now: Time, input: Input, out: Outputs): void {
    this.#now = now;
    this.#out = out;
    if (this.#incoming.nextAt <= now) this.#complete();
    switch (input.kind) {
      case "message":
        if (input.message.kind !== "frame") fail(`A switch got a ${input.message.kind}`);
        this.#receive({ port: input.port, frame: input.message, tailPs: input.tailPs });
        return;
      case "wake":
        if (this.#routesAt <= now) this.#reroute();
        this.#refreshPauses();
        this.#serve();
        return;
      case "link":
        this.#setLink(input);
        return;
      case "power":
      case "run":
      case "writeback":
        return;
    }
  }

  wakeAt(): Time {
    return this.#wakeAt;
  }

  statistics(): Record<string, number> {
    let queuePeakBytes = 0, pausedPs = 0;
    const ports: Record<string, number> = {};
    for (const [port, queue] of this.#queues.entries()) {
      ports[`port${port}.sentFrames`] = queue.sentFrames;
      ports[`port${port}.sentBytes`] = queue.sentBytes;
      ports[`port${port}.queuedBytes`] = queue.bytes;
      queuePeakBytes = Math.max(queuePeakBytes, queue.peakBytes);
      if (queue.pauses !== undefined) pausedPs += pausedTime(queue.pauses, this.#now);
    }
    const { queuedFrames } = this.#counters;
    const queueMeanBytes = queuedFrames === 0 ? 0 : Math.round(this.#queueSeenBytes / queuedFrames);
    const { peakBytes: bufferPeakBytes, headroomPeakBytes } = this.#buffer;
    const peaks = { queuePeakBytes, bufferPeakBytes, headroomPeakBytes };
    return { ...this.#counters, ...peaks, queueMeanBytes, pausedPs, ...ports };
  }

  #receive(from: Received): void {
    const { port, frame, tailPs } = from;
    const counters = this.#counters;
    counters.receivedFrames++;
    counters.receivedBytes += lengthOf(frame);
    if (lengthOf(frame) < ETHERNET_BYTES) {
      counters.droppedRunt++;
      return;
    }
    const verdict = this.#wayOf(headOf(frame));
    switch (verdict) {
      case UNKNOWN:
        counters.droppedUnknown++;
        return;
      case RESERVED:
        if (!this.#obey(from) && !this.#learn(from)) counters.droppedReserved++;
        return;
      case FLOOD:
        return this.#receiveGroup(from);
    }
    // The destination is on the source's segment, and has received the frame (IEEE 802.1D §7.7).
    if (verdict === port) counters.droppedReturn++;
    else this.#pass({ from: port, to: verdict, frame }, tailPs);
  }

  #wayOf(head: Uint8Array): number {
    const verdict = lookUp(this.#table, head);
    if (verdict !== UNKNOWN || this.#multipath === undefined) return verdict;
    const to = { mac: frameDestination(head), now: this.#now };
    const leadsThere = (port: number) =>
      this.#queues[port]!.up && !isWithdrawn(this.#routes, port, to);
    return choosePort(this.#multipath, head, leadsThere) ?? UNKNOWN;
  }

  #receiveGroup({ port, frame, tailPs }: Received): void {
    const reports = takeReport(this.#groups, port, headOf(frame));
    if (reports !== undefined) {
      this.#counters.snoopedReports++;
      return this.#announce(reports);
    }
    this.#counters.floodedFrames++;
    for (const to of groupPorts(this.#groups, port, headOf(frame))) {
      this.#pass({ from: port, to, frame }, tailPs);
    }
  }

  #reroute(): void {
    const at = { now: this.#now, isUp: (port: number) => this.#queues[port]!.up };
    this.#announce(withdrawals(this.#routes, at));
    this.#routesAt = nextWithdrawalAt(this.#routes, at);
    this.#wakeAt = Math.min(this.#wakeAt, this.#routesAt);
  }

  #announce(frames: readonly OwnFrame[]): void {
    for (const frame of frames) {
      if (this.#queues[frame.port]!.up) this.#control(frame);
    }
  }

  #learn({ port, frame }: { port: number; frame: Frame }): boolean {
    const isTaken = takeWithdrawal(this.#routes, { port, now: this.#now }, frame.bytes);
    if (!isTaken) return false;
    this.#counters.routeUpdates++;
    this.#reroute();
    return true;
  }

  /** A link-local frame. @returns whether this switch processes it. */
  #obey({ port, frame }: { port: number; frame: Frame }): boolean {
    const queue = this.#queues[port];
    if (queue?.pauses === undefined || !isMacControl(headOf(frame))) return false;
    const pfc = decodePfc(frame.bytes);
    if (pfc === undefined) return false;
    if (pfc.quanta.some((quanta) => quanta !== undefined && quanta > 0)) this.#counters.pausesIn++;
    takePfc(queue.pauses, this.#now, pfc);
    this.#serve();
    return true;
  }

  /** Forwards the frame, or stores it first; `tailPs` are missing. */
  #pass(way: { from: number; to: number; frame: Frame }, tailPs: Time): void {
    const rates = this.#rates;
    const isFaster = rates !== undefined && rates[way.to]! > rates[way.from]!;
    if (!isFaster || tailPs === 0) return this.#forward(way);
    const at = this.#now + tailPs;
    this.#incoming.hold({ ...way, at });
    this.#wakeAt = Math.min(this.#wakeAt, at);
  }

  #complete(): void {
    for (const frame of this.#incoming.takeComplete(this.#now)) this.#forward(frame);
    this.#findWake();
  }

  #forward(way: { from: number; to: number; frame: Frame }): void {
    const { from, to, frame } = way;
    const queue = this.#queues[to];
    if (queue === undefined) fail(`Switch ${this.name} forwards to port ${to}, which it lacks`);
    if (!queue.up) {
      this.#counters.droppedLinkDown++;
      return;
    }
    const priority = this.#hasPriorities ? framePriority(headOf(frame)) : 0;
    if (this.#isFree(queue, priority)) return this.#send({ port: to, frame });
    const passage: Passage = { from, to, priority, bytes: lengthOf(frame) };
    const full = fullFor(this.#buffer, passage);
    if (full !== undefined) return this.#dropForRoom(passage, full);
    enqueue(queue, priority, { frame: this.#mark(queue, passage, frame), from });
    this.#counters.queuedFrames++;
    this.#queueSeenBytes += queue.bytes;
    if (occupy(this.#buffer, passage)) this.#pause(passage);
    this.#wakeAt = Math.min(this.#wakeAt, this.#portWakeAt(queue));
  }

  #dropForRoom(passage: Passage, full: Full): void {
    const isBeyondHeadroom = full === "headroom";
    if (isBeyondHeadroom) this.#counters.droppedHeadroom++;
    else this.#counters.droppedQueueFull++;
    const { pfc } = this.#buffer;
    if (pfc === null) return;
    const key = isBeyondHeadroom ? passage.from * PRIORITIES + passage.priority : full;
    if (this.#said.has(key)) return;
    this.#said.add(key);
    const message = isBeyondHeadroom
      ? beyondHeadroom(pfc, passage)
      : `a frame of priority ${passage.priority} is dropped ${LOSSY_FULL[full]}: PFC is on for ` +
        `${priorityNames(pfc.lossless)} only`;
    this.#out!.report("warning", { message });
  }

  #isFree(queue: OutputQueue, priority: number): boolean {
    if (queue.freeAt - this.processingPs > this.#now) return false;
    const { pauses } = queue;
    if (pauses === undefined) return queue.frames === 0;
    return pauses.until[priority]! <= this.#now && nextPriority(queue, this.#now) < 0;
  }

  #mark(queue: OutputQueue, { to, priority }: Passage, frame: Frame): Frame {
    const ecn = this.#ecn;
    if (ecn === null || frameEcn(headOf(frame)) === ECN.notCapable) return frame;
    if (!isMarked(ecn, laneBytes(queue, priority), this.#rngs[to]!)) return frame;
    this.#counters.ecnMarked++;
    return { kind: "frame", bytes: markCongestion(frame.bytes) };
  }

  #pause({ from, priority }: Passage): void {
    const requests = this.#requests[from]!;
    if ((requests.asked & (1 << priority)) !== 0) return;
    this.#counters.pausesOut++;
    this.#control({ port: from, bytes: askPause(requests, this.#now, 1 << priority) });
    this.#wakeAt = Math.min(this.#wakeAt, requests.refreshAt);
  }

  #resume({ from, priority }: Passage): void {
    const requests = this.#requests[from]!;
    if ((requests.asked & (1 << priority)) === 0) return;
    this.#counters.resumesOut++;
    this.#control({ port: from, bytes: askResume(requests, 1 << priority) });
  }

  #refreshPauses(): void {
    for (const [port, requests] of this.#requests.entries()) {
      if (requests.refreshAt > this.#now) continue;
      this.#counters.pausesOut++;
      this.#control({ port, bytes: askPause(requests, this.#now, requests.asked) });
    }
  }

  #control(to: { port: number; bytes: Uint8Array<ArrayBuffer> }): void {
    const frame: Frame = { kind: "frame", bytes: to.bytes };
    this.#transmit(to.port, frame);
  }

  #transmit(port: number, frame: Frame): void {
    const queue = this.#queues[port]!;
    queue.freeAt = this.#out!.send(port, frame, this.#now + this.processingPs);
    queue.sentFrames++;
    queue.sentBytes += lengthOf(frame);
  }

  #serve(): void {
    for (let port = 0; port < this.#queues.length; port++) {
      const queue = this.#queues[port]!;
      while (queue.frames > 0 && queue.freeAt - this.processingPs <= this.#now) {
        const priority = nextPriority(queue, this.#now);
        if (priority < 0) break;
        const { frame, from } = dequeue(queue, priority);
        this.#send({ port, frame });
        this.#leave({ from, to: port, priority, bytes: lengthOf(frame) });
      }
    }
    this.#findWake();
  }

  #leave(passage: Passage): void {
    if (vacate(this.#buffer, passage)) this.#resume(passage);
  }

  #send(to: { port: number; frame: Frame }): void {
    this.#transmit(to.port, to.frame);
    this.#counters.sentFrames++;
    this.#counters.sentBytes += lengthOf(to.frame);
  }

  #setLink(link: { port: number; up: boolean }): void {
    const { port, up } = link;
    const queue = this.#queues[port];
    if (queue === undefined) return;
    const wasUp = queue.up;
    queue.up = up;
    if (up !== wasUp) {
      forgetNeighbour(this.#routes, port);
      this.#reroute();
    }
    if (up) {
      if (!wasUp) this.#announce(introduce(this.#groups, port));
      return;
    }
    this.#counters.droppedLinkDown += this.#incoming.cutOff(port);
    this.#announce(forgetPort(this.#groups, port));
    if (queue.pauses !== undefined) {
      endPauses(queue.pauses, this.#now);
      forgetRequests(this.#requests[port]!);
    }
    for (let priority = 0; priority < PRIORITIES; priority++) {
      while (laneBytes(queue, priority) > 0) {
        const { frame, from } = dequeue(queue, priority);
        this.#counters.droppedLinkDown++;
        this.#leave({ from, to: port, priority, bytes: lengthOf(frame) });
      }
    }
    this.#findWake();
  }

  #findWake(): void {
    let wakeAt = Math.min(this.#routesAt, this.#incoming.nextAt);
    for (const queue of this.#queues) {
      if (queue.frames > 0) wakeAt = Math.min(wakeAt, this.#portWakeAt(queue));
    }
    for (const { refreshAt } of this.#requests) wakeAt = Math.min(wakeAt, refreshAt);
    this.#wakeAt = wakeAt;
  }

  #portWakeAt(queue: OutputQueue): Time {
    return Math.max(queue.freeAt - this.processingPs, mayGoAt(queue, this.#now));
  }
}

interface Received {
  readonly port: number;
  readonly frame: Frame;
  readonly tailPs: Time;
}

const LOSSY_FULL: Readonly<Record<Exclude<Full, "headroom">, string>> = {
  queue: "at a full queue",
  share: "beyond alpha's share of the free buffer",
  pool: "as the shared buffer is full, though the queue is not",
};

function beyondHeadroom(
  { ports, headroomPoolBytes }: NonNullable<SharedBuffer["pfc"]>,
  { from, priority }: Passage,
): string {
  const { headroomBytes, neededBytes = headroomBytes, peer } = ports[from]!;
  const source = peer === undefined ? `port ${from}` : peer;
  const pool = headroomPoolBytes === undefined ? "" : ` or all ports' of ${headroomPoolBytes} B`;
  const reason = neededBytes > headroomBytes
    ? `the cable needs ${neededBytes} B`
    : headroomPoolBytes === undefined
    ? "the sender goes on although it was asked to pause"
    : "several ports use the pool at once";
  return `a lossless frame of ${source}, priority ${priority}, is dropped: ` +
    `the headroom of ${headroomBytes} B${pool} is full; ${reason}`;
}

function priorityNames(mask: number): string {
  const names = Array.from({ length: PRIORITIES }, (_, priority) => priority)
    .filter((priority) => (mask & (1 << priority)) !== 0);
  return `${names.length === 1 ? "priority" : "priorities"} ${names.join(", ")}`;
}
