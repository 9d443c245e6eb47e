/**
 * A record goes to two servers at once, and is promised of both when the first READ has been
 * answered. Wrong: the second one may have nothing yet.
 */
import {
  completed,
  dial,
  onHosts,
  post,
  promise,
  read,
  record,
  serve,
  willWrite,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  c: serve(),
  *a(context) {
    const first = yield* dial(context, { to: "b" }), second = yield* dial(context, { to: "c" });
    willWrite(first, 0, 0, record(1), "b");
    willWrite(first, 1, 0, record(1), "c");
    yield* post(first, [write(first, 0, record(1)), read(first, 0)]);
    yield* post(second, [write(second, 0, record(1)), read(second, 0)]);
    yield* completed(first);
    promise(first, 0);
    promise(first, 1);
    yield* completed(second);
  },
});
