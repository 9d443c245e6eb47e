/**
 * What the rack needs of a bus, and what it may not expect of one. `nats_bus.ts` is the real one,
 * `memory_bus.ts` the one for tests; `bus_contract.ts` is the suite that both pass.
 *
 * - At most once: a publish that nobody hears, or that meets an outage, vanishes without an error.
 * - In order from one connection to another, and in no order between connections.
 * - A handler is called in a later turn of the event loop than the publish, one message at a time.
 * - No payload is changed by anybody, neither after `publish` nor in a handler.
 */

export interface Bus {
  /** Most bytes in one payload: what is larger must be cut up by whoever publishes it. */
  readonly maxPayload: number;
  /** False during an outage, and once closed. */
  readonly connected: boolean;
  readonly stats: Readonly<BusStats>;
  /** Settles when the bus is closed for good, with the reason unless it was {@link close}. */
  readonly closed: Promise<BusError | undefined>;

  /**
   * Sends without waiting. During an outage or once closed the message is dropped and counted in
   * `stats.lost`; one that leaves as the connection breaks is lost without being counted.
   */
  publish(subject: string, payload: Uint8Array): void;

  /**
   * Calls `handler` for everything published to a subject that matches `pattern` (`*` one token, `>`
   * all the rest), also by this connection. Holds across outages.
   */
  subscribe(pattern: string, handler: BusHandler): Subscription;

  /**
   * Publishes and waits for one answer.
   * @throws BusError `no-responders`, `timeout` (also where question or answer was lost), `closed`.
   */
  request(
    subject: string,
    payload: Uint8Array,
    options: { readonly timeoutMs: number },
  ): Promise<Uint8Array<ArrayBuffer>>;

  /**
   * Waits until the server has read all that was published and subscribed before: says nothing
   * about anybody having received it.
   * @throws BusError `disconnected`, `closed`.
   */
  flush(): Promise<void>;

  /** Calls `handler` at every change. The state at the time of the call is not told. */
  onStatus(handler: (status: BusStatus, detail: string) => void): void;

  /** Ends the connection once what was published has been sent. Any number of times. */
  close(): Promise<void>;
}

/** `reply` is there where the sender waits for an answer; the first call counts. */
export type BusHandler = (
  payload: Uint8Array<ArrayBuffer>,
  subject: string,
  reply?: (payload: Uint8Array) => void,
) => void;

export interface Subscription {
  /** No handler call after this. Any number of times. */
  close(): void;
}

export type BusStatus = "connected" | "disconnected" | "closed";

export interface BusStats {
  /** Messages handed to the connection, and their payload bytes. */
  published: number;
  publishedBytes: number;
  /** Messages handed to handlers, and their payload bytes. */
  received: number;
  receivedBytes: number;
  /** Publishes dropped for want of a connection. */
  lost: number;
  /** Handlers that threw. */
  handlerErrors: number;
  /** Outages survived. */
  reconnects: number;
}

export function emptyStats(): BusStats {
  return {
    published: 0,
    publishedBytes: 0,
    received: 0,
    receivedBytes: 0,
    lost: 0,
    handlerErrors: 0,
    reconnects: 0,
  };
}

export type BusErrorKind =
  /** No server answers at the address. */
  | "unreachable"
  /** The server does not accept the credential. */
  | "refused"
  /** The connection is gone and will not come back. */
  | "lost"
  | "disconnected"
  | "closed"
  | "timeout"
  | "no-responders"
  /** The credential does not allow this subject; reported, as publishing has no answer. */
  | "forbidden"
  /** A handler threw; reported with what it threw as `cause`. */
  | "handler";

/** The world of the bus is wrong. */
export class BusError extends Error {
  override readonly name = "BusError";

  constructor(readonly kind: BusErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** Told of what has no caller to be thrown at: `handler` and `forbidden`. Must not throw itself. */
export type BusErrorHook = (error: BusError) => void;
