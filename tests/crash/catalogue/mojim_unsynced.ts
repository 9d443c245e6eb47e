/**
 * mojim_sync without the line in which the primary waits for its mirror. Wrong for a promise about
 * both machines.
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
    yield* answer(server);
    yield* received(mirror);
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
