/** Orders to the clock of a rack that is up: they are repeated, as timekeeper and broker may be away. */
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { LinkFaultRequest } from "../../fabric/rack/plan/link_plan.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import type { Time } from "../../fabric/base/time.ts";

/** Asks for `control.<verb>`; undefined where nobody answers just now. */
export type Ask = (verb: string, body: unknown) => Promise<unknown>;

/** Whether there is still somebody to ask, and any sense in it. */
export type GoesOn = () => boolean;

const AGAIN_MS = 20;

/** What came of an order for a cable; undefined where nobody has said so in time. */
export type CableAnswer =
  | { readonly at: Time; readonly fault: number }
  | { readonly refusal: string };

/**
 * Says it until the timekeeper answers when it takes effect; a new one knows what the old one wrote
 * down, by its token.
 */
export async function orderCable(
  ask: Ask,
  fault: LinkFaultRequest,
  goesOn: GoesOn,
): Promise<CableAnswer | undefined> {
  const token = crypto.randomUUID();
  while (goesOn()) {
    const answer = (await ask("link", { token, fault }) ?? {}) as Record<string, unknown>;
    const { at, fault: id, error } = answer;
    if (typeof at === "number" && typeof id === "number") return { at, fault: id };
    if (error !== undefined) return { refusal: String(error) };
    await sleep(AGAIN_MS);
  }
  return undefined;
}

/** Virtual time per wall second from now on; 0: as fast as it can. A new timekeeper has to be told. */
export async function orderPace(ask: Ask, psPerSecond: number, goesOn: GoesOn): Promise<void> {
  while (goesOn() && await ask("pace", { psPerSecond }) === undefined) await sleep(AGAIN_MS);
}

/** Waits until virtual time has come so far, or `goesOn` says no. */
export async function waitForTime(ask: Ask, at: Time, goesOn: GoesOn): Promise<void> {
  while (goesOn()) {
    const status = await ask("status", {}) as ClockStatus | undefined;
    if (status !== undefined && status.now >= at) return;
    await sleep(AGAIN_MS / 4);
  }
}
