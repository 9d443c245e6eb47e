/**
 * Mojim keeps memory of a primary on a mirror. In its synchronous mode a sync point returns when
 * the primary's data is flushed and the mirror has acknowledged the same data as persistent. Here
 * `b` is the primary and `c` the mirror. What breaks if a line is left out: without the wait for
 * the mirror it is mojim_unsynced.
 */
import {
  answer,
  asked,
  dial,
  message,
  onHosts,
  post,
  promise,
  received,
  record,
  relay,
  serve,
  willWrite,
} from "./prelude.ts";

export default onHosts({
  b: relay("c", function* (server, mirror, text) {
    server.store(0, text);
    yield* post(mirror, [message(mirror, text)]);
    yield* server.persist(0, text.length);
    yield* received(mirror);
    yield* answer(server);
  }),
  c: serve(function* (server, text) {
    server.store(0, text);
    yield* server.persist(0, text.length);
    yield* answer(server);
  }),
  *a(context) {
    const link = yield* dial(context);
    willWrite(link, 0, 0, record(1), "b");
    willWrite(link, 1, 0, record(1), "c");
    yield* asked(link, record(1));
    promise(link, 0);
    promise(link, 1);
  },
});
