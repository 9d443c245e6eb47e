/**
 * Two WRITEs to far places and one READ behind them. Right without DDIO: the READ need not be of
 * the bytes that it pushes.
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
    yield* execute(link, write(link, 0, record(1)), write(link, 2048, record(2)), read(link, 3000));
    promise(link, 0);
    promise(link, 1);
  },
});
