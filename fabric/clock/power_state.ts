/** Each node's power, life and last digest, which outlive a process. */
import { digestEvent, digestText, emptyDigest, type NodeDigest } from "../partition/digest.ts";
import { nodeIndexes } from "../rack/plan/cabling.ts";
import { lookaheadPs } from "../rack/plan/lookahead.ts";
import type { Endpoint, FaultPlan, RackPlan } from "../rack/plan/plan.ts";
import type { LinkChange } from "./clock.ts";
import { EVENT_KINDS, ownEvent } from "../partition/event_queue.ts";
import type { Time } from "../base/time.ts";

export type DigestRow = readonly [node: string, high: number, low: number, events: number];

/** `noticePs`: until the far end notices a change of the near one. */
interface Direction {
  readonly near: Endpoint;
  readonly far: Endpoint;
  readonly noticePs: Time;
}

interface Life {
  life: number;
  up: boolean;
  since: Time;
}

export class PowerState {
  readonly #directions: readonly Direction[];
  readonly #index: ReadonlyMap<string, number>;
  readonly #faults: readonly FaultPlan[];
  readonly #digests = new Map<string, NodeDigest>();
  readonly #lives = new Map<string, Life>();
  readonly #past = new Map<string, Life[]>();

  /**
   * @param scripted nodes that carry out the plan's faults inside their own process: other nodes'
   * notices of them follow from the plan.
   */
  constructor(plan: RackPlan, scripted: ReadonlySet<string>) {
    this.#faults = plan.faults.filter(({ node }) => scripted.has(node));
    this.#directions = plan.cables.flatMap((cable) => {
      const ends = [{ near: cable.a, far: cable.b }, { near: cable.b, far: cable.a }];
      return ends.map((e) => ({ ...e, noticePs: lookaheadPs(plan, cable, e) }));
    });
    this.#index = nodeIndexes(plan.nodes);
    for (const { name } of plan.nodes) {
      this.#digests.set(name, emptyDigest());
      this.#lives.set(name, { life: 0, up: true, since: 0 });
      this.#past.set(name, []);
    }
  }

  /** Rows of unknown nodes are ignored. */
  note(rows: readonly DigestRow[]): void {
    for (const [node, high, low, events] of rows) {
      if (this.#digests.has(node)) this.#digests.set(node, { high, low, events });
    }
  }

  /** The power failure is the last event of the nodes' lives, which no process is left to count. */
  cut(nodes: readonly string[], at: Time): DigestRow[] {
    return nodes.map((node) => {
      const digest = this.#digests.get(node)!;
      const { life } = this.#lives.get(node)!;
      const index = this.#index.get(node)!;
      const off = { time: at, kind: EVENT_KINDS.powerOff, counter: life };
      digestEvent(digest, ownEvent(index, life, { ...off, input: { kind: "power" } }));
      return [node, digest.high, digest.low, digest.events];
    });
  }

  get isUnrecorded(): boolean {
    return this.#faults.length > 0;
  }

  markDown(nodes: readonly string[], at: Time): void {
    for (const node of nodes) {
      const state = this.#lives.get(node)!;
      const returns = this.#faults.filter((fault) =>
        fault.node === node && fault.action === "start" && fault.at > state.since && fault.at <= at
      );
      state.life += returns.length;
      // A life that ends as it begins has sent no news of it.
      if (state.up && state.since === at) this.#past.get(node)!.pop();
      state.up = false;
      state.since = at;
      this.#past.get(node)!.push({ ...state });
    }
  }

  markUp(nodes: readonly string[], at: Time): void {
    for (const node of nodes) {
      const state = this.#lives.get(node)!;
      state.life++;
      state.up = true;
      state.since = at;
      this.#past.get(node)!.push({ ...state });
    }
  }

  news(nodes: readonly string[]): { node: string; change: LinkChange }[] {
    const leaving = this.#directions.filter(({ near, far }) =>
      nodes.includes(near.node) && !nodes.includes(far.node)
    );
    return leaving.map((direction) => {
      const { near, far } = direction;
      return { node: far.node, change: this.#change(direction, this.#lives.get(near.node)!) };
    });
  }

  newsFor(nodes: readonly string[], at: Time): LinkChange[] {
    return this.#newsOver(nodes, at).flatMap((changes) => changes.filter((each) => each.at >= at));
  }

  /**
   * Before `at`, at each end of the nodes' cables. Two cables to one neighbour may differ, as one
   * is longer.
   */
  noticed(nodes: readonly string[], at: Time): LinkChange[] {
    return this.#newsOver(nodes, at).flatMap((changes) =>
      changes.filter((each) => each.at < at).slice(-1)
    );
  }

  /**
   * By cable that leads to the nodes: news of its other end, oldest first. Between two of the nodes
   * only from before `at`, when both get power.
   */
  #newsOver(nodes: readonly string[], at: Time): LinkChange[][] {
    return this.#directions.filter(({ far }) => nodes.includes(far.node)).map((direction) => {
      const { near } = direction;
      const isWithin = nodes.includes(near.node);
      return this.#history(near.node).filter(({ since }) => !isWithin || since < at)
        .map((life) => this.#change(direction, life));
    });
  }

  #history(node: string): readonly Life[] {
    const past = this.#past.get(node)!;
    if (past.length > 0) return past;
    let life = 0;
    return this.#faults.filter((fault) => fault.node === node).map(({ at, action }) => {
      const up = action === "start";
      if (up) life++;
      return { life, up, since: at };
    });
  }

  #change({ near, far, noticePs }: Direction, { life, up, since }: Life): LinkChange {
    return {
      at: since + noticePs,
      target: this.#index.get(far.node)!,
      port: far.port,
      up,
      source: this.#index.get(near.node)!,
      sourceLife: life,
    };
  }

  lives(nodes: readonly string[]): (readonly [string, number, number, number, number])[] {
    return nodes.map((node) => {
      const { high, low, events } = this.#digests.get(node)!;
      return [node, this.#lives.get(node)!.life, high, low, events] as const;
    });
  }

  digests(): [name: string, digest: string][] {
    return [...this.#digests].map(([name, digest]) => [name, digestText(digest)]);
  }

  digestsOf(nodes: readonly string[]): [name: string, digest: string, events: number][] {
    return nodes.map((name) => {
      const digest = this.#digests.get(name)!;
      return [name, digestText(digest), digest.events];
    });
  }

  get events(): number {
    let sum = 0;
    for (const { events } of this.#digests.values()) sum += events;
    return sum;
  }
}
