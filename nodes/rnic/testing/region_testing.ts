/**
 * Shared regions on the rig (`rnic_testing.ts`): `a` is home, `b` far; of further regions it may be the other way
 * round. Each host has the real host agent of `fabric/coherence`; the cores of both hosts are these functions.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { HOST_TABLE } from "../../../fabric/coherence/host_agent_table.ts";
import {
  cardLost,
  type HostAccess,
  hostAccess,
  type HostAgent,
  hostReceive,
  newHostAgent,
} from "../../../fabric/coherence/host_agent.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import { type LineChange, WHOLE_LINE } from "../../../fabric/wire/host_bus/line_change.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import type { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import { newOutput, type Output } from "../../../fabric/coherence/output.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { REGION_SIZES, type SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import {
  type FarAccess,
  type FarAnswer,
  type FarOp,
  lineOf,
} from "../../../fabric/wire/host_bus/region_messages.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { CoherentMessage } from "../../../fabric/wire/host_bus/coherent.ts";
import { EVERY_ACCESS } from "./pair_testing.ts";
import type { RigOptions, Side } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";

/** Where the region is, in home's memory: above all that the fake driver gives out at first. */
export const REGION_AT = 0x20_0000;
export const REGION_LINES = 16;

export function regionPlan(given: Partial<SharedRegion> = {}): SharedRegion {
  return {
    ...REGION_SIZES,
    id: 0,
    name: "s",
    home: { host: "a", address: 0x0a00_0001 },
    far: [{ host: "b", address: 0x0a00_0002, agent: 1 }],
    memory: "dram",
    address: REGION_AT,
    bytes: REGION_LINES * LINE_BYTES,
    placement: "remote",
    leasePs: 50 * PS_PER_US,
    leaseMarginPs: 5 * PS_PER_US,
    homeWaitPs: 55 * PS_PER_US,
    ...given,
  };
}

export type Core = "home" | "far";

export interface Done {
  readonly core: Core;
  readonly result: FarAnswer["result"];
  readonly data: Uint8Array | undefined;
  readonly at: number;
}

/** A rig with one region that both cards know, and cores at both ends. */
export class RegionRig {
  readonly rig: Rig;
  readonly agents: { readonly a: HostAgent; readonly b: HostAgent };
  /** Accesses by their number. */
  readonly done = new Map<number, Done>();
  /** Lines of which far cores were told that the copy is gone. */
  readonly gone: number[] = [];
  /** Messages of home's card that its host does not take yet. */
  holds: (message: PcieMessage) => boolean = () => false;
  readonly #held: PcieMessage[] = [];
  #next = 1;

  constructor(
    readonly region: SharedRegion = regionPlan(),
    options: RigOptions = {},
    /** All regions of both cards; the first one is `region`. */
    shared: readonly SharedRegion[] = [region],
  ) {
    this.rig = new Rig({
      ...options,
      plans: {
        a: { ...options.plans?.a, shared },
        b: { ...options.plans?.b, shared },
      },
    });
    this.agents = { a: this.#agentOf(this.rig.a), b: this.#agentOf(this.rig.b) };
    for (const side of [this.rig.a, this.rig.b]) {
      side.host.hear = (message) => this.#hear(side, message);
    }
  }

  #agentOf({ host: { memory } }: Side): HostAgent {
    return newHostAgent({
      table: HOST_TABLE,
      contents: BYTE_CONTENTS,
      initial: (line) => memory.slice(line * LINE_BYTES, (line + 1) * LINE_BYTES),
    });
  }

  get agent(): HostAgent {
    return this.agents.a;
  }

  #hear(side: Side, message: PcieMessage): void {
    if (side === this.rig.a && this.holds(message)) {
      this.#held.push(message);
    } else if (message.kind === "coherent") {
      this.#answerCoherent(side, message);
    } else if (message.kind === "line") {
      const bus = { kind: message.op, line: lineOf(message.address), data: message.data };
      this.#act(side, (out) => hostReceive(this.agents[side.name], bus, out));
    } else if (message.kind === "far-invalidate") {
      this.gone.push(message.line);
    } else if (message.kind === "far-answer") {
      const { tag, result, data } = message;
      this.done.set(tag, { core: "far", result, data, at: this.rig.now });
    }
  }

  /** Home's host takes what {@link holds} has kept from it. */
  release(): void {
    this.holds = () => false;
    for (const message of this.#held.splice(0)) this.#hear(this.rig.a, message);
  }

  /** What the card's ordinary DMA gets of a host that has no caches. */
  #answerCoherent(side: Side, message: CoherentMessage): void {
    const { rig } = this, { memory } = side.host;
    const answer = (answer: CoherentMessage) => rig.toRnic(side, answer);
    if (message.op === "InvItoE") {
      const { tag, address, lines } = message;
      answer({ kind: "coherent", op: "GntE", tag, address, lines });
    } else if (message.op === "RdCur" || message.op === "RdCode") {
      const { tag, address, lines } = message;
      const data = memory.slice(address, address + lines * LINE_BYTES);
      // Lines of the region are the agent's: what looks at the medium finds them there.
      for (let at = 0; at < data.length; at += LINE_BYTES) {
        const kept = this.agents[side.name].lines.get((address + at) / LINE_BYTES)?.memory;
        if (kept instanceof Uint8Array) data.set(kept, at);
      }
      answer({ kind: "coherent", op: "DataC", tag, address, state: "I", data });
    } else if (message.op === "WbMtoI" || message.op === "WbMtoE") {
      const { tag, address, data } = message;
      memory.set(data, address);
      const first = address - address % LINE_BYTES;
      const lines = Math.ceil((address + data.length - first) / LINE_BYTES);
      answer({ kind: "coherent", op: "Cmp", tag, address: first, lines });
    }
  }

  /** A key for the region's memory at home, with all rights. */
  registerMemory(): number {
    const { address, bytes } = this.region;
    return this.rig.registerPlan(this.rig.a, {
      pd: 1,
      va: address,
      length: bytes,
      access: EVERY_ACCESS,
      pageBytes: 4096,
      pages: [address],
      persistent: true,
    });
  }

  #act(side: Side, does: (out: Output) => void): void {
    const out = newOutput();
    does(out);
    for (const { kind, line, data } of out.bus) {
      this.rig.toRnic(side, {
        kind: "line",
        op: kind,
        address: line * LINE_BYTES,
        ...(data !== undefined && { data: data as Uint8Array<ArrayBuffer> | typeof LOST }),
      });
    }
    for (const { access, result, data } of out.answers) this.#homeDone(access.ticket, result, data);
  }

  #homeDone(ticket: number, result: Answer["result"], data: Answer["data"]): void {
    const bytes = data instanceof Uint8Array ? data : undefined;
    this.done.set(ticket, { core: "home", result, data: bytes, at: this.rig.now });
  }

  /** Both hosts register the region. */
  register(): void {
    for (const side of [this.rig.a, this.rig.b]) {
      const reply = this.rig.command(side, { op: "register-region", region: this.region.id });
      assert(reply.status === "ok", `register-region: ${JSON.stringify(reply)}`);
    }
  }

  command(side: Side, op: "register-region" | "deregister-region"): RnicReply {
    return this.rig.command(side, { op, region: this.region.id });
  }

  /** A core's access to a line of the region, counted from 0. @returns its number. */
  begin(core: Core, op: FarOp, line: number, change?: LineChange): number {
    return this.beginAt(this.region, core, { op, line, ...(change && { change }) });
  }

  /** The same, of any region. */
  beginAt(
    { id, address, home }: SharedRegion,
    core: Core,
    { op, line, change }: Pick<FarAccess, "op" | "line" | "change">,
  ): number {
    const tag = this.#next++, { rig } = this;
    const [near, far] = home.host === "a" ? [rig.a, rig.b] : [rig.b, rig.a];
    if (core === "far") {
      const access = { kind: "far-access", tag, region: id, line, op } as const;
      rig.toRnic(far, change === undefined ? access : { ...access, change });
    } else {
      const kind = op === "own" ? "load" : op;
      const access: HostAccess = { kind, line: address / LINE_BYTES + line, change, ticket: tag };
      this.#act(near, (out) => hostAccess(this.agents[near.name], access, out));
    }
    return tag;
  }

  /** A host's card is gone and all leases of far cards are over: what it had alone is lost (decision 14). */
  cardLost(side: Side): void {
    this.#act(side, (out) => cardLost(this.agents[side.name], out));
  }

  /** The same, until it is done. */
  access(core: Core, op: FarOp, line: number, change?: LineChange): Done {
    const tag = this.begin(core, op, line, change);
    this.rig.run(() => this.done.has(tag));
    const done = this.done.get(tag);
    assert(done !== undefined, `${core}'s ${op} of line ${line} has no answer`);
    return done;
  }

  /** The first byte of a line, as a core sees it. */
  load(core: Core, line: number): number | string {
    const { result, data } = this.access(core, "load", line);
    return result === "done" ? data![0]! : result;
  }

  /** Stores a byte into the first one of a line. */
  store(core: Core, line: number, value: number): string {
    return this.access(core, "store", line, byteAt(0, value)).result;
  }

  counter(side: "a" | "b", name: string): number {
    return this.rig[side].rnic.statistics()[name] ?? 0;
  }

  /** Home's memory, as the host agent has it. */
  memory(line: number): number | string {
    const number = this.region.address / LINE_BYTES + line;
    const content = this.agent.lines.get(number)?.memory ?? this.agent.initial(number);
    return content instanceof Uint8Array ? content[0]! : String(content);
  }
}

/** A store of one byte. */
export function byteAt(offset: number, value: number): LineChange {
  const bytes = new Uint8Array(LINE_BYTES);
  bytes[offset] = value;
  return { kind: "write", mask: 1n << BigInt(offset), bytes };
}

export function wholeLine(value: number): LineChange {
  return { kind: "write", mask: WHOLE_LINE, bytes: new Uint8Array(LINE_BYTES).fill(value) };
}
