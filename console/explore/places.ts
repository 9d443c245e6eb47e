/** Where the bytes of writes were at a power failure, and which of them survived. */
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { isSame, WORD_BYTES } from "./choices.ts";
import { CrashCursor, LINE_BYTES, Pages, type Readable } from "./history.ts";
import type { BusWrite, RackRun } from "./rerun.ts";
import { victimOf } from "./post_crash_run.ts";
import type { BytePlace, PlacedBytes } from "./types.ts";
import type { WritesRecord } from "../../fabric/audit.ts";

interface Scene {
  readonly host: string;
  readonly rnic: string;
  readonly at: Time;
  readonly cursor: CrashCursor;
  readonly busWrites: readonly BusWrite[];
  readonly left: Readable;
}

/** Where no program declared a write, writes of the RNIC are shown: so many, of so long before and after. */
const CARD_WRITES_MAX = 8;
const NEAR_PS = 2 * PS_PER_US;

/**
 * Places of the bytes, each write split where the place changes.
 * @param crash.run the run with the power failure; `recording`: the one without.
 * @param crash.writes none: those of RNICs about that time.
 */
export function placesOf(
  recording: RackRun,
  crash: {
    readonly run: RackRun;
    readonly hosts: readonly string[];
    readonly at: Time;
    readonly writes: readonly AnnouncedWrite[];
  },
): PlacedBytes[] {
  const scenes = new Map(crash.hosts.map((host) => [host, sceneOf(recording, { ...crash, host })]));
  const writes = crash.writes.length > 0
    ? crash.writes
    : [...scenes.values()].flatMap(writesOfCard);
  return writes.flatMap((write) => {
    const scene = scenes.get(write.note.on);
    return scene === undefined ? [] : placed(scene, write);
  });
}

function writesOfCard({ host, rnic, at: cutAt, busWrites }: Scene): AnnouncedWrite[] {
  return [...busWrites.entries()].filter(([, { at, arrivesAt }]) =>
    arrivesAt >= cutAt - NEAR_PS && at <= cutAt + NEAR_PS
  ).slice(-CARD_WRITES_MAX).map(([id, { offset: at, bytes }]) => {
    return { node: rnic, by: rnic, note: { kind: "writes", id, on: host, at, bytes } };
  });
}

function sceneOf(
  recording: RackRun,
  { run, host, at }: { readonly run: RackRun; readonly host: string; readonly at: Time },
): Scene {
  const { config } = victimOf(recording.plan, host);
  const cursor = new CrashCursor(recording.histories.get(host)?.entries ?? [], new Pages());
  cursor.moveTo(at);
  const busWrites = recording.sendings.get(config.rnic)?.busWrites ?? [];
  return { host, rnic: config.rnic, at, cursor, busWrites, left: run.scm.get(host)! };
}

function placed(scene: Scene, { node, by, note }: AnnouncedWrite): PlacedBytes[] {
  const end = note.at + note.bytes.length;
  const all: { -readonly [Key in keyof PlacedBytes]: PlacedBytes[Key] }[] = [];
  for (let from = note.at; from < end;) {
    const to = Math.min(end, from - from % WORD_BYTES + WORD_BYTES);
    const bytes = note.bytes.subarray(from - note.at, to - note.at);
    const place = placeOf(scene, from, bytes);
    const survived = isSame(scene.left.read(from, from + bytes.length), bytes);
    const last = all.at(-1);
    if (last?.place === place && last.survived === survived) last.to = to;
    else all.push({ host: scene.host, from, to, place, survived, node, by, id: note.id });
    from = to;
  }
  return all;
}

function placeOf(scene: Scene, offset: number, bytes: Uint8Array): BytePlace {
  const { cursor, busWrites, at } = scene;
  if (isSame(cursor.image.read(offset, offset + bytes.length), bytes)) return "memory";
  const line = offset - offset % LINE_BYTES;
  const cached = cursor.dirty.get(line)?.versions.at(-1)?.bytes;
  if (cached !== undefined) {
    const inLine = cached.subarray(offset - line, offset - line + bytes.length);
    if (isSame(inLine, bytes)) return "llc";
  }
  const sent = busWrites.findLast((write) => {
    const from = offset - write.offset;
    return write.at < at && from >= 0 && from + bytes.length <= write.bytes.length &&
      isSame(write.bytes.subarray(from, from + bytes.length), bytes);
  });
  if (sent === undefined) return "not there yet";
  return sent.arrivesAt < at ? "iio" : "bus";
}

/** A write that a program declared, or else one of an RNIC. */
export interface AnnouncedWrite {
  readonly node: string;
  readonly by: string;
  readonly note: WritesRecord;
}
