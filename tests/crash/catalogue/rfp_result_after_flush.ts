/**
 * In the remote fetching paradigm the server answers by a store into its own memory, and the
 * client READs until the answer is there. Here the call stores a record. What breaks if two lines
 * change places: rfp_result_first.
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
    yield* server.persist(0, 64);
    server.store(DONE_AT, word(1));
  }),
  a: storing(function* (link, bytes) {
    yield* post(link, [message(link, bytes)]);
    do yield* execute(link, read(link, DONE_AT, 8)); while (
      valueOf(brought(link, DONE_AT, 8)) === 0
    );
  }),
});
