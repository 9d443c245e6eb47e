/**
 * Observations as bytes: a file of blocks, one for each span of a partition with observations. An
 * incomplete last block was being written when its process died. Pure; the caller has the files.
 *
 *     block   length of the body u32, span f64, body: observations as CBOR rows, one array
 */
import { fail } from "../base/assert.ts";
import { decode, encode } from "../bus/codec.ts";
import type { CableEffect } from "../link/effect.ts";
import type { TraceStep } from "../node.ts";
import type { AuditRecord } from "../audit.ts";
import { ALL_SPANS } from "../clock/member.ts";
import type { RecordedFault } from "../clock/record.ts";
import type { Observation, ObservationScope, Observer } from "./observation.ts";

export const BLOCK_HEAD_BYTES = 12;

/** An observer that passes blocks to `write`, one for each span with observations. */
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

/** Parses the head of a block: the length of its body, and its span. */
export function readBlockHead(head: Uint8Array): { readonly bytes: number; readonly span: number } {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  return { bytes: view.getUint32(0), span: view.getFloat64(4) };
}

/** The incarnation of the partition that has recorded the span (see `spanNumber` of `clock.ts`). */
export function incarnationOf(span: number): number {
  return Math.floor(span / 2 ** 32);
}

/** The observations of a block, in the order in which they were made. */
export function readBlockBody(body: Uint8Array<ArrayBuffer>): Observation[] {
  const rows = decode(body);
  if (!Array.isArray(rows)) fail("A recording's block is not what was written");
  return rows.map((row) => observationOf(row as Row));
}

/**
 * The valid observations of a block whose process was killed. A span that the process had not
 * reported did not happen. Where the reported span is unknown, all observations up to the recorded
 * time of death are valid.
 */
export function countedOf(
  seen: Observation[],
  of: {
    readonly span: number;
    readonly kill: Pick<RecordedFault, "at" | "settledSpan"> | undefined;
  },
): Observation[] {
  const { span, kill } = of;
  if (kill === undefined) return seen;
  if (span > kill.settledSpan) return [];
  if (kill.settledSpan !== ALL_SPANS) return seen;
  return seen.map((each) => ({ ...each, time: Math.min(each.time, kill.at - 1) }));
}

type Row =
  | readonly [
    kind: 0 | 1,
    time: number,
    node: number,
    event: number,
    port: number,
    startPs: number,
    endPs: number,
    frame: Uint8Array<ArrayBuffer> | null,
    text: string,
    effect?: CableEffect,
  ]
  | readonly [kind: 2, time: number, node: number, event: number, step: TraceStep]
  | readonly [kind: 3, time: number, node: number, event: number, by: string, note: AuditRecord]
  | readonly [
    kind: 4,
    time: number,
    node: number,
    event: number,
    port: number,
    startPs: number,
    frame: Uint8Array<ArrayBuffer>,
  ];

function rowOf(seen: Observation): unknown[] {
  const { time, node, event } = seen;
  if (seen.kind === "step") return [2, time, node, event, seen.step];
  if (seen.kind === "note") return [3, time, node, event, seen.by, seen.note];
  if (seen.kind === "cut-off") return [4, time, node, event, seen.port, seen.startPs, seen.frame];
  const { port, startPs, endPs, frame, text, effect } = seen;
  const kind = seen.kind === "sent" ? 0 : 1;
  const row = [kind, time, node, event, port, startPs, endPs, frame ?? null, text];
  return effect === undefined ? row : [...row, effect];
}

function observationOf(row: Row): Observation {
  if (row[0] === 2) {
    const [, time, node, event, step] = row;
    return { kind: "step", time, node, event, step };
  }
  if (row[0] === 3) {
    const [, time, node, event, by, note] = row;
    return { kind: "note", time, node, event, by, note };
  }
  if (row[0] === 4) {
    const [, time, node, event, port, startPs, frame] = row;
    return { kind: "cut-off", time, node, event, port, startPs, frame };
  }
  const [kind, time, node, event, port, startPs, endPs, frame, text, effect] = row;
  return {
    kind: kind === 0 ? "sent" : "received",
    time,
    node,
    event,
    port,
    startPs,
    endPs,
    frame: frame ?? undefined,
    text,
    ...(effect && { effect }),
  };
}
