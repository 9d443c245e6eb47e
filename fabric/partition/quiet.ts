/**
 * How long a node is left alone: the earliest instant at which a thread of it can see anything from outside.
 * A program that runs outside of virtual time (a native one) may do by itself until then what
 * changes nothing.
 *
 * A message that is on its way to the node itself is known: what the thread cannot see of it, as the card's
 * read of a queue, counts only for what the card may do with the answer.
 */
import { NEVER, type Time } from "../base/time.ts";
import { cableEndsByNode, nodeIndexes } from "../rack/plan/cabling.ts";
import { crossings } from "../rack/plan/lookahead.ts";
import { Distances } from "../rack/plan/distances.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { Deadlines } from "../base/deadlines.ts";
import type { Event, EventQueue } from "./event_queue.ts";
import type { Sight } from "../node.ts";

/**
 * Of more nodes only the next deadline counts, with the least distance of any; of more events only the
 * next one, as if it were the node's own.
 */
const LOOKED_AT_MAX = 64;

export class Quiet {
  readonly #plan: RackPlan;
  #distances: Distances | undefined;
  readonly #least = new Map<number, Time>();
  readonly #echoes = new Map<number, Time>();

  constructor(plan: RackPlan) {
    this.#plan = plan;
  }

  /**
   * @param node its index in the plan; its own deadlines do not count. @param of the partition's events and
   * the deadlines of its nodes, by their indexes. @param limit of its horizon.
   */
  until(
    node: number,
    of: {
      readonly queue: EventQueue;
      readonly deadlines: Deadlines;
      readonly slots: ReadonlyArray<{ readonly index: number; readonly slot: number }>;
      readonly limit: Time;
      readonly sight: Sight;
    },
  ): Time {
    const { queue, deadlines, slots, limit, sight } = of;
    let until = Math.min(limit, sight.sendsAt + this.#echo(node));
    const bound = (index: number, at: Time) => {
      if (at < until) until = Math.min(until, at + this.#delay(index, node));
    };
    const boundBy = ({ target, time, input }: Event) => {
      if (target !== node || input.kind !== "message") return bound(target, time);
      if (time >= until) return;
      until = Math.min(until, time + Math.min(sight.seenAfter(input.message), this.#echo(node)));
    };
    const own = slots.find(({ index }) => index === node)!.slot;
    if (slots.length > LOOKED_AT_MAX) {
      until = Math.min(until, deadlines.earliestBut(own) + this.#leastDelay(node));
    } else {
      for (const { index, slot } of slots) if (slot !== own) bound(index, deadlines.at(slot));
    }
    if (queue.size > LOOKED_AT_MAX) return Math.min(until, queue.nextTime);
    queue.visit(boundBy);
    return until;
  }

  #delay(from: number, to: number): Time {
    if (from === to) return 0;
    return this.#between.between(from, to);
  }

  /** From a message of the node until one of a neighbour that it has caused. */
  #echo(node: number): Time {
    const known = this.#echoes.get(node);
    if (known !== undefined) return known;
    const { cables, nodes } = this.#plan, indexes = nodeIndexes(nodes);
    let least = NEVER;
    for (const { far } of cableEndsByNode(cables).get(nodes[node]!.name) ?? []) {
      const to = indexes.get(far.node)!;
      least = Math.min(least, this.#delay(node, to) + this.#delay(to, node));
    }
    this.#echoes.set(node, least);
    return least;
  }

  get #between(): Distances {
    return this.#distances ??= distancesOf(this.#plan);
  }

  #leastDelay(node: number): Time {
    const known = this.#least.get(node);
    if (known !== undefined) return known;
    let least = NEVER;
    for (let from = 0; from < this.#plan.nodes.length; from++) {
      if (from !== node) least = Math.min(least, this.#delay(from, node));
    }
    this.#least.set(node, least);
    return least;
  }
}

function distancesOf(plan: RackPlan): Distances {
  const each = plan.nodes.map(({ name }) => ({ nodes: [name] }));
  return new Distances(each.length, crossings(plan, each));
}
