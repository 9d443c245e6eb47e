/**
 * WRITE WITH IMMEDIATE; the server flushes what the immediate names, and answers.
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

export default onHosts({
  b: serve(function* (server, text) {
    yield* server.persist(valueOf(text), 64);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, writeWith(link, 256, bytes, 256));
    yield* received(link);
  }, { at: 256 }),
});
