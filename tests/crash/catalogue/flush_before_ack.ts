/**
 * WRITE and SEND; the server flushes and answers then: librpma's general purpose mode. Right:
 * whatever stands still, the answer is behind the flush.
 */
import { answer, dial, execute, message, onHosts, promise, received, record } from "./prelude.ts";
import { serve, willWrite, word, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(0, 64);
    yield* answer(server);
  }),
  *a(context) {
    const link = yield* dial(context);
    willWrite(link, 0, 0, record(1));
    yield* execute(link, write(link, 0, record(1)), message(link, word(1)));
    yield* received(link);
    promise(link, 0);
  },
});
