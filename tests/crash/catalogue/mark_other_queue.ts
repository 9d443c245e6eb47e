/**
 * WRITE over one queue pair, the mark that has the server flush over another, both at once; the
 * client awaits both. Wrong: the server may have flushed before the record came.
 */
import {
  answer,
  completed,
  message,
  onHosts,
  post,
  received,
  serve,
  storing,
  word,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(0, 64);
    yield* answer(server);
  }, { queues: 2 }),
  a: storing(function* (link, bytes) {
    yield* post(link, [write(link, 0, bytes)], 1);
    yield* post(link, [message(link, word(1))]);
    yield* completed(link);
    yield* received(link);
  }, { queues: 2 }),
});
