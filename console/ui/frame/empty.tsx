/** A view, or a part of one, without content: its purpose, and the one thing to do. */
import type { ComponentChildren } from "preact";

export function Empty(
  { title, children, act, isPart }: {
    readonly title: string;
    readonly children: ComponentChildren;
    readonly act?: ComponentChildren;
    /** The view has a heading of its own. */
    readonly isPart?: true;
  },
) {
  return (
    <div class="empty">
      {isPart ? <h2>{title}</h2> : <h1>{title}</h1>}
      <p class="quiet">{children}</p>
      {act}
    </div>
  );
}

export function Loading({ what }: { readonly what: string }) {
  return <p class="quiet loading" aria-live="polite">Reading {what} …</p>;
}
