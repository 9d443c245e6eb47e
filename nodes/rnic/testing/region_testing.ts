/**
 * Shared regions on the rig (`rnic_testing.ts`): `a` is home, `b` far. Home's host has the real host agent of
 * `fabric/coherence`; the cores of both hosts are these functions.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { HOST_TABLE } from "../../../fabric/coherence/host_agent_table.ts";
import {
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
  readonly agent: HostAgent;
  /** Accesses by their number. */
  readonly done = new Map<number, Done>();
  /** Lines of which far's cores were told that the copy is gone. */
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
    const { memory } = this.rig.a.host;
    this.agent = newHostAgent({
      table: HOST_TABLE,
      contents: BYTE_CONTENTS,
      initial: (line) => memory.slice(line * LINE_BYTES, (line + 1) * LINE_BYTES),
    });
    this.rig.a.host.hear = (message) => this.#hear(message);
    this.rig.b.host.hear = (message) => {
      if (message.kind === "far-invalidate") this.gone.push(message.line);
      if (message.kind !== "far-answer") return;
      const { tag, result, data } = message;
      this.done.set(tag, { core: "far", result, data, at: this.rig.now });
    };
  }

  #hear(message: PcieMessage): void {
    if (this.holds(message)) {
      this.#held.push(message);
    } else if (message.kind === "coherent") {
      this.#answerCoherent(message);
    } else if (message.kind === "line") {
      const bus = { kind: message.op, line: lineOf(message.address), data: message.data };
      this.#act((out) => hostReceive(this.agent, bus, out));
    }
  }

  /** Home's host takes what {@link holds} has kept from it. */
  release(): void {
    this.holds = () => false;
    for (const message of this.#held.splice(0)) this.#hear(message);
  }

  /** What the card's ordinary DMA gets of a host that has no caches. */
  #answerCoherent(message: CoherentMessage): void {
    const { rig } = this;
    const { memory } = rig.a.host;
    const answer = (answer: CoherentMessage) => rig.toRnic(rig.a, answer);
    if (message.op === "InvItoE") {
      const { tag, address, lines } = message;
      answer({ kind: "coherent", op: "GntE", tag, address, lines });
    } else if (message.op === "RdCur" || message.op === "RdCode") {
      const { tag, address, lines } = message;
      const data = memory.slice(address, address + lines * LINE_BYTES);
      // Lines of the region are the agent's: what looks at the medium finds them there.
      for (let at = 0; at < data.length; at += LINE_BYTES) {
        const kept = this.agent.lines.get((address + at) / LINE_BYTES)?.memory;
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

  #act(does: (out: Output) => void): void {
    const out = newOutput();
    does(out);
    for (const { kind, line, data } of out.bus) {
      this.rig.toRnic(this.rig.a, {
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
    const tag = this.#next++;
    if (core === "far") {
      this.rig.toRnic(this.rig.b, {
        kind: "far-access",
        tag,
        region: this.region.id,
        line,
        op,
        ...(change && { change }),
      });
    } else {
      const kind = op === "own" ? "load" : op;
      const number = this.region.address / LINE_BYTES + line;
      const access: HostAccess = { kind, line: number, change, ticket: tag };
      this.#act((out) => hostAccess(this.agent, access, out));
    }
    return tag;
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
