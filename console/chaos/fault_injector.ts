/** Touches only processes of the round's rack and the rack's own broker. */
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { NatsServer } from "../rack/nats_server.ts";
import type { Supervisor } from "../rack/supervisor.ts";
import { BROKER, type ChaosAction, TIMEKEEPER } from "./chaos_actions.ts";
import { orderLinkFault } from "../rack/live/cables.ts";

export interface InjectedAction {
  readonly action: ChaosAction;
  readonly wallMs: number;
  /** The process lived, or the cable could have the fault. */
  readonly hit: boolean;
}

/** A rack may be at rest before an action's time. */
export const WAIT_MS = 1_500;
const LOOK_AGAIN_MS = 20;

export class FaultInjector {
  readonly #rack: Supervisor;
  readonly #server: NatsServer;
  readonly #psPerSecond: number;
  readonly #taken: InjectedAction[] = [];
  readonly #broken = new Set<number>();
  /** By process id: the supervisor detects their end later. */
  readonly #killed = new Set<number | null>();
  readonly #began = performance.now();
  #follows: Promise<void>[] = [];
  #isOver = false;
  #isBrokerUp = true;

  constructor(rack: Supervisor, server: NatsServer, psPerSecond: number) {
    this.#rack = rack;
    this.#server = server;
    this.#psPerSecond = psPerSecond;
    const end = () => this.stop();
    rack.finished.then(end, end);
  }

  get taken(): readonly InjectedAction[] {
    return this.#taken;
  }

  stop(): void {
    this.#isOver = true;
  }

  /** Takes the actions, each at its time, then heals the rack; returns when that is done. */
  async play(actions: readonly ChaosAction[]): Promise<void> {
    await this.#pace();
    // Before all processes have started, actions would hit nothing.
    await waitForTime(this.#rack, 1, this.#within(PATIENCE_MS));
    let last = 0;
    for (const action of actions) {
      // No wait between actions of one time: the timekeeper may have been killed.
      if (action.at > last) await waitForTime(this.#rack, action.at, this.#within(WAIT_MS));
      last = action.at;
      if (this.#isOver) break;
      const wallMs = Math.round(performance.now() - this.#began);
      this.#taken.push({ action, wallMs, hit: await this.#take(action) });
    }
    await this.heal();
  }

  /** Also after the end of the run, which needs a broker. */
  async heal(): Promise<void> {
    await Promise.all(this.#follows);
    this.#follows = [];
    for (const { name } of this.#rack.processes()) this.#rack.resume(name);
    await this.#healBroker();
    await this.#healPower();
    for (const cable of this.#broken) {
      const request = { action: "heal", cable, direction: "both" } as const;
      // Refused for a cable that is whole by now.
      await orderLinkFault(this.#ask, request, this.#within(PATIENCE_MS));
    }
    if (this.#psPerSecond > 0) await orderPace(this.#rack, 0, this.#within(PATIENCE_MS));
  }

  async #take(action: ChaosAction): Promise<boolean> {
    switch (action.kind) {
      case "kill":
        return await this.#kill(action);
      case "pause":
        return await this.#pause(action);
      case "link": {
        const answer = await orderLinkFault(this.#ask, action.request, this.#within(PATIENCE_MS));
        if (answer !== undefined && "refused" in answer) return false;
        // Without an answer the order may have arrived all the same.
        this.#broken.add(action.request.cable);
        return answer !== undefined;
      }
    }
  }

  async #kill({ process, backMs }: Extract<ChaosAction, { kind: "kill" }>): Promise<boolean> {
    if (process === BROKER) return await this.#killBroker(backMs ?? 0);
    const row = this.#rack.processes().find(({ name }) => name === process);
    const hit = this.#rack.kill(process);
    if (!hit) return false;
    this.#killed.add(row?.pid ?? null);
    if (process === TIMEKEEPER) this.#follow(0, () => this.#pace());
    else if (backMs !== null) this.#follow(backMs, () => this.#boot(process));
    return true;
  }

  async #killBroker(backMs: number): Promise<boolean> {
    if (!this.#isBrokerUp) return false;
    this.#isBrokerUp = false;
    this.#server.signal("SIGKILL");
    await this.#server.exited;
    this.#follow(backMs, () => this.#healBroker());
    return true;
  }

  async #pause({ process, forMs }: Extract<ChaosAction, { kind: "pause" }>): Promise<boolean> {
    if (process === BROKER) {
      if (!this.#isBrokerUp) return false;
      this.#server.signal("SIGSTOP");
      this.#follow(forMs, () => Promise.resolve(this.#server.signal("SIGCONT")));
      return true;
    }
    const hit = await this.#rack.pause(process);
    this.#follow(forMs, () => Promise.resolve(void this.#rack.resume(process)));
    return hit;
  }

  async #healBroker(): Promise<void> {
    this.#server.signal("SIGCONT");
    if (this.#isBrokerUp) return;
    this.#isBrokerUp = true;
    await this.#server.restart();
  }

  /** Reads the list of processes again: a host that boots starts its RNICs. */
  async #healPower(): Promise<void> {
    const goesOn = this.#within(PATIENCE_MS);
    for (;;) {
      const unpowered = this.#rack.processes().filter(({ kind, pid }) =>
        kind === "partition" && (pid === null || this.#killed.has(pid))
      );
      if (unpowered.length === 0 || !goesOn()) return;
      for (const { name } of unpowered) this.#rack.boot(name);
      await sleep(LOOK_AGAIN_MS);
    }
  }

  /**
   * The supervisor may not have detected the end of the process yet, or may have started it,
   * because the former one had not joined, or by the follow of another kill.
   */
  async #boot(process: string): Promise<void> {
    const goesOn = this.#within(PATIENCE_MS);
    while (goesOn() && !this.#isUp(process)) {
      if (this.#rack.startPartition(process)) return;
      await sleep(LOOK_AGAIN_MS);
    }
  }

  #isUp(process: string): boolean {
    const pid = this.#rack.processes().find(({ name }) => name === process)?.pid ?? null;
    return pid !== null && !this.#killed.has(pid);
  }

  async #pace(): Promise<void> {
    if (this.#psPerSecond === 0) return;
    await orderPace(this.#rack, this.#psPerSecond, this.#within(PATIENCE_MS));
  }

  readonly #ask = (verb: string, body: unknown) => this.#rack.control.attempt(verb, body);

  #follow(afterMs: number, act: () => Promise<void>): void {
    const follow = sleep(afterMs).then(act);
    follow.catch(() => {});
    this.#follows.push(follow);
  }

  #within(ms: number): () => boolean {
    const deadline = performance.now() + ms;
    return () => !this.#isOver && performance.now() < deadline;
  }
}

async function orderPace(
  { control }: Supervisor,
  psPerSecond: number,
  goesOn: () => boolean,
): Promise<void> {
  while (goesOn() && await control.attempt("pace", { psPerSecond }) === undefined) {
    await sleep(LOOK_AGAIN_MS);
  }
}

/** Until the rack's time has come to the instant, or `goesOn` ends it. */
export async function waitForTime(
  rack: Pick<Supervisor, "status">,
  at: Time,
  goesOn: () => boolean,
): Promise<void> {
  while (goesOn()) {
    const status = await rack.status();
    if (status !== undefined && status.now >= at) return;
    await sleep(LOOK_AGAIN_MS / 4);
  }
}
