/**
 * At most once: a message without a subscriber, or during an outage, is dropped without an error.
 * More: README, Invariants.
 */

export interface Bus {
  /** In bytes: the publisher splits larger messages. */
  readonly maxPayload: number;
  /** False during an outage, and after {@link close}. */
  readonly connected: boolean;
  /** Settles when the bus is closed for good, with the reason unless {@link close} closed it. */
  readonly closed: Promise<BusError | undefined>;

  /**
   * Does not wait. During an outage or after {@link close} the message is dropped; one sent while
   * the connection breaks may be lost.
   */
  publish(subject: string, payload: Uint8Array): void;

  /**
   * To a subject that matches `pattern` (`*` one token, `>` the rest), also by this connection. The
   * subscription survives outages.
   */
  subscribe(pattern: string, handler: BusHandler): Subscription;

  /**
   * Waits for one answer. @throws BusError `no-responders`, `timeout` (also where request or answer
   * was lost), `forbidden`, `closed`.
   */
  request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
  ): Promise<Uint8Array<ArrayBuffer>>;

  /**
   * The server has read everything published and subscribed before; subscribers may not have
   * received it. @throws BusError `disconnected`, `closed`.
   */
  flush(): Promise<void>;

  onStatus(handler: (status: BusStatus) => void): void;

  /** Sends what was published, then closes the connection. Idempotent. */
  close(): Promise<void>;
}

export interface RequestOptions {
  /** The only user that can answer, by the name of its connection (`access.ts`). */
  readonly by: string;
  readonly timeoutMs: number;
}

/** `reply` is defined if the sender waits for an answer; only its first call counts. */
export type BusHandler = (
  payload: Uint8Array<ArrayBuffer>,
  subject: string,
  reply?: (payload: Uint8Array) => void,
) => void;

export interface Subscription {
  /** After this, the handler is not called any more. Idempotent. */
  close(): void;
}

export type BusStatus = "connected" | "disconnected" | "closed";

export type BusErrorKind =
  | "unreachable"
  | "refused"
  | "lost"
  | "disconnected"
  | "closed"
  | "timeout"
  | "no-responders"
  /** The credential does not allow this subject; reported to the hook, and to the requester. */
  | "forbidden"
  | "handler";

export class BusError extends Error {
  override readonly name = "BusError";

  constructor(readonly kind: BusErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** For errors that have no caller: `handler` and `forbidden`. Must not throw. */
export type BusErrorHook = (error: BusError) => void;

export function closedError(): BusError {
  return new BusError("closed", "The bus is closed");
}

export function handlerError(cause: unknown, trigger: string): BusError {
  return new BusError("handler", `Handler of ${trigger} threw: ${cause}`, { cause });
}
