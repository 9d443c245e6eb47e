/**
 * Observations as bytes: a file of blocks, one for each span with observations. An incomplete last
 * block was being written when its process died. Pure; the caller has the files.
 *
 *     block   length of the body u32, span f64, body: observations as CBOR rows, one array
 */
import { fail } from "../base/assert.ts";
import { decode, encode } from "../bus/codec.ts";
import { ALL_SPANS } from "../clock/member.ts";
import type { RecordedFault } from "../clock/record.ts";
import type { Observation, ObservationScope, Observer } from "./observation.ts";

export const BLOCK_HEAD_BYTES = 12;

export function recordTo(write: (block: Uint8Array) => void, scope: ObservationScope): Observer {
  let rows: unknown[][] = [];
  return {
    scope,
    see(observation) {
      rows.push(rowOf(observation));
    },
    commit(span) {
      if (rows.length === 0) return;
      const body = encode(rows);
      rows = [];
      const block = new Uint8Array(BLOCK_HEAD_BYTES + body.length);
      const view = new DataView(block.buffer);
      view.setUint32(0, body.length);
      view.setFloat64(4, span);
      block.set(body, BLOCK_HEAD_BYTES);
      write(block);
    },
  };
}

export function readBlockHead(head: Uint8Array): { readonly bytes: number; readonly span: number } {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  return { bytes: view.getUint32(0), span: view.getFloat64(4) };
}

/** Of the partition that has recorded the span (`spanNumber` of `clock.ts`). */
export function incarnationOf(span: number): number {
  return Math.floor(span / 2 ** 32);
}

export function readBlockBody(body: Uint8Array<ArrayBuffer>): Observation[] {
  const rows = decode(body);
  if (!Array.isArray(rows)) fail("A recording's block is not what was written");
  return rows.map(observationOf);
}

/**
 * Spans that a killed process had not reported did not happen. If the last reported span is
 * unknown, all up to the time of death are valid.
 */
export function countedOf(
  seen: Observation[],
  { span, kill }: {
    readonly span: number;
    readonly kill: Pick<RecordedFault, "at" | "settledSpan"> | undefined;
  },
): Observation[] {
  if (kill === undefined) return seen;
  if (span > kill.settledSpan) return [];
  if (kill.settledSpan !== ALL_SPANS) return seen;
  return seen.map((each) => ({ ...each, time: Math.min(each.time, kill.at - 1) }));
}

/** After {@link COMMON}, in the order of the row, which begins with the kind. */
const FIELDS: { readonly [K in Observation["kind"]]: readonly string[] } = {
  "sent": ["port", "startPs", "endPs", "frame", "text", "effect"],
  "received": ["port", "startPs", "endPs", "frame", "text", "effect"],
  "step": ["step"],
  "note": ["by", "note"],
  "report": ["topic", "value"],
  "cut-off": ["port", "startPs", "frame"],
  "looped": ["end", "startPs", "endPs", "frame"],
};
const KINDS = Object.keys(FIELDS) as Observation["kind"][];
const COMMON = ["time", "node", "event"];

function rowOf(seen: Observation): unknown[] {
  const { kind, time, node, event } = seen;
  const fields = seen as unknown as Readonly<Record<string, unknown>>;
  return [KINDS.indexOf(kind), time, node, event, ...FIELDS[kind].map((name) => fields[name])];
}

function observationOf([number, ...values]: readonly unknown[]): Observation {
  const kind = KINDS[number as number]!;
  const seen: Record<string, unknown> = { kind };
  [...COMMON, ...FIELDS[kind]].forEach((name, i) => seen[name] = values[i]);
  return seen as unknown as Observation;
}
