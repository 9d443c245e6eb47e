/**
 * hyperloop_flushed without the READ behind the second hop's WRITE, which is gWRITE without
 * gFLUSH.
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
    yield* execute(next, write(next, 0, text));
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
