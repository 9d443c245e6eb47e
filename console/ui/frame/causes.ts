/** From a verdict about bytes to what has made it: one click each, from every view. */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { machineOf } from "../../../fabric/rack/plan/names.ts";
import { api } from "../data/api.ts";
import { go, hrefOf } from "../state.ts";
import { refuse } from "./notice.tsx";

/** A byte of a host's SCM. */
export interface ByteOf {
  readonly host: string;
  readonly address: number;
}

/** What a device does at an instant. */
export interface At {
  readonly node: string;
  readonly time: Time;
}

export interface RunOf {
  readonly run: string;
  /** Undefined: the run has one alone. */
  readonly variant: string | undefined;
}

/** Lines on both sides, in whole pages. */
const AROUND_BYTES = 64 * 1024;

/** @param at absent: the end of the run, with what a power failure has taken. */
export function memoryHref({ host, address }: ByteOf, of: RunOf, at?: Time): string {
  const from = Math.max(0, address - address % 4_096 - AROUND_BYTES);
  return hrefOf({
    ...of,
    view: "memory",
    at,
    select: { kind: "line", host, address: address - address % LINE_BYTES },
    more: { host, from: String(from), to: String(from + 2 * AROUND_BYTES) },
  });
}

/** A device right behind what it did at an instant: frames on their way, counters, programs. */
export function instantHref({ node, time }: At, of: RunOf): string {
  const select = { kind: "device", name: node } as const;
  // What happens at an instant has happened behind it.
  return hrefOf({ ...of, view: "rack", at: time + 1, select, more: {} });
}

/** What cables and devices did around an instant, with their frames. */
export function framesHref({ time }: At, of: RunOf): string {
  const more = { show: "events" };
  return hrefOf({ ...of, view: "operation", at: time + 1, select: undefined, more });
}

/** SCM right behind an instant: of the byte where one is told, else of the device's host. */
export async function showMemory(
  { node, time }: At,
  byte: ByteOf | undefined,
  of: RunOf,
): Promise<void> {
  if (byte !== undefined) return void (location.hash = memoryHref(byte, of, time + 1));
  const host = machineOf(node);
  try {
    const { nodes } = await api.topology(of.run, of.variant);
    const isHost = nodes.some(({ name, kind }) => name === host && kind === "host");
    if (!isHost) return refuse(`${node} has no SCM`);
    go({ ...of, view: "memory", at: time + 1, more: { host } });
  } catch (error) {
    refuse(error);
  }
}

/**
 * The ladder of the operation that has written the byte last, as its replay knows it; else of the
 * one that its host had under way at the instant, or had begun last.
 */
export async function showLadder(
  { byte, at }: { readonly byte?: ByteOf | undefined; readonly at?: At | undefined },
  of: RunOf,
): Promise<void> {
  try {
    const number = (byte && await writerOf(byte, of)) ?? (at && await operationAround(at, of));
    if (number === undefined) {
      const what = byte === undefined
        ? "was under way then"
        : `has written 0x${byte.address.toString(16)} of ${byte.host}`;
      return refuse(`No operation on record ${what}`);
    }
    go({ ...of, view: "operation", at: undefined, select: { kind: "operation", number } });
  } catch (error) {
    refuse(error);
  }
}

async function writerOf({ host, address }: ByteOf, of: RunOf): Promise<number | undefined> {
  const from = address - address % LINE_BYTES;
  const { lines, writes } = await api.memory(of.run, {
    ...{ host, from, to: from + LINE_BYTES },
    variant: of.variant,
  });
  const span = lines[0]?.spans.find((each) => each.from <= address && address < each.to);
  return span?.write === undefined ? undefined : writes[span.write]?.operation;
}

async function operationAround({ node, time }: At, of: RunOf): Promise<number | undefined> {
  const { variant } = of, host = machineOf(node);
  for (const on of [host, undefined]) {
    const where = { variant, to: time + 1, ...(on !== undefined && { on }) };
    const under = await api.operations(of.run, { ...where, from: time, most: 1 });
    const [one] = under.operations;
    if (one !== undefined) return one.index;
    const { total } = await api.operations(of.run, { ...where, most: 1 });
    if (total === 0) continue;
    const last = await api.operations(of.run, { ...where, skip: total - 1, most: 1 });
    if (last.operations[0] !== undefined) return last.operations[0].index;
  }
  return undefined;
}
