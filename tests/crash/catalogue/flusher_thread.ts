/**
 * Another thread of the server flushes while the first one answers. Wrong: nothing but time orders
 * the two; no cut of the plain run shows it, a thread that stands still does.
 */
import { answer, asked, execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    server.context.cpu.spawn("flusher", function* () {
      yield* server.persist(0, 64);
    });
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
    yield* asked(link);
  }),
});
