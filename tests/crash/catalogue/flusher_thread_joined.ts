/**
 * Another thread of the server flushes, and then itself answers.
 */
import { answer, asked, execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    server.context.cpu.spawn("flusher", function* () {
      yield* server.persist(0, 64);
      yield* answer(server);
    });
    yield* server.context.cpu.settle();
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
    yield* asked(link);
  }),
});
