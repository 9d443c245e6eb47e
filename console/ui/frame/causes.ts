/** From a verdict about bytes to what has made it: one click each, from every view. */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { api } from "../data/api.ts";
import { go, hrefOf } from "../state.ts";
import { refuse } from "./notice.tsx";

/** A byte of a host's SCM. */
export interface ByteOf {
  readonly host: string;
  readonly address: number;
}

export interface RunOf {
  readonly run: string;
  /** Undefined: the run has one alone. */
  readonly variant: string | undefined;
}

/** Lines on both sides, in whole pages. */
const AROUND_BYTES = 64 * 1024;

/** The line at the end of the run, with what a power failure has taken of it. */
export function memoryHref({ host, address }: ByteOf, of: RunOf): string {
  const from = Math.max(0, address - address % 4_096 - AROUND_BYTES);
  return hrefOf({
    ...of,
    view: "memory",
    at: undefined,
    select: { kind: "line", host, address: address - address % LINE_BYTES },
    more: { host, from: String(from), to: String(from + 2 * AROUND_BYTES) },
  });
}

/** A device right behind what it did at an instant: frames on their way, counters, programs. */
export function instantHref(
  { node, time }: { readonly node: string; readonly time: Time },
  of: RunOf,
): string {
  const select = { kind: "device", name: node } as const;
  // What happens at an instant has happened behind it.
  return hrefOf({ ...of, view: "rack", at: time + 1, select, more: {} });
}

/** The operation that has written the byte last, as its replay knows it. */
export async function showLadder({ host, address }: ByteOf, of: RunOf): Promise<void> {
  const from = address - address % LINE_BYTES;
  try {
    const { lines, writes } = await api.memory(of.run, {
      ...{ host, from, to: from + LINE_BYTES },
      variant: of.variant,
    });
    const span = lines[0]?.spans.find((each) => each.from <= address && address < each.to);
    const number = span?.write === undefined ? undefined : writes[span.write]?.operation;
    if (number === undefined) {
      return refuse(`No operation on record has written 0x${address.toString(16)} of ${host}`);
    }
    go({ ...of, view: "operation", at: undefined, select: { kind: "operation", number } });
  } catch (error) {
    refuse(error);
  }
}
