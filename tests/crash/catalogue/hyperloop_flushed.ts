/**
 * HyperLoop offloads a chain of replicas to the cards: gWRITE passes the data on, and gFLUSH has a
 * READ behind it at every hop, as a READ empties the card's and the host's buffers. Here the first
 * replica's CPU posts what the cards of the paper chain by themselves; persistence is the same.
 * What breaks if a line is left out: hyperloop_unflushed.
 */
import {
  answer,
  asked,
  dial,
  execute,
  onHosts,
  promise,
  read,
  record,
  relay,
  serve,
  willWrite,
  write,
} from "./prelude.ts";

export default onHosts({
  b: relay("c", function* (server, next, text) {
    yield* execute(next, write(next, 0, text), read(next, 0));
    yield* answer(server);
  }),
  c: serve(),
  *a(context) {
    const link = yield* dial(context);
    willWrite(link, 0, 0, record(1), "b");
    willWrite(link, 1, 0, record(1), "c");
    yield* execute(link, write(link, 0, record(1)), read(link, 0));
    yield* asked(link, record(1));
    promise(link, 0);
    promise(link, 1);
  },
});
