/** What one of the seven views gives to the frame. `views.ts` lists them. */
import type { ComponentChildren } from "preact";
import type { Selection, ViewName } from "./state.ts";

/** A key of the keyboard, while no field has the focus. */
export interface Key {
  /** `KeyboardEvent.key`: `n`, ` `, `?`, `ArrowLeft`. */
  readonly key: string;
  /** What `?` says of it. */
  readonly what: string;
  readonly act: () => void;
}

export interface View {
  readonly name: ViewName;
  readonly title: string;
  /** The picture on the rail: the `d` of a path in a box of 20 by 20. */
  readonly icon: string;
  /** The whole of the view's area, below no heading: a view has its own `h1`. */
  readonly Page: () => ComponentChildren;
  /** What the side shows of a selection in this view; undefined: what it shows in every view. */
  readonly side?: (selection: Selection) => ComponentChildren | undefined;
  readonly keys?: readonly Key[];
  /** The selection has no part in it: where the side is a drawer, it stays closed. */
  readonly isApart?: true;
}
