/**
 * rfp_result_after_flush with the result stored in front of the flush.
 */
import {
  brought,
  execute,
  message,
  onHosts,
  post,
  read,
  serve,
  storing,
  valueOf,
  word,
} from "./prelude.ts";

const DONE_AT = 512;

export default onHosts({
  b: serve(function* (server, text) {
    server.store(0, text);
    server.store(DONE_AT, word(1));
    yield* server.persist(0, 64);
  }),
  a: storing(function* (link, bytes) {
    yield* post(link, [message(link, bytes)]);
    do yield* execute(link, read(link, DONE_AT, 8)); while (
      valueOf(brought(link, DONE_AT, 8)) === 0
    );
  }),
});
