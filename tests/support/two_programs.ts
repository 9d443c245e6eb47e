/**
 * Two programs that use the driver's objects on the two hosts of a rack, in step with each other by a
 * table outside of it.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_MW_BIND,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { ACCESS } from "../../fabric/wire/host_bus/rnic_command.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "./simulated_rack.ts";
import type { Cq, Mr, Pd, Qp } from "../../nodes/host/verbs/objects.ts";
import type { QpOptions } from "../../nodes/host/verbs/queue_pair.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";

/** @param defaults options of both hosts. */
function scenarioWith(defaults: object, programs: readonly object[]): string {
  return `
name: verbs
defaults: ${JSON.stringify(defaults)}
hosts: { a: {}, b: {} }
programs: ${JSON.stringify(programs)}
`;
}

/** What the two programs tell each other outside of the rack, by name. */
export class Table {
  readonly #values = new Map<string, number>();

  put(name: string, value = 0): void {
    this.#values.set(name, value);
  }

  *get(context: ProgramContext, name: string): Steps<number> {
    for (;;) {
      const value = this.#values.get(name);
      if (value !== undefined) return value;
      yield* context.cpu.sleep(1_000_000);
    }
  }
}

export type Side = (context: ProgramContext, table: Table) => Steps<void>;

/**
 * Runs both to their end, on hosts with these options.
 * @param failing runs beside the left one, and fails.
 */
export function run(
  left: Side,
  right: Side,
  defaults: object = {},
  failing?: Side,
): SimulatedRack {
  const table = new Table();
  let ended = 0;
  const programOf = (side: Side): Program =>
    function* (context) {
      yield* side(context, table);
      ended++;
      // What it has made goes with it: the other side may still need it.
      while (ended < 2) yield* context.cpu.sleep(100_000_000);
    };
  const programs: Record<string, Program> = {
    "./left.ts": programOf(left),
    "./right.ts": programOf(right),
    ...(failing && { "./failing.ts": programOf(failing) }),
  };
  const on = (path: string) => ({ on: path === "./right.ts" ? "b" : "a", run: path });
  const scenario = scenarioWith(defaults, Object.keys(programs).map(on));
  const rack = new SimulatedRack(scenario, { programs }).run(1e11);
  const failed = rack.reported("program-failed");
  assert.equal(failed.length, failing === undefined ? 0 : 1, JSON.stringify(failed));
  assert.equal(ended, 2, "a program has not come to its end");
  return rack;
}

const ADDRESS = { left: "b", right: "a" } as const;

/** Takes a queue pair to RTS with the other side's of the same name. */
export function* bringUp(
  context: ProgramContext,
  table: Table,
  connection: {
    readonly qp: Qp;
    readonly side: "left" | "right";
    readonly name: string;
    /** Besides WRITE and READ. */
    readonly access?: number;
    readonly rnrRetry?: number;
  },
): Steps<void> {
  const { device, cpu } = context;
  const { modifyQp, must } = device.verbs;
  const { qp, side, name, access = 0, rnrRetry = 7 } = connection;
  const other = side === "left" ? "right" : "left";
  table.put(`${name} ${side}`, qp.qpn);
  const destQpn = yield* table.get(context, `${name} ${other}`);
  const accessFlags = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead | access;
  must(yield* modifyQp(qp, { state: "init", accessFlags }));
  must(
    yield* modifyQp(qp, {
      state: "rtr",
      destAddress: cpu.addresses[ADDRESS[side]]!,
      pathMtu: 1024,
      destQpn,
      rqPsn: 7,
      maxDestRdAtomic: 12,
      minRnrTimer: 1,
    }),
  );
  const rts = { state: "rts", timeout: 8, retryCnt: 7, rnrRetry, sqPsn: 7 } as const;
  must(yield* modifyQp(qp, { ...rts, maxRdAtomic: 12 }));
  table.put(`${name} ${side} up`);
  yield* table.get(context, `${name} ${other} up`);
}

function* region(context: ProgramContext, pd: Pd): Steps<Mr> {
  const { regMr, must } = context.device.verbs;
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_MW_BIND;
  return must(yield* regMr(pd, context.cpu.allocate(8192), { access }));
}

/** Waits for what completes next of what has been sent. */
export function* statuses(context: ProgramContext, qp: Qp): Steps<string[]> {
  const completions = yield* context.device.verbs.waitCompletion(qp.sendCq);
  return completions.map(({ status }) => status);
}

/** Options of an RC queue pair with 8 sends, all signaled, and 8 receives, which complete on one queue. */
export function rcOptions(cq: Cq, more: Partial<QpOptions> = {}): QpOptions {
  const sizes = { maxSendWr: 8, maxRecvWr: 8 };
  return { type: "rc", sendCq: cq, recvCq: cq, ...sizes, sqSigAll: true, ...more };
}

/** One end of a connection, with a region of its own. */
export interface Ends {
  readonly qp: Qp;
  readonly pd: Pd;
  readonly mr: Mr;
  /** The peer's region. */
  readonly remote: { readonly va: number; readonly rkey: number };
  readonly connect: (name: string) => Steps<Qp>;
}

export type Body = (context: ProgramContext, ends: Ends, table: Table) => Steps<void>;

/**
 * Runs both over a connection of theirs to their end, on hosts with these options.
 * @param also `access`: what queue pairs permit besides WRITE and READ. `sqSigAll`: false where a test says itself
 * what is signaled. `failing`: see {@link run}.
 */
export function connected(
  left: Body,
  right: Body,
  defaults: object = {},
  also: {
    readonly access?: number;
    readonly sqSigAll?: boolean;
    readonly failing?: Side;
    readonly rnrRetry?: number;
  } = {},
): SimulatedRack {
  const { access = 0, sqSigAll = true, failing, rnrRetry = 7 } = also;
  const side = (which: "left" | "right", body: Body): Side =>
    function* (context, table) {
      const { allocPd, createCq, createQp, must } = context.device.verbs;
      const pd = allocPd(context.device);
      const mr = yield* region(context, pd);
      table.put(`region ${which}`, mr.address);
      table.put(`rkey ${which}`, mr.rkey);
      function* connect(name: string): Steps<Qp> {
        const cq = must(yield* createCq(context.device, { entries: 16 }));
        const qp = must(yield* createQp(pd, rcOptions(cq, { maxInlineData: 220, sqSigAll })));
        yield* bringUp(context, table, { qp, side: which, name, access, rnrRetry });
        return qp;
      }
      const qp = yield* connect("qp");
      const other = which === "left" ? "right" : "left";
      const va = yield* table.get(context, `region ${other}`);
      const remote = { va, rkey: yield* table.get(context, `rkey ${other}`) };
      yield* body(context, { qp, pd, mr, remote, connect }, table);
    };
  return run(side("left", left), side("right", right), defaults, failing);
}
