/**
 * WRITE, READ, WRITE with one doorbell; both records are promised. Wrong: only the first one was
 * pushed.
 */
import {
  dial,
  execute,
  onHosts,
  promise,
  read,
  record,
  serve,
  willWrite,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    willWrite(link, 0, 0, record(1));
    willWrite(link, 1, 2048, record(2));
    yield* execute(link, write(link, 0, record(1)), read(link, 0), write(link, 2048, record(2)));
    promise(link, 0);
    promise(link, 1);
  },
});
