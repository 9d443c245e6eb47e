import { api } from "../data/api.ts";
import { time } from "../figures.ts";
import { order } from "./notice.tsx";

/** Shuts a host down, and says when its power went off. @param id of the rack. */
export function orderShutdown(
  id: string,
  what: { readonly node: string; readonly withinPs?: number },
): void {
  void order(
    api.power(id, { action: "shutdown", ...what }),
    ({ atPs }) =>
      atPs === null
        ? `${what.node}: its shutdown begins when time goes on`
        : `${what.node}: shut down, without power since ${time(atPs)}`,
  );
}
