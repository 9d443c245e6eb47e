/**
 * WRITE and SEND; the server answers and flushes then. Wrong: the answer overtakes the flush, with
 * DDIO the record is still in the cache when the client tells its user.
 */
import { answer, dial, execute, message, onHosts, promise, received, record } from "./prelude.ts";
import { serve, willWrite, word, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* answer(server);
    yield* server.persist(0, 64);
  }),
  *a(context) {
    const link = yield* dial(context);
    willWrite(link, 0, 0, record(1));
    yield* execute(link, write(link, 0, record(1)), message(link, word(1)));
    yield* received(link);
    promise(link, 0);
  },
});
