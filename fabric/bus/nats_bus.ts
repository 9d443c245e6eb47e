/**
 * The bus over core NATS. NATS's behaviour, and this file's answer:
 *
 * - A publish during an outage vanishes without an exception, as the client drops its outbound
 *   buffer at every dial; here it is dropped at once. Messages on their way when the connection
 *   breaks are lost, too: in 15 kills of a busy server, 6 % of all.
 * - The server cuts off a slow subscriber without a visible gap: `disconnected`, then `connected`.
 * - A client gives up after ten dials; ours dials without end, every 250 to 500 ms. Two refusals
 *   of the credential in a row do end it: `closed` settles with `lost`.
 * - A login may take longer than the server's 2 s where hundreds of processes start at once. Our
 *   server waits 60 s, and a dial without an answer in 2 s gets twice that time, up to 30 s: a
 *   dropped dial is more work for all.
 * - A half-open connection takes minutes to notice: a ping every 2 s, two may be out, so a frozen
 *   server shows within 6 s. Our server cuts off a client that is silent for 15 to 20 s.
 * - `flush` proves that the server has read, not that a subscriber has received. The client
 *   forgets a flush when it is closed, and closing discards unwritten data; this file mends both.
 * - Publishing to a forbidden subject gives no exception: `onError` gets `forbidden`.
 * - A handler's exception ends the client's reading, so this file catches it.
 * - Async iterators queue without bound, so messages come by callback.
 */
import { credsAuthenticator, errors, type NatsConnection } from "@nats-io/nats-core";
import { assert, fail } from "../base/assert.ts";
import { PATIENCE_MS } from "../base/patience.ts";
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
import { TcpConnection } from "./nats_transport.ts";
import {
  ANY,
  isPattern,
  isSubject,
  isToken,
  parseSubject,
  patternOf,
  subjectOf,
} from "./subjects.ts";
import { after, sleep, wallMs } from "./wall_time.ts";

export interface NatsAddress {
  /**
   * A server, or several of a cluster, separated by commas. The first that answers is used; where it
   * ends, one of the others, and of those that the cluster announces. `tls://` refuses a server
   * without TLS.
   */
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
  /** The text of a credentials file of NATS: a JWT and the key that proves it. */
  readonly creds?: string;
  /** Certificates in PEM that sign the servers' own; absent: the public authorities. */
  readonly ca?: string;
}

export interface NatsOptions extends NatsAddress {
  readonly run: string;
  /** A token: shown by the server, and part of the subjects of answers. */
  readonly name: string;
  /**
   * 0 tries once, Infinity never ends. Default: 5 s. A server that takes the connection without an
   * answer may be busy: it has {@link PATIENCE_MS} at least.
   */
  readonly connectTimeoutMs?: number;
  /** Each time that {@link sayAfterMs} (10 s) have passed. */
  readonly onWaiting?: (why: string) => void;
  readonly sayAfterMs?: number;
  /** The client drops a server that leaves two pings unanswered. Default: 2 s. */
  readonly pingIntervalMs?: number;
  /** Between two dials after the connection broke, half of it random. Default: 250 ms. */
  readonly reconnectWaitMs?: number;
  /** A longer outage closes the connection for good. Default: no limit. */
  readonly patienceMs?: number;
  readonly onError: BusErrorHook;
}

const RETRY_MS = 100;
/**
 * Without a greeting in this time the client dials again. A connection keeps its last value for
 * later breaks.
 */
const DIAL_TIMEOUT_MS = 2_000, DIAL_TIMEOUT_MOST_MS = 30_000;
const SAY_AFTER_MS = 10_000;

/** The addresses of a server or cluster: the given ones, then those that it announces. @throws BusError */
export async function serversOf(
  address: NatsAddress,
  options: Pick<NatsOptions, "name" | "connectTimeoutMs">,
): Promise<string[]> {
  const { client } = await dialUntil({ ...address, ...options });
  const announced = client.info?.connect_urls ?? [];
  await client.close();
  const known = address.url.split(","), [scheme] = SCHEME.exec(known[0]!)!;
  const hosts = hostsOf(address.url);
  return [
    ...known,
    ...announced.filter((host) => !hosts.includes(host)).map((host) => scheme + host),
  ];
}

const DEFAULT_PORT = 4222;

/** `host:port` of each server that a list of addresses names. */
export function hostsOf(urls: string): string[] {
  return urls.split(",").map((url) => {
    // URL knows host and port of this scheme; it omits its own port, 443.
    const { hostname, port } = new URL(url.replace(/^\w+:/, "https:"));
    return `${hostname}:${port || (/:443\/?$/.test(url) ? 443 : DEFAULT_PORT)}`;
  });
}

/** @throws BusError `unreachable` if there is no server, `refused` at once. */
export async function connectNats(options: NatsOptions): Promise<Bus> {
  assert(isToken(options.run) && isToken(options.name), "Run and name must be subject tokens");
  return new NatsBus(await dialUntil(options), options);
}

type DialOptions = Omit<NatsOptions, "run" | "onError"> & { readonly run?: string };

async function dialUntil(options: DialOptions): Promise<TcpConnection> {
  const { connectTimeoutMs = 5_000, sayAfterMs = SAY_AFTER_MS, onWaiting } = options;
  const beganMs = wallMs(), silentMs = Math.max(connectTimeoutMs, PATIENCE_MS);
  let sayMs = beganMs + sayAfterMs, timeoutMs = DIAL_TIMEOUT_MS;
  for (;;) {
    const dialMs = wallMs();
    try {
      return await dial(options, timeoutMs);
    } catch (cause) {
      const now = wallMs();
      const refused = cause instanceof errors.AuthorizationError;
      const isSilent = cause instanceof errors.TimeoutError;
      const limitMs = isSilent && connectTimeoutMs > 0 ? silentMs : connectTimeoutMs;
      if (refused || now + RETRY_MS > beganMs + limitMs) throw connectError(cause, options);
      if (now - dialMs >= timeoutMs) timeoutMs = Math.min(2 * timeoutMs, DIAL_TIMEOUT_MOST_MS);
      if (now >= sayMs) {
        const waited = `it has been tried for ${Math.round((now - beganMs) / 1_000)} s`;
        onWaiting?.(`${connectError(cause, options).message}; ${waited}`);
        sayMs = now + sayAfterMs;
      }
    }
    await sleep(RETRY_MS);
  }
}

function dial(options: DialOptions, timeoutMs: number): Promise<TcpConnection> {
  const { url, user, password, token, creds, ca, run = "-", name } = options;
  return TcpConnection.connect({
    servers: url.split(",").map((each) => each.replace(SCHEME, "")),
    // The nearest server is named first.
    noRandomize: true,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { pass: password }),
    ...(token !== undefined && { token }),
    ...(creds !== undefined && {
      authenticator: credsAuthenticator(new TextEncoder().encode(creds)),
    }),
    ...((ca !== undefined || url.includes("tls://")) && { tls: {} }),
    ...(ca !== undefined && { ca }),
    name: `rackmesh ${run} ${name}`,
    timeout: timeoutMs,
    maxReconnectAttempts: -1,
    reconnectTimeWait: options.reconnectWaitMs ?? 250,
    reconnectJitter: options.reconnectWaitMs ?? 250,
    pingInterval: options.pingIntervalMs ?? 2_000,
    maxPingOut: 2,
    // No stack traces for every request.
    noAsyncTraces: true,
  });
}

const SCHEME = /^\w+:\/\//;

function connectError(cause: unknown, { url, name }: DialOptions): BusError {
  if (cause instanceof errors.AuthorizationError) {
    const message = `Cannot connect ${name} to the bus: ${url} refuses its credential`;
    return new BusError("refused", message, { cause });
  }
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `Cannot connect ${name} to the bus: ${url} does not answer: ${why}`;
  return new BusError("unreachable", message, { cause });
}

interface PendingRequest {
  readonly subject: string;
  readonly resolve: (answer: Uint8Array<ArrayBuffer>) => void;
  readonly reject: (error: BusError) => void;
}

const NO_RESPONDERS = 503;

class NatsBus implements Bus {
  readonly closed: Promise<BusError | undefined>;
  readonly #connection: TcpConnection;
  readonly #nats: NatsConnection;
  readonly #run: string;
  readonly #name: string;
  readonly #onError: BusErrorHook;
  readonly #patienceMs: number;
  readonly #statusHandlers: Array<(status: BusStatus) => void> = [];
  /** The client does not settle pending flushes when it is closed. */
  readonly #flushes = new Set<(error: BusError) => void>();
  readonly #requests = new Map<string, PendingRequest>();
  readonly #requester = crypto.randomUUID().slice(0, 8);
  #requestCount = 0;
  #maxPayload: number;
  #connected = true;
  #closing: Promise<void> | undefined;
  #trouble = "";
  #cancelGivingUp = () => {};
  #givenUp: Error | undefined;

  constructor(connection: TcpConnection, options: NatsOptions) {
    const nats = connection.client;
    this.#connection = connection;
    this.#nats = nats;
    this.#run = options.run;
    this.#name = options.name;
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
    if (!this.#connection.knows(subject) && !isSubject(subject)) {
      fail(`Cannot publish to "${subject}": not a subject`);
    }
    if (payload.length > this.#maxPayload) {
      fail(`Cannot publish ${payload.length} bytes to ${subject}: at most ${this.#maxPayload}`);
    }
    if (this.#connected) this.#connection.publish(subject, payload);
  }

  subscribe(pattern: string, handler: BusHandler): Subscription {
    assert(isPattern(pattern), `Cannot subscribe to "${pattern}": not a pattern`);
    this.#refuseIfClosed();
    const close = this.#connection.subscribe(pattern, (payload, subject, reply) => {
      if (this.#closing !== undefined) return;
      try {
        handler(payload, subject, reply === "" ? undefined : this.#replyOn(reply, subject));
      } catch (cause) {
        this.#handlerThrew(cause, subject);
      }
    });
    return { close };
  }

  /**
   * A sender may name any subject for the answer; only this user's own are answered, in the
   * question's run.
   */
  #replyOn(subject: string, question: string): ((answer: Uint8Array) => void) | undefined {
    const name = parseSubject(subject);
    const isOwn = name?.kind === "answer" && name.by === this.#name &&
      name.run === (parseSubject(question)?.run ?? this.#run);
    return isOwn ? (answer) => this.publish(subject, answer) : undefined;
  }

  async request(
    subject: string,
    payload: Uint8Array,
    { by, timeoutMs }: RequestOptions,
  ): Promise<Uint8Array<ArrayBuffer>> {
    assert(isSubject(subject), `Cannot ask "${subject}": not a subject`);
    assert(payload.length <= this.#maxPayload, `Cannot ask ${subject}: payload too large`);
    assert(timeoutMs >= 1, `Cannot ask ${subject}: it needs a timeout`);
    this.#refuseIfClosed();
    if (this.#requestCount === 0) this.#hearAnswers();
    const number = `${this.#requester}-${this.#requestCount++}`;
    const asker = this.#name;
    const reply = subjectOf({ kind: "answer", run: this.#run, by, asker, number });
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    const cancelTimeout = after(timeoutMs, () => {
      reject(new BusError("timeout", `No answer from ${subject} within ${timeoutMs} ms`));
    });
    this.#requests.set(reply, { subject, resolve, reject });
    try {
      if (this.#connected) this.#connection.publish(subject, payload, reply);
      return await promise;
    } finally {
      cancelTimeout();
      this.#requests.delete(reply);
    }
  }

  #hearAnswers(): void {
    const asker = this.#name;
    const answers = { kind: "answer", run: this.#run, by: ANY, asker, number: ANY } as const;
    this.#connection.subscribe(
      patternOf(answers),
      // A copy: the asker may keep a small answer for long, and with it the whole read buffer.
      (payload, subject) => this.#requests.get(subject)?.resolve(payload.slice()),
      ({ subject, headers }) => {
        const request = this.#requests.get(subject);
        if (request === undefined || headers?.code !== NO_RESPONDERS) return;
        request.reject(new BusError("no-responders", `No subscriber to ${request.subject}`));
      },
    );
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
      // On close, the client would discard unwritten data. A server that is frozen shows by its pings.
      const { promise, resolve } = Promise.withResolvers<void>();
      this.onStatus(() => resolve());
      this.#nats.flush().then(resolve, () => resolve());
      await promise;
    }
    await this.#nats.close();
    await this.closed;
  }

  #ended(cause: Error | undefined): BusError | undefined {
    this.#connected = false;
    this.#cancelGivingUp();
    cause ??= this.#givenUp;
    for (const reject of this.#flushes) reject(closedError());
    for (const { subject, reject } of this.#requests.values()) {
      reject(new BusError("closed", `The bus closed before ${subject} answered`, { cause }));
    }
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
    const error = new BusError("forbidden", message, { cause });
    const asked = [...this.#requests.values()].filter(({ subject }) =>
      cause.operation === "publish" && subject === cause.subject
    );
    for (const { reject } of asked) reject(error);
    if (asked.length === 0) this.#onError(error);
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

  #handlerThrew(cause: unknown, trigger: string): void {
    this.#onError(handlerError(cause, trigger));
  }

  #refuseIfClosed(): void {
    if (this.#closing !== undefined || this.#nats.isClosed()) throw closedError();
  }
}

function disconnectedError(cause?: unknown): BusError {
  return new BusError("disconnected", "The bus is disconnected", { cause });
}
