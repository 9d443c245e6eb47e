/** The bus over core NATS: `README.md` has the reason of each setting. */
import { errors, type NatsConnection } from "@nats-io/nats-core";
import { assert, fail } from "../base/assert.ts";
import {
  type Bus,
  BusError,
  type BusErrorHook,
  type BusHandler,
  type BusStatus,
  type Subscription,
} from "./bus.ts";
import { connectOverTcp } from "./nats_transport.ts";
import { isPattern, isSubject, isToken } from "./subjects.ts";
import { after, sleep, wallMs } from "./wall_time.ts";

/** The address of a server, with its credential. */
export interface NatsAddress {
  /** `nats://host:port`, without a credential. */
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
}

export interface NatsOptions extends NatsAddress {
  readonly run: string;
  /** The name of this process, a token: shown by the server, and part of its inbox subject. */
  readonly name: string;
  /** How long to retry where no server answers; 0 tries once. Default: 5 s. */
  readonly connectTimeoutMs?: number;
  /** The client drops a server that leaves two pings unanswered. Default: 2 s. */
  readonly pingIntervalMs?: number;
  /** The wait between two dials after the connection broke, half of it random. Default: 250 ms. */
  readonly reconnectWaitMs?: number;
  /** A longer outage closes the connection for good. Default: no limit. */
  readonly patienceMs?: number;
  readonly onError: BusErrorHook;
}

const RETRY_MS = 100;
/** The client drops a connection after this time without a greeting, and dials again. */
const DIAL_TIMEOUT_MS = 2_000;
/** How long {@link Bus.close} waits until the server has read what was published. */
const CLOSE_FLUSH_MS = 1_000;

/** Connects. @throws BusError `unreachable` after `connectTimeoutMs`, `refused` at once. */
export async function connectNats(options: NatsOptions): Promise<Bus> {
  assert(isToken(options.run) && isToken(options.name), "Run and name must be subject tokens");
  const deadline = wallMs() + (options.connectTimeoutMs ?? 5_000);
  for (;;) {
    try {
      return new NatsBus(await dial(options), options);
    } catch (cause) {
      const refused = cause instanceof errors.AuthorizationError;
      if (refused || wallMs() + RETRY_MS > deadline) throw connectError(cause, options);
    }
    await sleep(RETRY_MS);
  }
}

function dial(options: NatsOptions): Promise<NatsConnection> {
  return connectOverTcp({
    servers: options.url,
    ...(options.user === undefined ? {} : { user: options.user }),
    ...(options.password === undefined ? {} : { pass: options.password }),
    ...(options.token === undefined ? {} : { token: options.token }),
    name: `rackmesh ${options.run} ${options.name}`,
    // Within the run's subjects, so that access lists can cover it.
    inboxPrefix: `rack.${options.run}.inbox.${options.name}`,
    timeout: DIAL_TIMEOUT_MS,
    maxReconnectAttempts: -1,
    reconnectTimeWait: options.reconnectWaitMs ?? 250,
    reconnectJitter: options.reconnectWaitMs ?? 250,
    pingInterval: options.pingIntervalMs ?? 2_000,
    maxPingOut: 2,
    // Disables stack traces for every request, and the discovery of cluster members.
    noAsyncTraces: true,
    ignoreClusterUpdates: true,
  });
}

function connectError(cause: unknown, { url, name }: NatsOptions): BusError {
  if (cause instanceof errors.AuthorizationError) {
    const message = `Cannot connect ${name} to the bus: ${url} refuses its credential`;
    return new BusError("refused", message, { cause });
  }
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `Cannot connect ${name} to the bus: ${url} does not answer: ${why}`;
  return new BusError("unreachable", message, { cause });
}

class NatsBus implements Bus {
  readonly closed: Promise<BusError | undefined>;
  readonly #nats: NatsConnection;
  readonly #onError: BusErrorHook;
  readonly #patienceMs: number;
  readonly #statusHandlers: Array<(status: BusStatus) => void> = [];
  /** Pending flushes: the client does not settle them when it is closed. */
  readonly #flushes = new Set<(error: BusError) => void>();
  #maxPayload: number;
  #connected = true;
  #closing: Promise<void> | undefined;
  /** The reason for the disconnection, as far as the client has reported one. */
  #trouble = "";
  #cancelGivingUp = () => {};
  #givenUp: Error | undefined;

  constructor(nats: NatsConnection, options: NatsOptions) {
    this.#nats = nats;
    this.#onError = options.onError;
    this.#patienceMs = options.patienceMs ?? Infinity;
    this.#maxPayload = nats.info!.max_payload;
    this.closed = nats.closed().then((cause) => this.#ended(cause ?? undefined));
    void this.#watch();
  }

  get maxPayload(): number {
    return this.#maxPayload;
  }

  get connected(): boolean {
    return this.#connected;
  }

  publish(subject: string, payload: Uint8Array): void {
    if (!isSubject(subject)) fail(`Cannot publish to "${subject}": not a subject`);
    if (payload.length > this.#maxPayload) {
      fail(`Cannot publish ${payload.length} bytes to ${subject}: at most ${this.#maxPayload}`);
    }
    // While disconnected, the client would accept the message and drop it at the next dial.
    if (this.#connected && !this.#nats.isClosed()) this.#nats.publish(subject, payload);
  }

  subscribe(pattern: string, handler: BusHandler): Subscription {
    assert(isPattern(pattern), `Cannot subscribe to "${pattern}": not a pattern`);
    this.#refuseIfClosed();
    const literal = isSubject(pattern);
    const subscription = this.#nats.subscribe(pattern, {
      callback: (error, message) => {
        // The connection's status also reports this error (a forbidden subject).
        if (error !== null || this.#closing !== undefined) return;
        // Converts to a plain view: the client's data is a Buffer, whose slice() does not copy.
        const data = message.data;
        const payload = new Uint8Array(
          data.buffer as ArrayBuffer,
          data.byteOffset,
          data.byteLength,
        );
        const reply = message.reply;
        try {
          handler(
            payload,
            literal ? pattern : message.subject,
            reply ? (answer) => this.publish(reply, answer) : undefined,
          );
        } catch (cause) {
          this.#handlerThrew(cause, message.subject);
        }
      },
    });
    return { close: () => subscription.unsubscribe() };
  }

  async request(
    subject: string,
    payload: Uint8Array,
    options: { readonly timeoutMs: number },
  ): Promise<Uint8Array<ArrayBuffer>> {
    assert(isSubject(subject), `Cannot ask "${subject}": not a subject`);
    assert(payload.length <= this.#maxPayload, `Cannot ask ${subject}: payload too large`);
    assert(options.timeoutMs >= 1, `Cannot ask ${subject}: it needs a timeout`);
    this.#refuseIfClosed();
    try {
      const answer = await this.#nats.request(subject, payload, { timeout: options.timeoutMs });
      return new Uint8Array(answer.data);
    } catch (cause) {
      throw requestError(cause, subject, options.timeoutMs);
    }
  }

  async flush(): Promise<void> {
    this.#refuseIfClosed();
    if (!this.#connected) throw disconnectedError();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#flushes.add(reject);
    this.#nats.flush().then(resolve, (cause) => reject(disconnectedError(cause)));
    try {
      await promise;
    } finally {
      this.#flushes.delete(reject);
    }
  }

  onStatus(handler: (status: BusStatus) => void): void {
    this.#statusHandlers.push(handler);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#connected && !this.#nats.isClosed()) {
      // On close, the client would discard what it has not yet written.
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancel = after(CLOSE_FLUSH_MS, resolve);
      this.#nats.flush().then(resolve, () => resolve());
      await promise;
      cancel();
    }
    await this.#nats.close();
    await this.closed;
  }

  #ended(cause: Error | undefined): BusError | undefined {
    this.#connected = false;
    this.#cancelGivingUp();
    cause ??= this.#givenUp;
    for (const reject of this.#flushes) reject(closedError());
    this.#notify("closed");
    if (cause === undefined) return undefined;
    return new BusError("lost", `Connection to the bus is gone for good: ${cause.message}`, {
      cause,
    });
  }

  async #watch(): Promise<void> {
    for await (const status of this.#nats.status()) {
      switch (status.type) {
        case "disconnect":
          // The client repeats this status for every dial that reached the handshake.
          if (!this.#connected) break;
          this.#connected = false;
          if (this.#patienceMs < Infinity) {
            this.#cancelGivingUp = after(this.#patienceMs, () => this.#giveUp());
          }
          this.#notify("disconnected");
          break;
        case "reconnect":
          this.#connected = true;
          this.#cancelGivingUp();
          this.#trouble = "";
          this.#maxPayload = this.#nats.info?.max_payload ?? this.#maxPayload;
          this.#notify("connected");
          break;
        case "staleConnection":
          this.#trouble = "the server does not answer pings";
          break;
        case "error":
          this.#trouble = status.error.message;
          if (status.error instanceof errors.PermissionViolationError) {
            this.#forbidden(status.error);
          }
          break;
      }
    }
  }

  #giveUp(): void {
    const why = this.#trouble === "" ? "" : ` (${this.#trouble})`;
    this.#givenUp = new Error(`no server answers for ${this.#patienceMs / 1_000} s${why}`);
    void this.#nats.close();
  }

  #forbidden(cause: InstanceType<typeof errors.PermissionViolationError>): void {
    const message = `Not allowed: ${cause.operation} ${cause.subject}`;
    this.#onError(new BusError("forbidden", message, { cause }));
  }

  #notify(status: BusStatus): void {
    for (const handler of this.#statusHandlers) {
      try {
        handler(status);
      } catch (cause) {
        this.#handlerThrew(cause, `status ${status}`);
      }
    }
  }

  /** In the client, the exception would end the reading with the connection left open. */
  #handlerThrew(cause: unknown, trigger: string): void {
    this.#onError(new BusError("handler", `Handler of ${trigger} threw: ${cause}`, { cause }));
  }

  #refuseIfClosed(): void {
    if (this.#closing !== undefined || this.#nats.isClosed()) throw closedError();
  }
}

function closedError(): BusError {
  return new BusError("closed", "The bus is closed");
}

function disconnectedError(cause?: unknown): BusError {
  return new BusError("disconnected", "The bus is disconnected", { cause });
}

function requestError(cause: unknown, subject: string, timeoutMs: number): BusError {
  if (cause instanceof errors.TimeoutError) {
    return new BusError("timeout", `No answer from ${subject} within ${timeoutMs} ms`, { cause });
  }
  if (cause instanceof errors.RequestError && cause.isNoResponders()) {
    return new BusError("no-responders", `No subscriber to ${subject}`, { cause });
  }
  if (cause instanceof errors.RequestError && isForbidden(cause)) {
    return new BusError("forbidden", `Not allowed: publish ${subject}`, { cause });
  }
  return new BusError("closed", `The bus closed before ${subject} answered`, { cause });
}

function isForbidden(error: Error): boolean {
  return error.cause instanceof errors.PermissionViolationError;
}
