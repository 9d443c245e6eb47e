import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { NatsServer } from "../rack/nats_server.ts";
import type { ProcessEntry } from "../rack/process_table.ts";
import type { Supervisor } from "../rack/supervisor.ts";
import type { ChaosAction } from "./chaos_actions.ts";
import { FaultInjector } from "./fault_injector.ts";

/** After so many looks at the process a test ends the wait. */
const LOOKS_MAX = 30;
const KILL: ChaosAction = { at: 1, kind: "kill", process: "b", backMs: 10 };

/** Partition b of a rack, whose processes have the ids 100, 101, … */
class OnePartition {
  /** How many processes have been started. */
  starts = 0;
  looks = 0;
  #pid: number | null = null;
  readonly #over = Promise.withResolvers<void>();
  readonly finished = this.#over.promise;
  readonly control = { attempt: () => Promise.resolve({ ok: {} }) };

  /** @param onKill what happens when a process is killed. */
  constructor(
    readonly onKill: (rack: OnePartition) => void,
    { isUp = true }: { readonly isUp?: boolean } = {},
  ) {
    if (isUp) this.start();
  }

  start(): boolean {
    if (this.#pid !== null) return false;
    this.#pid = 100 + this.starts++;
    return true;
  }

  end(): void {
    this.#pid = null;
  }

  startPartition(): boolean {
    this.#look();
    return this.start();
  }

  boot(): void {
    this.start();
  }

  processes(): ProcessEntry[] {
    this.#look();
    return [{ name: "b", kind: "partition", pid: this.#pid, nodes: ["b"] }];
  }

  #look(): void {
    if (++this.looks > LOOKS_MAX) this.#over.resolve();
  }

  kill(): boolean {
    const hit = this.#pid !== null;
    if (hit) this.onKill(this);
    return hit;
  }

  resume(): void {}

  status() {
    return Promise.resolve({ now: 1 });
  }

  /** @returns whether the kills hit. */
  async play(...actions: ChaosAction[]): Promise<boolean[]> {
    const server = { signal() {} } as unknown as NatsServer;
    const injector = new FaultInjector(this as unknown as Supervisor, server, 0);
    await injector.play(actions);
    assert.ok(this.looks <= LOOKS_MAX, "it waits for a process that is up");
    return injector.taken.map(({ hit }) => hit);
  }
}

describe("FaultInjector", () => {
  it("gives power to what it killed, when the supervisor has detected its end", async () => {
    const rack = new OnePartition((rack) => void setTimeout(() => rack.end(), 50));
    assert.deepEqual(await rack.play(KILL), [true]);
    assert.equal(rack.starts, 2);
  });

  it("gives it as long after the kill as that says, and not only when it heals", async () => {
    const rack = new OnePartition((rack) => void setTimeout(() => rack.end(), 50));
    rack.boot = () => assert.fail("it had to be healed");
    assert.deepEqual(await rack.play(KILL), [true]);
    assert.equal(rack.starts, 2);
  });

  it("waits no more where something else has started the process", async () => {
    const rack = new OnePartition((rack) => {
      rack.end();
      rack.start();
    });
    assert.deepEqual(await rack.play(KILL), [true]);
    assert.equal(rack.starts, 2);
  });

  it("starts a process once that it killed twice", async () => {
    const rack = new OnePartition((rack) => void setTimeout(() => rack.end(), 50));
    assert.deepEqual(await rack.play(KILL, KILL), [true, true]);
    assert.equal(rack.starts, 2);
  });

  it("lets nothing follow a kill that hit nothing, but gives power when it heals", async () => {
    const rack = new OnePartition(() => {}, { isUp: false });
    rack.startPartition = () => assert.fail("it follows");
    assert.deepEqual(await rack.play(KILL), [false]);
    assert.equal(rack.starts, 1);
  });
});
