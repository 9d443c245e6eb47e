/**
 * The same chain, in which the answer goes back from its tail.
 */
import {
  answer,
  asked,
  dial,
  onHosts,
  promise,
  record,
  relay,
  serve,
  willWrite,
} from "./prelude.ts";

export default onHosts({
  b: relay("c", function* (server, tail, text) {
    server.store(0, text);
    yield* server.persist(0, text.length);
    yield* asked(tail, text);
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
