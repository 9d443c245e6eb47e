/** A host whose power is cut at one instant after the other, with the SCM that each cut leaves. */
import { cardsKeepWrites } from "../../fabric/rack/plan/persistence_domain.ts";
import type { Time } from "../../fabric/base/time.ts";
import { Cells } from "./choices.ts";
import type { PostCrashRun, Victim } from "./post_crash_run.ts";
import type { PendingMessages } from "./pending_messages.ts";
import { CrashCursor, Overlay, Pages } from "./history.ts";
import type { CrashState, Judge } from "./judge.ts";
import { lifeAt } from "../checks/lives.ts";
import type { HeldWrite } from "./held_history.ts";
import type { RackRun } from "./rerun.ts";

export interface CrashedHost {
  readonly victim: Victim;
  readonly cursor: CrashCursor<Pages>;
  readonly cells: Cells;
  state: CrashState;
  /** `wsp`: the data that its RNICs keep for it, in the order in which they go to memory. */
  held: readonly HeldWrite[];
  judge:
    | { readonly run: PostCrashRun | undefined; readonly count: number; readonly judge: Judge }
    | undefined;
  pending: PendingMessages | undefined;
}

export function crashedHostOf(recording: RackRun, victim: Victim): CrashedHost {
  const { host } = victim;
  const entries = recording.histories.get(host)?.entries ?? [];
  const cursor = new CrashCursor(entries, new Pages());
  const cells = new Cells(cursor);
  return {
    victim,
    cursor,
    cells,
    state: { host, image: cursor.image, cells },
    held: [],
    judge: undefined,
    pending: undefined,
  };
}

/**
 * {@link cardsKeepWrites}: until the host is back, an RNIC keeps writes to its host that had not
 * arrived at the power failure, and the dirty lines of its local cache of shared regions; it goes
 * on until it detects the failure (see `nodes/rnic/dma/journal.ts`). An RNIC that has failed keeps
 * nothing. The data of the first RNIC go to memory first.
 */
export function holdJournal(crashed: CrashedHost, recording: RackRun, at: Time): void {
  const { host, config, noticePs } = crashed.victim;
  if (!cardsKeepWrites(config.domain)) return;
  // The scenario may have taken its power before.
  const life = recording.lives.get(host)?.findLast(({ from }) => from < at);
  const end = Math.min(at, life?.to ?? at);
  crashed.held = config.rnics.flatMap((rnic) => {
    const number = lifeAt(recording, rnic, end + noticePs - 1);
    return recording.held.get(rnic)?.[number]?.heldAt(end, noticePs) ?? [];
  });
  const image = new Overlay(crashed.cursor.image);
  for (const { offset, bytes } of crashed.held) image.write(offset, bytes);
  crashed.state = { ...crashed.state, image };
}
