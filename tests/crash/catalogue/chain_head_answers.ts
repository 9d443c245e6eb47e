/**
 * The client sends a record to `b`, which keeps it and passes it on to `c`. Wrong: `b` answers
 * when its SEND to `c` has completed, which is the card's word.
 */
import {
  answer,
  asked,
  dial,
  execute,
  message,
  onHosts,
  promise,
  received,
  record,
  relay,
  serve,
  willWrite,
} from "./prelude.ts";

export default onHosts({
  b: relay("c", function* (server, tail, text) {
    server.store(0, text);
    yield* server.persist(0, text.length);
    yield* execute(tail, message(tail, text));
    yield* answer(server);
    yield* received(tail);
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
