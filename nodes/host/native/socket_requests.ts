/** The requests of a native program's sockets and waits, on `sockets.ts`. */
import { NEVER } from "../../../fabric/base/time.ts";
import type { Handlers } from "./control_requests.ts";
import type { NativeError } from "./native_objects.ts";
import { ERRNO, nameOf } from "./numbers.ts";
import { OBJECTS, POLLED } from "./requests.ts";
import type { PollRow, SocketErrno } from "./sockets.ts";

/** NEVER of the library, 2^63 - 1, as a word is read. */
const WIRE_NEVER = 2 ** 63;

function refusal(errno: SocketErrno): NativeError {
  return { errno, reason: "refused by the socket" };
}

export const SOCKETS: Handlers<
  | "socket_port"
  | "socket_listen"
  | "socket_accept"
  | "socket_connect"
  | "socket_send"
  | "socket_receive"
  | "socket_shutdown"
  | "socket_close"
  | "socket_status"
  | "resolve"
  | "poll"
> = {
  *socket_port(_, { cpu, sockets }) {
    return { words: { port: yield* sockets.freePort(cpu) } };
  },

  *socket_listen({ port, backlog }, { cpu, sockets }) {
    const answer = yield* sockets.listen(cpu, { port, backlog });
    return typeof answer === "string" ? refusal(answer) : { words: answer };
  },

  *socket_accept({ listener, wait }, { cpu, sockets }) {
    const answer = yield* sockets.accept(cpu, { listener, wait: wait !== 0 });
    return typeof answer === "string" ? refusal(answer) : { words: answer };
  },

  *socket_connect({ address, port, local_port: localPort, wait }, { cpu, sockets }) {
    const to = { address, port, localPort, wait: wait !== 0 };
    const answer = yield* sockets.connect(cpu, to);
    if (typeof answer === "string") return refusal(answer);
    const { handle, port: local, isConnected } = answer;
    return { words: { handle, port: local, connected: Number(isConnected) } };
  },

  *socket_send({ socket, wait }, { cpu, sockets }, request) {
    const bytes = request.bytes("socket_send");
    const answer = yield* sockets.send(cpu, { socket, bytes, wait: wait !== 0 });
    return typeof answer === "string" ? refusal(answer) : { words: answer };
  },

  *socket_receive({ socket, most, wait, peek }, { cpu, sockets }) {
    const how = { socket, most, wait: wait !== 0, peek: peek !== 0 };
    const answer = yield* sockets.receive(cpu, how);
    return typeof answer === "string" ? refusal(answer) : answer;
  },

  *socket_shutdown({ socket, how }, { cpu, sockets }) {
    const errno = yield* sockets.shutdown(cpu, { socket, how });
    return errno === undefined ? {} : refusal(errno);
  },

  *socket_close({ socket }, { cpu, sockets }) {
    const errno = yield* sockets.close(cpu, { socket });
    return errno === undefined ? {} : refusal(errno);
  },

  *socket_status({ socket, take }, { cpu, sockets }) {
    const answer = yield* sockets.status(cpu, { socket, take: take !== 0 });
    if (typeof answer === "string") return refusal(answer);
    const { error, isConnected, unread, unsent } = answer;
    const number = error === undefined ? 0 : ERRNO[error];
    return { words: { error: number, connected: Number(isConnected), unread, unsent } };
  },

  *resolve(_, { cpu, sockets }, request) {
    const name = new TextDecoder().decode(request.bytes("resolve"));
    const answer = yield* sockets.resolve(cpu, { name });
    return typeof answer === "string" ? refusal(answer) : { words: answer };
  },

  *poll({ timeoutPs }, { cpu, sockets, family }, request) {
    const rows: PollRow[] = [], descriptors = `${OBJECTS.descriptors}:0`;
    for (const { kind: number, handle, events } of request.rows("poll")) {
      const kind = nameOf(POLLED, number);
      if (kind === undefined) return { errno: "EINVAL", reason: `There is no kind ${number}` };
      const waiter = kind === "futex" && { waiter: family.futexes.enter(descriptors) };
      rows.push({ kind, handle, events, ...waiter });
    }
    const timeout = timeoutPs >= WIRE_NEVER ? NEVER : timeoutPs;
    try {
      const bits = yield* sockets.poll(cpu, { timeoutPs: timeout, rows });
      return { rows: bits.map((ready) => ({ ready })) };
    } finally {
      for (const { waiter } of rows) if (waiter) family.futexes.leave(descriptors, waiter);
    }
  },
};
