/**
 * octopus_rpc without the flush.
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
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, writeWith(link, CALLS_AT, bytes, CALLS_AT));
    yield* received(link);
  }),
});
