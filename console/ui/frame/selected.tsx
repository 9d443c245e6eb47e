/** What the side shows of a selection, in every view that has nothing of its own for it. */
import type { Selection } from "../state.ts";

export function Selected({ what }: { readonly what: Selection }) {
  return <h2>{what.kind}</h2>;
}
