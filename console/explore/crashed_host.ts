/** A host whose power is cut at one instant after the other, with what each time is left of its SCM. */
import type { Time } from "../../fabric/base/time.ts";
import { Cells } from "./choices.ts";
import type { Victim } from "./post_crash_run.ts";
import { type Deposits, NO_DEPOSITS } from "./pending_messages.ts";
import { CrashCursor, Pages, type Range } from "./history.ts";
import type { CrashState, Judge } from "./judge.ts";
import type { BusWrite, RackRun } from "./rerun.ts";

export interface Cutting {
  readonly victim: Victim;
  readonly cursor: CrashCursor<Pages>;
  readonly cells: Cells;
  /** What is left, and what of it is open. */
  readonly state: CrashState;
  /** Bytes of which other things may be found, or were said, since they were last asked about. */
  changed: Range[];
  /** `wsp`: writes that its card keeps for it, oldest first. */
  held: readonly BusWrite[];
  /** What had been promised of it. */
  judge: Judge | undefined;
  /** Who judges in the middle of an instant, where `outside` does around it. */
  amid: { readonly at: Time; readonly outside: Judge; readonly judge: Judge } | undefined;
  /** What its receive buffers will have it store. */
  deposits: Deposits;
}

export function cuttingOf(recording: RackRun, victim: Victim): Cutting {
  const { host } = victim;
  const onChange = (from: number, to: number) => {
    cutting.changed.push({ from, to });
    cells.changed(from, to);
  };
  const entries = recording.histories.get(host)?.entries ?? [];
  const cursor = new CrashCursor(entries, new Pages(), onChange);
  const cells = new Cells(cursor);
  const image = {
    read(offset: number, target: Uint8Array) {
      cursor.image.read(offset, target);
      for (const write of cutting.held) overlay(write, offset, target);
    },
  };
  const cutting: Cutting = {
    victim,
    cursor,
    cells,
    state: { host, image, cells },
    changed: [],
    held: [],
    judge: undefined,
    amid: undefined,
    deposits: NO_DEPOSITS,
  };
  return cutting;
}

/**
 * Domain `wsp`: the card keeps, for when the host is back, what it has sent to it and what had not arrived
 * when the power went; it goes on sending until it notices (see `nodes/rnic/dma/journal.ts`).
 */
export function hold(cutting: Cutting, recording: RackRun, at: Time): void {
  const { host, config, noticePs } = cutting.victim;
  if (config.domain !== "wsp") return;
  // The scenario may have taken its power before.
  const life = recording.lives.get(host)?.findLast(({ from }) => from < at);
  const end = Math.min(at, life?.to ?? at);
  const sent = recording.sendings.get(config.rnic)?.busWrites ?? [];
  const before = cutting.held;
  cutting.held = sent.filter((write) => write.arrivesAt >= end && write.at < end + noticePs);
  for (const write of before) if (!cutting.held.includes(write)) touch(cutting, write);
  for (const write of cutting.held) if (!before.includes(write)) touch(cutting, write);
}

function touch(cutting: Cutting, { offset, bytes }: BusWrite): void {
  cutting.changed.push({ from: offset, to: offset + bytes.length });
}

function overlay(write: BusWrite, offset: number, target: Uint8Array): void {
  const from = Math.max(write.offset, offset);
  const to = Math.min(write.offset + write.bytes.length, offset + target.length);
  if (from >= to) return;
  target.set(write.bytes.subarray(from - write.offset, to - write.offset), from - offset);
}
