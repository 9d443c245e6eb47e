/**
 * The home agent of this host's shared regions: `fabric/coherence`'s HA over the host's LLC, memory
 * controllers and bus. The table decides; this file carries the decisions out in {@link
 * MemorySystem}, so that shared regions and other memory compete for the LLC, and bytes are durable
 * exactly where the iMC has them (decisions 11, 12).
 *
 * A record is kept only for a line whose newest content is not in memory, or which has copies.
 */
import { allocateKept } from "../../../fabric/base/slab.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  HOST_TABLE,
  type HostLine,
  type HostTable,
  newHostLine,
} from "../../../fabric/coherence/host_agent_table.ts";
import {
  canEvictFromLlc,
  cardLost,
  evictFromLlc,
  type HostAccess,
  hostAccess,
  type HostAgent,
  type HostChange,
  hostReceive,
  newHostAgent,
  restartHost,
} from "../../../fabric/coherence/host_agent.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import { type Data, LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import { newOutput, type Output } from "../../../fabric/coherence/output.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import { type LineMessage, lineOf } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { AccessModule, Spent } from "../../../fabric/trace/access_modules.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { SCM_BASE } from "../memory/address_map.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import type { MemoryDirectory } from "./memory_directory.ts";

export interface HomeAgentParts {
  /** Absent: the protocol's own. */
  readonly table?: HostTable | undefined;
  readonly memory: MemorySystem;
  readonly timing: HostTiming;
  readonly processingPs: Time;
  /** Where the record of a line is kept (decision 7). */
  readonly directoryOf: HostAgent["directoryOf"];
  /** The part of the directory that survives a power failure. */
  readonly directory: MemoryDirectory;
  /** Sends a message, which departs `processingPs` from now, after `spent`. */
  readonly send: (message: LineMessage, spent: Spent) => void;
  /** An access has ended; its core pays `cost` beyond its wait. */
  readonly ended: (answer: Answer, cost: CoreCost) => void;
  /** Cores may have seen an older content of this line. */
  readonly changed: (line: number) => void;
  readonly state: (line: number, state: HostLine["llc"]) => void;
}

/** A core's cost of an access, by module. */
export type CoreCost = Spent["by"];

const FREE: CoreCost = {};

interface Leaving {
  readonly at: Time;
  readonly spent: Spent;
  readonly message: LineMessage;
}

export class HomeAgent {
  hits = 0;
  misses = 0;
  /** Snoops sent to the card for cores' accesses. */
  snoops = 0;
  /** Dirty lines that the card has written back to SCM, and to DRAM (decision 11). */
  writeBacksScm = 0;
  writeBacksDram = 0;
  readonly #parts: HomeAgentParts;
  readonly #agent: HostAgent;
  /** Messages of the card that wait for room in the iMC; they keep their order. */
  readonly #inbox = new Fifo<LineMessage>();
  #outbox: Leaving[] = [];
  readonly #scratch = new Uint8Array(LINE_BYTES);
  #now: Time = 0;
  #cost: CoreCost = FREE;

  constructor(parts: HomeAgentParts) {
    this.#parts = parts;
    const initial = (line: number) => this.#fromMemory(line);
    this.#agent = {
      ...newHostAgent({
        table: parts.table ?? HOST_TABLE,
        contents: BYTE_CONTENTS,
        initial,
        directoryOf: parts.directoryOf,
      }),
      changed: (line, change) => this.#changed(line, change),
    };
  }

  /** Notices that the card's E has become M [0060]. */
  get notices(): number {
    return this.#agent.counts.notices;
  }

  get records(): number {
    return this.#agent.lines.size;
  }

  /** Messages of the card that were not taken, and to it that have not left. */
  get messages(): number {
    return this.#inbox.length + this.#outbox.length;
  }

  /** Cores' accesses that wait. */
  get waiting(): number {
    return this.#agent.waiting.length;
  }

  /** Writes of a directory in memory that no content of the line carried (decision 7). */
  get directoryWrites(): number {
    return this.#agent.counts.directoryWrites;
  }

  /** When {@link run} has something to do. */
  get nextAt(): Time {
    const head = this.#inbox.peek();
    const room = head === undefined ? NEVER : this.#roomAt(head);
    return Math.min(this.#outbox[0]?.at ?? NEVER, room);
  }

  /** An access of a core of this host ends in `ended`, perhaps at once. */
  access(access: HostAccess, now: Time): void {
    this.#now = now;
    this.#refresh(access.line);
    this.#do(access.line, (out) => hostAccess(this.#agent, access, out));
    this.#sendDue();
  }

  /** A message of the card; its content waits until the iMC has room. */
  take(message: LineMessage, now: Time): void {
    this.#inbox.push(message);
    this.run(now);
  }

  run(now: Time): void {
    this.#now = now;
    for (let head = this.#inbox.peek(); head !== undefined; head = this.#inbox.peek()) {
      if (this.#roomAt(head) > now) break;
      this.#inbox.shift();
      this.#receive(head);
    }
    this.#sendDue();
  }

  #sendDue(): void {
    while (this.#outbox.length > 0 && this.#outbox[0]!.at <= this.#now) {
      const { message, spent } = this.#outbox.shift()!;
      this.#parts.send(message, spent);
    }
  }

  /** The card is gone: messages to it do not arrive. Messages that it has sent have arrived. */
  disconnected(now: Time): void {
    this.#now = now;
    for (let head = this.#inbox.shift(); head !== undefined; head = this.#inbox.shift()) {
      this.#receive(head);
    }
    this.#outbox = [];
  }

  /** Decision 14: all leases are over. @returns the lines whose last value is gone. */
  cardLost(now: Time): readonly number[] {
    this.#now = now;
    const out = newOutput();
    cardLost(this.#agent, out);
    this.#finish(out);
    this.#outbox = [];
    for (const line of [...this.#agent.lines.keys()]) this.#forget(line);
    return out.lost;
  }

  /**
   * The host has power. The directory's entries from an earlier life are of lines whose last
   * content is not in memory (decision 7). @returns these lines: they are poison.
   */
  boot(isFirstLife: boolean): readonly number[] {
    const { directory } = this.#parts;
    const out = newOutput();
    for (const line of isFirstLife ? [] : directory.staleLines()) {
      this.#agent.lines.set(line, { ...newHostLine(this.#fromMemory(line)), phase: "X" });
    }
    restartHost(this.#agent, out);
    directory.restart(out.lost);
    return out.lost;
  }

  flushRoomAt(line: number): Time {
    return this.#parts.memory.freeAt(line * LINE_BYTES, LINE_BYTES);
  }

  #receive({ op, address, data }: LineMessage): void {
    const line = lineOf(address);
    this.#refresh(line);
    if (data instanceof Uint8Array) {
      if (address >= SCM_BASE) this.writeBacksScm++;
      else this.writeBacksDram++;
    }
    this.#do(line, (out) => hostReceive(this.#agent, { kind: op, line, data }, out));
  }

  #do(line: number, act: (out: Output) => void): void {
    const out = newOutput();
    this.#cost = FREE;
    act(out);
    this.#finish(out);
    this.#forget(line);
  }

  #finish(out: Output): void {
    for (const { kind, line, data } of out.bus) {
      const message = { kind: "line", op: kind, address: line * LINE_BYTES } as const;
      const content = data as typeof LOST | Uint8Array<ArrayBuffer> | undefined;
      this.#leave(content === undefined ? message : { ...message, data: content });
    }
    for (const answer of out.answers) {
      const { access, result } = answer;
      if (access.kind === "load" && result === "done") this.#cost = this.#load(access.line);
      if (access.kind === "store" && result === "done") this.#parts.changed(access.line);
      this.#parts.ended(answer, this.#cost);
      this.#cost = FREE;
    }
  }

  /** A core's load through the LLC. @returns its cost. */
  #load(line: number): CoreCost {
    const { memory } = this.#parts, { llc } = memory;
    const { misses } = llc;
    const ps = memory.load(line * LINE_BYTES, this.#scratch);
    if (llc.misses === misses) {
      this.hits++;
      return { LLC: ps };
    }
    this.misses++;
    return { memory: ps };
  }

  // ── the table's decisions, carried out in the host's memory ───────────────────────────────────

  #changed(line: number, { before, after }: HostChange): void {
    const { memory, directory, state, changed } = this.#parts;
    const address = line * LINE_BYTES;
    if (after.memory !== before.memory && after.memory !== LOST) {
      if (before.llc === "M") memory.cleanLine(address);
      else memory.writeThrough(address, after.memory as Uint8Array);
    }
    directory.changed(line, before, after);
    if (after.llc === "M" && after.cached !== before.cached) this.#store(address, before, after);
    if (after.llc === "I" && before.llc !== "I") {
      memory.dropLine(address);
      changed(line);
    }
    if (after.llc !== before.llc) state(line, after.llc);
  }

  /** A core's store, into the LLC: the bytes that differ, or the whole line where none does. */
  #store(address: number, before: HostLine, after: HostLine): void {
    const { memory, timing } = this.#parts, { llc } = memory;
    const bytes = after.cached as Uint8Array;
    // An invalidated line of the LLC is no base: the store misses and finds memory's bytes.
    const base = before.llc === "I" ? after.memory : before.cached;
    const [from, to] = base instanceof Uint8Array ? differing(base, bytes) : [0, LINE_BYTES];
    const { misses } = llc;
    const core = memory.store(address + from, bytes.subarray(from, to));
    this.#cost = { core };
    if (llc.misses === misses) this.hits++;
    else {
      this.misses++;
      // The core waits for the line (decision 16). A plain store that misses waits in the core's store buffer.
      const isScm = address >= SCM_BASE;
      const scmPs = isScm ? timing.scmLoadPs + memory.scmWaitPs(address, LINE_BYTES) : 0;
      this.#cost = { core, memory: isScm ? scmPs : timing.dramLoadPs };
    }
  }

  /** Notices that the LLC has evicted a line meanwhile, for another's place. */
  #refresh(line: number): void {
    const record = this.#agent.lines.get(line);
    if (record === undefined || record.llc === "I") return;
    const { memory } = this.#parts;
    if (memory.llc.find(memory.physical.lineOf(line * LINE_BYTES)) >= 0) return;
    if (canEvictFromLlc(this.#agent, line)) evictFromLlc(this.#agent, line, newOutput());
  }

  /** Drops a record that says nothing beyond memory. */
  #forget(line: number): void {
    const record = this.#agent.lines.get(line);
    if (record === undefined) return;
    const { phase, llc, memory, queued } = record;
    if (phase === "none" && llc === "I" && memory !== LOST && queued === null) {
      this.#agent.lines.delete(line);
    }
  }

  /**
   * The content of a line that neither the card nor a core has. DMA from before the card knew its
   * regions, as a journal's under `wsp`, may have left it in the LLC: that is written back first.
   */
  #fromMemory(line: number): Data {
    const { memory } = this.#parts, address = line * LINE_BYTES;
    if (memory.llc.find(memory.physical.lineOf(address)) >= 0) {
      memory.cleanLine(address);
      memory.dropLine(address);
    }
    const bytes = allocateKept(LINE_BYTES);
    memory.physical.read(address, bytes);
    return bytes;
  }

  // ── times ──────────────────────────────────────────────────────────────────────────────────────

  #roomAt({ address, data }: LineMessage): Time {
    if (!(data instanceof Uint8Array)) return 0;
    return this.#parts.memory.freeAt(address, LINE_BYTES);
  }

  /** Messages of one line leave in order: a grant goes before a later snoop of its line. */
  #leave(message: LineMessage): void {
    const { processingPs } = this.#parts;
    if (message.op === "SnpInv" || message.op === "SnpData") this.snoops++;
    const { module, ps } = this.#delayOf(message);
    const ready = this.#now + Math.max(0, ps - processingPs);
    const earlier = this.#outbox.findLast((each) => each.message.address === message.address);
    const at = Math.max(ready, earlier?.at ?? 0);
    let place = this.#outbox.length;
    while (place > 0 && this.#outbox[place - 1]!.at > at) place--;
    const inPort = Math.max(0, processingPs - ps);
    const by = { waits: at - ready, "host port": inPort, [module]: ps };
    this.#outbox.splice(place, 0, { at, message, spent: { untilPs: at + processingPs, by } });
  }

  /**
   * From the cause of a message to its departure: reading the line, its acceptance by the iMC, a
   * look into the LLC.
   */
  #delayOf({ op, address }: LineMessage): { readonly module: AccessModule; readonly ps: Time } {
    const { timing, memory } = this.#parts;
    switch (op) {
      case "GrantS":
      case "GrantE": {
        if (memory.llc.find(memory.physical.lineOf(address)) >= 0) {
          return { module: "LLC", ps: timing.dmaReadLlcPs };
        }
        return {
          module: "memory",
          ps: address >= SCM_BASE
            ? timing.dmaReadScmPs + memory.scmWaitPs(address, LINE_BYTES)
            : timing.dmaReadDramPs,
        };
      }
      case "Cmp":
        return { module: "memory", ps: timing.iioPs };
      default:
        return { module: "LLC", ps: timing.llcHitPs };
    }
  }
}

/** The smallest range of bytes that contains all differences; the whole line without one. */
function differing(from: Uint8Array, to: Uint8Array): readonly [number, number] {
  let first = 0, end = LINE_BYTES;
  while (first < LINE_BYTES && from[first] === to[first]) first++;
  if (first === LINE_BYTES) return [0, LINE_BYTES];
  while (from[end - 1] === to[end - 1]) end--;
  return [first, end];
}
