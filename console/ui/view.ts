import type { ComponentChildren } from "preact";
import type { Selection } from "./state.ts";

/** While no field has the focus. */
export interface Key {
  /** `KeyboardEvent.key`: `n`, ` `, `?`, `ArrowLeft`. */
  readonly key: string;
  /** Its line in the list of keys (`?`). */
  readonly what: string;
  readonly act: () => void;
}

export interface View {
  readonly title: string;
  /** On the rail: the `d` of a path in a box of 20 by 20. */
  readonly icon: string;
  /** The whole of the view's area; a view has its own `h1`. */
  readonly Page: () => ComponentChildren;
  /** The side for a selection in this view; undefined: as in every view. */
  readonly side?: (selection: Selection) => ComponentChildren | undefined;
  readonly keys?: readonly Key[];
  /** The selection has no part in it: where the side is a drawer, it stays closed. */
  readonly isApart?: true;
}
