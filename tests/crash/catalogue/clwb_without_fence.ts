/**
 * The server begins the write-back of the record's lines, and answers without a fence. Wrong: the
 * write-back may still be under way.
 */
import { answer, asked, onHosts, serve, storing } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server, text) {
    const { cpu } = server.context;
    server.store(0, text);
    cpu.clwb(server.va, text.length);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* asked(link, bytes);
  }),
});
