import { sleep } from "../../fabric/bus/wall_time.ts";
import { captureOf } from "../../fabric/capture/capture.ts";
import { eventsOf, type SeenEvent, type Source } from "../../fabric/capture/instants.ts";
import type { Observation } from "../../fabric/capture/observation.ts";
import { perfettoOf } from "../../fabric/capture/perfetto.ts";
import {
  BLOCK_HEAD_BYTES,
  countedOf,
  incarnationOf,
  readBlockBody,
  readBlockHead,
} from "../../fabric/capture/recording.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { CaptureFiles } from "../../fabric/rack/assembly/run_file.ts";
import { readRunFile } from "../rack/run_directory.ts";
import { ifThere, isThere, readInto } from "../base/files.ts";
import { pcapOf, recordingsIn, removeRecordings } from "./capture_files.ts";
import { type RecordedKill, recordedKills } from "../../nodes/files.ts";

export interface RecordedRun {
  readonly label: string;
  readonly plan: RackPlan;
  readonly directory: string;
}

/**
 * Writes the captures of these runs, also of one that failed or was interrupted, and removes the
 * recordings; returns the captures' paths.
 * @param signal stops the writing; no capture is left half written.
 */
export async function writeCaptures(
  all: readonly RecordedRun[],
  files: CaptureFiles,
  signal?: AbortSignal,
): Promise<string[]> {
  const runs = all.filter(({ directory }) => isThere(recordingsIn(directory)));
  if (runs.length === 0) return [];
  const written: string[] = [];
  if (files.pcap !== undefined) {
    Deno.mkdirSync(files.pcap, { recursive: true });
    for (const { label, plan, directory } of runs) {
      const path = pcapOf(files.pcap, label);
      await writeAll(path, captureOf(plan, { label, events: eventsIn(directory) }), signal);
      written.push(path);
    }
  }
  if (files.perfetto !== undefined) {
    Deno.mkdirSync(files.perfetto.replace(/\/[^/]*$/, "") || "/", { recursive: true });
    const encoder = new TextEncoder();
    await writeAll(
      files.perfetto,
      perfettoOf(runs.map(({ label, plan, directory }) => ({
        label,
        plan,
        events: eventsIn(directory),
      }))).map((text) => encoder.encode(text)),
      signal,
    );
    written.push(files.perfetto);
  }
  for (const { directory } of runs) removeRecordings(directory);
  return written;
}

/** For a rack that ran in the background; returns the captures' paths. */
export async function writeCapturesOf(directory: string): Promise<string[]> {
  if (!isThere(recordingsIn(directory))) return [];
  const file = readRunFile(directory);
  if (file?.captures === undefined) return [];
  const { plan, captures } = file;
  return await writeCaptures([{ label: plan.scenario, plan, directory }], captures);
}

async function writeAll(
  path: string,
  parts: Iterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const half = `${path}.part`;
  // Of a run that was killed; never through a link.
  ifThere(() => Deno.removeSync(half));
  const file = Deno.openSync(half, { createNew: true, write: true });
  try {
    for (const chunk of chunksOf(parts)) {
      for (let at = 0; at < chunk.length;) at += file.writeSync(chunk.subarray(at));
      // Signals are handled only while this function awaits.
      await sleep(0);
      signal?.throwIfAborted();
    }
    Deno.renameSync(half, path);
  } catch (error) {
    Deno.removeSync(half);
    throw error;
  } finally {
    file.close();
  }
}

const CHUNK_BYTES = 2 ** 18;

/** One system call per block would take most of the time. */
function* chunksOf(parts: Iterable<Uint8Array>): Generator<Uint8Array> {
  let chunk = new Uint8Array(CHUNK_BYTES);
  let used = 0;
  for (const part of parts) {
    if (used + part.length > chunk.length) {
      yield chunk.subarray(0, used);
      if (part.length > chunk.length) chunk = new Uint8Array(part.length);
      used = 0;
    }
    chunk.set(part, used);
    used += part.length;
  }
  yield chunk.subarray(0, used);
}

/** All recorded events of a run. */
export function eventsIn(directory: string): Iterable<SeenEvent> {
  const kills = recordedKills(`${directory}/faults.jsonl`);
  const folder = recordingsIn(directory);
  if (!isThere(folder)) return [];
  const found = [...Deno.readDirSync(folder)].map(({ name }) => {
    const path = `${folder}/${name}`;
    return { partition: name.split(".")[0]!, path, firstSpan: firstSpanOf(path) };
  });
  // The later life of a partition comes after its earlier life, at the same instant too.
  found.sort((x, y) => x.firstSpan - y.firstSpan || (x.path < y.path ? -1 : 1));
  return eventsOf(found.map(({ partition, path }): Source => {
    return recording(path, (span) => kills.get(`${partition} ${incarnationOf(span)}`));
  }));
}

function firstSpanOf(path: string): number {
  using file = Deno.openSync(path);
  const head = readWhole(file, BLOCK_HEAD_BYTES);
  return head === undefined ? Number.POSITIVE_INFINITY : readBlockHead(head).span;
}

function* recording(
  path: string,
  killOf: (span: number) => RecordedKill | undefined,
): Generator<Observation> {
  using file = Deno.openSync(path);
  for (;;) {
    const head = readWhole(file, BLOCK_HEAD_BYTES);
    if (head === undefined) return;
    const { bytes, span } = readBlockHead(head);
    const body = readWhole(file, bytes);
    if (body === undefined) return;
    yield* countedOf(readBlockBody(body), { span, kill: killOf(span) });
  }
}

function readWhole(file: Deno.FsFile, bytes: number): Uint8Array<ArrayBuffer> | undefined {
  const buffer = new Uint8Array(bytes);
  return readInto(file, buffer) < bytes ? undefined : buffer;
}
