/**
 * The bus inside one process, for tests, with configurable delays and losses. Its behaviour is a
 * function of the calls and the seed; only a request's timeout uses wall time.
 *
 * A publish appends to the lane from its connection to the subscriber's; every turn of the event
 * loop delivers the messages that were in the lanes when the turn began. So a lane keeps its order,
 * as in NATS, and the delay of one lane lets others overtake it, as in NATS.
 */
import { assert } from "../base/assert.ts";
import { type Rng, rngFor } from "../base/rng.ts";
import {
  type Bus,
  BusError,
  type BusErrorHook,
  type BusHandler,
  type BusStatus,
  closedError,
  handlerError,
  type RequestOptions,
  type Subscription,
} from "./bus.ts";
import { isPattern, isSubject } from "./subjects.ts";
import { after, nextTurn } from "./wall_time.ts";

const DELAY_TURNS_MAX = 8;

/** Faults of messages, each with a probability in [0, 1]. */
export interface BusFaults {
  /** The message is dropped. */
  readonly drop?: number;
  /** The message is delivered twice in a row. */
  readonly duplicate?: number;
  /** The message and all behind it in its lane wait for 1 to {@link DELAY_TURNS_MAX} turns. */
  readonly delay?: number;
  /** Restricts the faults to subjects that match. Default: all. */
  readonly pattern?: string;
}

export interface MemoryBrokerOptions {
  readonly seed?: number;
  readonly faults?: BusFaults;
  readonly maxPayload?: number;
}

/** A connection that a test can break and restore. */
export interface MemoryBus extends Bus {
  disconnect(): void;
  reconnect(): void;
}

/** State shared by the connections of a process; it replaces the server. */
export interface MemoryBroker {
  connect(options: { readonly onError: BusErrorHook }): MemoryBus;
  /** Effective at once, so that a test can heal the bus and demand progress. */
  setFaults(faults: BusFaults): void;
  /** Ends the server: all connections break, and messages in lanes are lost. */
  stop(): void;
  start(): void;
}

export function createMemoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  return new Broker(options);
}

interface Interest {
  readonly connection: Connection;
  readonly pattern: string;
  readonly handler: BusHandler;
  open: boolean;
}

interface Delivery {
  readonly interest: Interest;
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly replyTo: string | undefined;
  /** Remaining turns of delay. */
  turns: number;
}

interface Lane {
  readonly rng: Rng;
  queue: Delivery[];
}

class Broker implements MemoryBroker {
  readonly maxPayload: number;
  readonly #seed: number;
  readonly #connections: Connection[] = [];
  readonly #lanes = new Map<string, Lane>();
  readonly #interests = new Set<Interest>();
  /** Subject → its subscribers; cleared at every change of a subscription. */
  readonly #routes = new Map<string, Interest[]>();
  #faults: BusFaults;
  #running = true;
  #turnPending = false;
  #inboxes = 0;

  constructor({ seed = 0, faults = {}, maxPayload = 8 << 20 }: MemoryBrokerOptions) {
    this.#seed = seed;
    this.#faults = faults;
    this.maxPayload = maxPayload;
  }

  get running(): boolean {
    return this.#running;
  }

  connect({ onError }: { readonly onError: BusErrorHook }): MemoryBus {
    const connection = new Connection(this, { id: this.#connections.length, onError });
    this.#connections.push(connection);
    return connection;
  }

  setFaults(faults: BusFaults): void {
    this.#faults = faults;
  }

  stop(): void {
    this.#running = false;
    for (const lane of this.#lanes.values()) lane.queue = [];
    for (const connection of this.#connections) connection.disconnect();
  }

  start(): void {
    this.#running = true;
    for (const connection of this.#connections) connection.reconnect();
  }

  newInbox(): string {
    return `_INBOX.${this.#inboxes++}`;
  }

  listen(interest: Interest): void {
    this.#interests.add(interest);
    this.#routes.clear();
  }

  forget(interest: Interest): void {
    this.#interests.delete(interest);
    this.#routes.clear();
  }

  /** Takes a message from a connection. False without a subscriber. */
  take(from: Connection, message: Pick<Delivery, "subject" | "payload" | "replyTo">): boolean {
    const interests = this.#route(message.subject);
    for (const interest of interests) this.#enqueue(from, { ...message, interest, turns: 0 });
    return interests.length > 0;
  }

  #route(subject: string): Interest[] {
    let interests = this.#routes.get(subject);
    if (interests === undefined) {
      interests = [...this.#interests].filter((interest) => matches(interest.pattern, subject));
      this.#routes.set(subject, interests);
    }
    return interests;
  }

  #enqueue(from: Connection, delivery: Delivery): void {
    const lane = this.#lane(from, delivery.interest.connection);
    const { drop = 0, duplicate = 0, delay = 0, pattern = ">" } = this.#faults;
    if (drop + duplicate + delay > 0 && matches(pattern, delivery.subject)) {
      // Always draws four numbers, so that the rate of one fault does not change the effects of the
      // others.
      const dropped = lane.rng.unit() < drop;
      const doubled = lane.rng.unit() < duplicate;
      const delayed = lane.rng.unit() < delay;
      const turns = 1 + lane.rng.below(DELAY_TURNS_MAX);
      if (dropped) return;
      if (delayed) delivery.turns = turns;
      if (doubled) lane.queue.push({ ...delivery });
    }
    lane.queue.push(delivery);
    this.#wantTurn();
  }

  #lane(from: Connection, to: Connection): Lane {
    const name = `${from.id}>${to.id}`;
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = { rng: rngFor(this.#seed, `bus lane ${name}`), queue: [] };
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  #wantTurn(): void {
    if (this.#turnPending) return;
    this.#turnPending = true;
    nextTurn(() => {
      this.#turnPending = false;
      this.#turn();
    });
  }

  #turn(): void {
    const queues = [...this.#lanes.values()].map((lane) => {
      const queue = lane.queue;
      lane.queue = [];
      return { lane, queue };
    });
    for (const { lane, queue } of queues) {
      let at = 0;
      while (at < queue.length && queue[at]!.turns === 0) {
        const delivery = queue[at++]!;
        if (this.#running) delivery.interest.connection.deliver(delivery);
      }
      if (at === queue.length || !this.#running) continue;
      queue[at]!.turns--;
      lane.queue = queue.slice(at).concat(lane.queue);
      this.#wantTurn();
    }
  }
}

class Connection implements MemoryBus {
  readonly id: number;
  readonly closed: Promise<BusError | undefined>;
  readonly #broker: Broker;
  readonly #onError: BusErrorHook;
  readonly #interests = new Set<Interest>();
  readonly #statusHandlers: Array<(status: BusStatus) => void> = [];
  readonly #requests = new Set<(error: BusError) => void>();
  readonly #settleClosed: (error: BusError | undefined) => void;
  #state: BusStatus;

  constructor(broker: Broker, options: { readonly id: number; readonly onError: BusErrorHook }) {
    this.#broker = broker;
    this.id = options.id;
    this.#onError = options.onError;
    this.#state = broker.running ? "connected" : "disconnected";
    const { promise, resolve } = Promise.withResolvers<BusError | undefined>();
    this.closed = promise;
    this.#settleClosed = resolve;
  }

  get maxPayload(): number {
    return this.#broker.maxPayload;
  }

  get connected(): boolean {
    return this.#state === "connected";
  }

  publish(subject: string, payload: Uint8Array): void {
    this.#publish(subject, { payload });
  }

  subscribe(pattern: string, handler: BusHandler): Subscription {
    assert(isPattern(pattern), `Cannot subscribe to "${pattern}": not a pattern`);
    this.#refuseIfClosed();
    const interest: Interest = { connection: this, pattern, handler, open: true };
    this.#interests.add(interest);
    this.#broker.listen(interest);
    return { close: () => this.#unsubscribe(interest) };
  }

  async request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
  ): Promise<Uint8Array<ArrayBuffer>> {
    assert(options.timeoutMs >= 1, `Cannot ask ${subject}: it needs a timeout`);
    this.#refuseIfClosed();
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    const inbox = this.#broker.newInbox();
    const answer = this.subscribe(inbox, resolve);
    const cancelTimeout = after(options.timeoutMs, () => {
      reject(new BusError("timeout", `No answer from ${subject} within ${options.timeoutMs} ms`));
    });
    this.#requests.add(reject);
    try {
      const heard = this.#publish(subject, { payload, replyTo: inbox });
      if (!heard) reject(new BusError("no-responders", `No subscriber to ${subject}`));
      return await promise;
    } finally {
      cancelTimeout();
      this.#requests.delete(reject);
      answer.close();
    }
  }

  flush(): Promise<void> {
    if (this.#state === "closed") return Promise.reject(closedError());
    if (this.#state === "connected") return new Promise((resolve) => nextTurn(resolve));
    return Promise.reject(new BusError("disconnected", "The bus is disconnected"));
  }

  onStatus(handler: (status: BusStatus) => void): void {
    this.#statusHandlers.push(handler);
  }

  close(): Promise<void> {
    if (this.#state !== "closed") {
      for (const interest of this.#interests) this.#unsubscribe(interest);
      for (const reject of this.#requests) reject(closedError());
      this.#change("closed");
      this.#settleClosed(undefined);
    }
    return this.closed.then(() => {});
  }

  disconnect(): void {
    if (this.#state === "connected") this.#change("disconnected");
  }

  reconnect(): void {
    if (this.#state !== "disconnected" || !this.#broker.running) return;
    this.#change("connected");
  }

  deliver({ interest, subject, payload, replyTo }: Delivery): void {
    if (!interest.open || this.#state !== "connected") return;
    const reply = replyTo === undefined
      ? undefined
      : (answer: Uint8Array) => this.publish(replyTo, answer);
    try {
      interest.handler(payload as Uint8Array<ArrayBuffer>, subject, reply);
    } catch (cause) {
      this.#handlerThrew(cause, subject);
    }
  }

  /** False where the message is known to have no subscriber; a lost message is not known. */
  #publish(
    subject: string,
    { payload, replyTo }: { readonly payload: Uint8Array; readonly replyTo?: string },
  ): boolean {
    assert(isSubject(subject), `Cannot publish to "${subject}": not a subject`);
    assert(
      payload.length <= this.maxPayload,
      `Cannot publish ${payload.length} bytes to ${subject}: at most ${this.maxPayload}`,
    );
    if (this.#state !== "connected") return true;
    return this.#broker.take(this, { subject, payload, replyTo });
  }

  #unsubscribe(interest: Interest): void {
    interest.open = false;
    this.#interests.delete(interest);
    this.#broker.forget(interest);
  }

  #change(status: BusStatus): void {
    this.#state = status;
    // Asynchronous, so that handlers do not run inside the call that changed the status.
    void Promise.resolve().then(() => {
      for (const handler of this.#statusHandlers) {
        try {
          handler(status);
        } catch (cause) {
          this.#handlerThrew(cause, `status ${status}`);
        }
      }
    });
  }

  #handlerThrew(cause: unknown, trigger: string): void {
    this.#onError(handlerError(cause, trigger));
  }

  #refuseIfClosed(): void {
    if (this.#state === "closed") throw closedError();
  }
}

/** True where a subscription to `pattern` receives what is published to `subject`. */
export function matches(pattern: string, subject: string): boolean {
  if (pattern === subject) return true;
  const wanted = pattern.split(".");
  const tokens = subject.split(".");
  for (const [i, want] of wanted.entries()) {
    if (want === ">") return tokens.length > i;
    if (i >= tokens.length || (want !== "*" && want !== tokens[i])) return false;
  }
  return wanted.length === tokens.length;
}
