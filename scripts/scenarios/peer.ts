/**
 * A server's memory, whose place is the private data of the answer to a client's connection (VA 8
 * B, rkey 4 B, 4 B of zeros), and the counters of the host's card.
 */
import {
  type AcceptOptions,
  type Connection,
  type ConnectOptions,
  type ConnectRequest,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  type Listener,
  type Mr,
  type ProgramContext,
  type SendFlags,
  type SendRequest,
  type Steps,
  type Time,
} from "rackmesh";

type Device = ProgramContext["device"];

/** As ConnectX cards have it: for queue pairs that send with {@link flagsFor}. */
export const MAX_INLINE = 220;

export function flagsFor(bytes: number): SendFlags {
  return IBV_SEND_SIGNALED | (bytes > 0 && bytes <= MAX_INLINE ? IBV_SEND_INLINE : 0);
}
export type Counts = Readonly<Record<string, number>>;

/** Undefined at the deadline. @throws Error where something else comes. */
export function nextRequest(device: Device, listener: Listener): Steps<ConnectRequest>;
export function nextRequest(
  device: Device,
  listener: Listener,
  deadline: Time,
): Steps<ConnectRequest | undefined>;
export function* nextRequest(
  { verbs }: Device,
  listener: Listener,
  deadline?: Time,
): Steps<ConnectRequest | undefined> {
  const event = yield* verbs.waitEvent(listener, deadline);
  if (event === undefined && deadline !== undefined) return undefined;
  if (event?.kind !== "request") throw new Error(`A request was expected: ${event?.kind}`);
  return event.request;
}

/** Says where the memory is that the client may reach. @throws Error where it has gone. */
export function* admit(
  { device: { verbs: v }, listener }: { readonly device: Device; readonly listener: Listener },
  request: ConnectRequest,
  { qp, mr }: Pick<AcceptOptions, "qp"> & { readonly mr: Mr },
): Steps<Connection> {
  const place = new DataView(new ArrayBuffer(16));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const privateData = new Uint8Array(place.buffer);
  const connection = v.must(yield* v.accept(listener, request, { qp, privateData }));
  if (v.refused(connection)) throw new Error(`The client has gone: ${connection.reason}`);
  return connection;
}

/** @throws Error where the server refuses. */
export function* connectTo(device: Device, options: ConnectOptions): Steps<Connection> {
  const { verbs: v } = device;
  const connection = yield* v.connect(device, options);
  if (v.refused(connection)) throw new Error(`${options.to} refuses: ${connection.reason}`);
  return connection;
}

export function remoteOf(
  { privateData: { buffer, byteOffset } }: Connection,
  offset = 0,
): NonNullable<SendRequest["remote"]> {
  const place = new DataView(buffer, byteOffset);
  return { va: Number(place.getBigUint64(0)) + offset, rkey: place.getUint32(8) };
}

/** So far. @throws Error where the card does not answer. */
export function* countersOf(cpu: ProgramContext["cpu"]): Steps<Counts> {
  const reply = yield* cpu.command({ op: "query-statistics" });
  if (reply.status !== "ok" || reply.op !== "query-statistics") {
    throw new Error("The card tells no statistics");
  }
  return reply.counters;
}

/** To 10 ns, as in results. */
export function microseconds(ps: number): number {
  return Math.round(ps / 1e4) / 100;
}
