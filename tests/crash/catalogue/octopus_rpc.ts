/**
 * Octopus calls its metadata server by WRITE WITH IMMEDIATE: the message lies in the client's
 * buffer of the server, the immediate says whose. The server carries the call out on persistent
 * memory and flushes before it answers. What breaks if a line is left out: octopus_rpc_unflushed.
 */
import {
  answer,
  execute,
  onHosts,
  received,
  serve,
  storing,
  valueOf,
  writeWith,
} from "./prelude.ts";

const CALLS_AT = 1024;

export default onHosts({
  b: serve(function* (server, text) {
    server.store(0, server.load(valueOf(text), 64));
    yield* server.persist(0, 64);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, writeWith(link, CALLS_AT, bytes, CALLS_AT));
    yield* received(link);
  }),
});
