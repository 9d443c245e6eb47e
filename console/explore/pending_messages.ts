/**
 * Receive buffers in SCM (`receive: scm`): the host stores messages that a power failure leaves there before
 * a checker reads, so open cells of a buffer change the bytes of an object.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { receivedIn } from "../checks/received.ts";
import { type Cell, pickDurable, type Picker, pickLast, remembering, viewOf } from "./choices.ts";
import type { CrashState, Settled } from "./judge.ts";
import { forEachPath } from "./covering/paths.ts";

interface Stored {
  readonly writes: readonly { readonly at: number; readonly data: Uint8Array }[];
  readonly settled: Settled;
}

export interface PendingMessages {
  readonly ways: readonly Stored[];
  readonly isBounded: boolean;
}

const WAYS_MAX = 1024;

export function pendingMessagesOf(plan: RackPlan, state: CrashState): PendingMessages {
  const least = storedBy(plan, state, pickDurable);
  let ways = 1;
  for (const { alternatives } of least.settled.keys()) ways *= alternatives.length;
  if (ways === 1) return { ways: [least], isBounded: false };
  if (ways > WAYS_MAX) {
    const most = storedBy(plan, state, pickLast);
    return { ways: distinct([least, most]), isBounded: true };
  }
  const found: Stored[] = [];
  const { coverage } = forEachPath({ most: WAYS_MAX }, (pick) => {
    found.push(storedBy(plan, state, pick));
    return false;
  });
  return { ways: distinct(found), isBounded: coverage !== undefined };
}

function storedBy(plan: RackPlan, state: CrashState, choose: Picker): Stored {
  const settled = new Map<Cell, number>();
  const image = viewOf(state, remembering(choose, settled));
  return { writes: receivedIn(plan, { host: state.host, image }), settled };
}

function distinct(ways: readonly Stored[]): Stored[] {
  const keyOf = ({ writes }: Stored) => writes.map(({ at, data }) => `${at} ${data.toHex()}`);
  return [...new Map(ways.map((way) => [keyOf(way).join(), way])).values()];
}
