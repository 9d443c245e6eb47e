/** Orders to the clock of a rack that is up: they are repeated, as timekeeper and broker may be away. */
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { Supervisor } from "../rack/supervisor.ts";

/** Whether there is still a rack to ask, and any sense in it. */
export type GoesOn = () => boolean;

const AGAIN_MS = 20;

/** Virtual time per wall second from now on; 0: as fast as it can. A new timekeeper has to be told. */
export async function orderPace(
  { control }: Supervisor,
  psPerSecond: number,
  goesOn: GoesOn,
): Promise<void> {
  while (goesOn() && await control.attempt("pace", { psPerSecond }) === undefined) {
    await sleep(AGAIN_MS);
  }
}

/** Waits until virtual time has come so far, or `goesOn` says no. */
export async function waitForTime(rack: Supervisor, at: Time, goesOn: GoesOn): Promise<void> {
  while (goesOn()) {
    const status = await rack.status();
    if (status !== undefined && status.now >= at) return;
    await sleep(AGAIN_MS / 4);
  }
}
