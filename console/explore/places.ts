import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { type RnicWrite, writesOf } from "./cards.ts";
import { isSame, WORD_BYTES } from "./choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { CrashCursor, Pages, type Readable } from "./history.ts";
import type { HeldWrite } from "./held_history.ts";
import { lifeAt } from "../checks/lives.ts";
import { leftOf } from "./survivors.ts";
import type { RackRun } from "./rerun.ts";
import { victimOf } from "./post_crash_run.ts";
import type { BytePlace, PlacedBytes } from "./types.ts";
import type { WritesRecord } from "../../fabric/audit.ts";

type CachedLine = HeldWrite & { readonly rnic: string };

interface Scene {
  readonly host: string;
  readonly at: Time;
  readonly cursor: CrashCursor;
  readonly busWrites: readonly RnicWrite[];
  /**
   * Lines of shared regions: dirty in a card's local cache when it detects the failure, and given
   * back.
   */
  readonly cached: readonly CachedLine[];
  readonly lines: readonly RnicWrite[];
  /** Lines that cards of other hosts have dirty then, and, where none is lost sooner, soon after. */
  readonly remote: readonly CachedLine[];
  readonly remoteSoon: readonly CachedLine[];
  readonly left: Readable;
}

/**
 * Limits of the RNIC's writes that are shown where no program declared one; the time goes both
 * ways.
 */
const CARD_WRITES_MAX = 8;
const NEAR_PS = 2 * PS_PER_US;

/**
 * Each write is split where the place of its bytes changes.
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

function writesOfCard({ host, at: cutAt, ...card }: Scene): AnnouncedWrite[] {
  const { busWrites, cached, lines, remote, remoteSoon } = card;
  const isNear = ([, { at, arrivesAt }]: [number, RnicWrite]) =>
    arrivesAt >= cutAt - NEAR_PS && at <= cutAt + NEAR_PS;
  const written = [...busWrites.entries()].filter(isNear).slice(-CARD_WRITES_MAX);
  // Writes that have not been sent by then are unknown.
  const given = lines.filter(({ at, arrivesAt }) => at < cutAt && arrivesAt >= cutAt);
  const elsewhere = remote.length > 0 ? remote : remoteSoon;
  const dirty = [...cached, ...given, ...elsewhere].slice(0, CARD_WRITES_MAX);
  const all = [...written, ...dirty.map((each, i) => [busWrites.length + i, each] as const)];
  return all.map(([id, { rnic, offset: at, bytes }]) => {
    return { node: rnic, by: rnic, note: { kind: "writes", id, on: host, at, bytes } };
  });
}

function sceneOf(
  recording: RackRun,
  { run, host, at }: { readonly run: RackRun; readonly host: string; readonly at: Time },
): Scene {
  const { config, noticePs } = victimOf(recording.plan, host);
  const cursor = new CrashCursor(recording.histories.get(host)?.entries ?? [], new Pages());
  cursor.moveTo(at);
  const { rnics } = config, known = at + noticePs;
  const inOrder = (writes: RnicWrite[]) => writes.sort((x, y) => x.at - y.at);
  const busWrites = inOrder(writesOf(recording, rnics, "busWrites"));
  const lines = inOrder(writesOf(recording, rnics, "lines"));
  const cached = rnics.flatMap((rnic) => {
    const history = recording.held.get(rnic)?.[lifeAt(recording, rnic, known - 1)];
    const kept = history?.cachedAt(known).filter(({ bytes }) => bytes.length === LINE_BYTES) ?? [];
    return kept.map((write) => ({ rnic, ...write }));
  });
  const remoteAt = (time: Time): CachedLine[] =>
    [...recording.held].flatMap(([rnic, lives]) => {
      const history = lives[lifeAt(recording, rnic, at)];
      return history?.cachedOfAt(host, time).map((line) => ({ rnic, ...line })) ?? [];
    });
  const remote = remoteAt(at), remoteSoon = remoteAt(at + NEAR_PS), left = leftOf(run, host)!;
  return { host, at, cursor, busWrites, cached, lines, remote, remoteSoon, left };
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
  const { cursor, busWrites, cached: inCard, lines, remote, at } = scene;
  const has = (write: HeldWrite) => {
    const from = offset - write.offset;
    return from >= 0 && from + bytes.length <= write.bytes.length &&
      isSame(write.bytes.subarray(from, from + bytes.length), bytes);
  };
  if (isSame(cursor.image.read(offset, offset + bytes.length), bytes)) return "memory";
  const line = offset - offset % LINE_BYTES;
  const cached = cursor.dirty.get(line)?.versions.at(-1)?.bytes;
  if (cached !== undefined) {
    const inLine = cached.subarray(offset - line, offset - line + bytes.length);
    if (isSame(inLine, bytes)) return "llc";
  }
  const isSent = (write: RnicWrite) => write.at < at && has(write);
  const sent = busWrites.findLast(isSent) ?? lines.findLast(isSent);
  if (sent === undefined) {
    if (inCard.some(has)) return "local cache";
    return remote.some(has) ? "remote cache" : "not there yet";
  }
  return sent.arrivesAt < at ? "iio" : "bus";
}

export interface AnnouncedWrite {
  readonly node: string;
  readonly by: string;
  readonly note: WritesRecord;
}
