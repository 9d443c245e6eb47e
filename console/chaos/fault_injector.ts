/**
 * Strikes a rack of processes, and makes good again what it has done: what is stopped goes on, what is
 * dead has power, the broker is there, cables are whole. Touches only processes of that rack and its own
 * broker.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { NatsServer } from "../rack/nats_server.ts";
import type { Supervisor } from "../rack/supervisor.ts";
import { type Blow, BROKER, TIMEKEEPER } from "./chaos_actions.ts";
import { orderLinkFault } from "../rack/live/cables.ts";
import { orderPace, waitForTime } from "./orders.ts";

/** A blow that fell. */
export interface Struck {
  readonly blow: Blow;
  /** Wall ms since the rack was started. */
  readonly wallMs: number;
  /** Whether there was something to hit: a process that lived, a cable that could do this. */
  readonly hit: boolean;
}

/** How long a blow waits for its time, an order for its answer, and healing for each thing, in wall ms. */
const WAIT_MS = 1_500, ORDER_MS = 5_000, HEAL_MS = 10_000;
/** How long processes may take to come up before the first blow falls, in wall ms. */
const START_MS = 20_000;
const LOOK_AGAIN_MS = 20;

export class Striker {
  readonly #rack: Supervisor;
  readonly #server: NatsServer;
  /** 0: as fast as it can. */
  readonly #psPerSecond: number;
  readonly #struck: Struck[] = [];
  readonly #broken = new Set<number>();
  /** Processes that were killed: it takes a moment until that is noticed. */
  readonly #killed = new Set<number | null>();
  readonly #began = performance.now();
  /** What is to follow a blow, after a while. */
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

  get struck(): readonly Struck[] {
    return this.#struck;
  }

  /** The run is over, or is to be: no blow falls any more. */
  stop(): void {
    this.#isOver = true;
  }

  /** Lets the blows fall, each at its time, then heals; returns when nothing of it is left to be done. */
  async play(blows: readonly Blow[]): Promise<void> {
    await this.#pace();
    // On a busy machine processes take their time to come up: until then there is nothing to strike.
    await waitForTime(this.#rack, 1, this.#within(START_MS));
    let last = 0;
    for (const blow of blows) {
      // What falls together is not waited for between: nobody may be there to say what time it is.
      if (blow.at > last) await waitForTime(this.#rack, blow.at, this.#within(WAIT_MS));
      last = blow.at;
      if (this.#isOver) break;
      const wallMs = Math.round(performance.now() - this.#began);
      this.#struck.push({ blow, wallMs, hit: await this.#strike(blow) });
    }
    await this.heal();
  }

  /** What follows the blows, whether or not the run is over: a broker is needed for its end, too. */
  async heal(): Promise<void> {
    await Promise.all(this.#follows);
    this.#follows = [];
    for (const { name } of this.#rack.processes()) this.#rack.resume(name);
    await this.#healBroker();
    await this.#healPower();
    for (const cable of this.#broken) {
      const request = { action: "heal", cable, direction: "both" } as const;
      // It may be whole by now: then it is refused, and nothing is missing.
      await orderLinkFault(this.#ask, request, this.#within(HEAL_MS));
    }
    if (this.#psPerSecond > 0) await orderPace(this.#rack, 0, this.#within(HEAL_MS));
  }

  async #strike(blow: Blow): Promise<boolean> {
    switch (blow.kind) {
      case "kill":
        return await this.#kill(blow);
      case "pause":
        return await this.#pause(blow);
      case "link": {
        const answer = await orderLinkFault(this.#ask, blow.request, this.#within(ORDER_MS));
        if (answer !== undefined && "refused" in answer) return false;
        // Without an answer it may have been heard all the same.
        this.#broken.add(blow.request.cable);
        return answer !== undefined;
      }
    }
  }

  async #kill({ process, backMs }: Extract<Blow, { kind: "kill" }>): Promise<boolean> {
    if (process === BROKER) return await this.#killBroker(backMs ?? 0);
    const row = this.#rack.processes().find(({ name }) => name === process);
    const hit = this.#rack.kill(process);
    if (hit) this.#killed.add(row?.pid ?? null);
    if (process === TIMEKEEPER) this.#follow(0, () => this.#pace());
    else if (backMs !== null) this.#follow(backMs, () => this.#boot(process));
    return hit;
  }

  async #killBroker(backMs: number): Promise<boolean> {
    if (!this.#isBrokerUp) return false;
    this.#isBrokerUp = false;
    this.#server.signal("SIGKILL");
    await this.#server.exited;
    this.#follow(backMs, () => this.#healBroker());
    return true;
  }

  async #pause({ process, forMs }: Extract<Blow, { kind: "pause" }>): Promise<boolean> {
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

  /** Hosts give power to their cards, so those without a process are looked for again. */
  async #healPower(): Promise<void> {
    const goesOn = this.#within(HEAL_MS);
    for (;;) {
      const dead = this.#rack.processes().filter(({ kind, alive, pid }) =>
        kind === "partition" && (!alive || this.#killed.has(pid))
      );
      if (dead.length === 0 || !goesOn()) return;
      for (const { name } of dead) this.#rack.boot(name);
      await sleep(LOOK_AGAIN_MS);
    }
  }

  /** Its death may not have been noticed yet. */
  async #boot(process: string): Promise<void> {
    const goesOn = this.#within(ORDER_MS);
    while (goesOn()) {
      const answer = this.#rack.boot(process);
      const isDead = this.#rack.processes().some(({ name, alive }) => name === process && !alive);
      if ("started" in answer || isDead) return;
      await sleep(LOOK_AGAIN_MS);
    }
  }

  async #pace(): Promise<void> {
    if (this.#psPerSecond === 0) return;
    await orderPace(this.#rack, this.#psPerSecond, this.#within(ORDER_MS));
  }

  readonly #ask = (verb: string, body: unknown) => this.#rack.control.attempt(verb, body);

  #follow(afterMs: number, act: () => Promise<void>): void {
    const follow = sleep(afterMs).then(act);
    // Looked at in `heal`; until then it is no unhandled rejection.
    follow.catch(() => {});
    this.#follows.push(follow);
  }

  #within(ms: number): () => boolean {
    const deadline = performance.now() + ms;
    return () => !this.#isOver && performance.now() < deadline;
  }
}
