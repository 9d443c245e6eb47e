import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export const dialog = signal<(() => ComponentChildren) | undefined>(undefined);

export function open(content: () => ComponentChildren): void {
  dialog.value = content;
}

export function close(): void {
  dialog.value = undefined;
}

/** Of an order that destroys something, before it is given: Enter leaves all as it is. */
export function ask(
  { title, body, act, stay, onSure }: {
    readonly title: string;
    /** What is lost by it. */
    readonly body: ComponentChildren;
    readonly act: string;
    readonly stay: string;
    readonly onSure: () => void;
  },
): void {
  open(() => (
    <div>
      <h2 id="dialog-title">{title}</h2>
      {body}
      <div class="row">
        <button
          type="button"
          class="danger"
          onClick={() => {
            close();
            onSure();
          }}
        >
          {act}
        </button>
        <button type="button" autofocus onClick={close}>{stay}</button>
      </div>
    </div>
  ));
}

export function OpenDialog() {
  const element = useRef<HTMLDialogElement>(null);
  const Content = dialog.value;
  // Before the next key is pressed, however fast the user types.
  useLayoutEffect(() => {
    if (Content === undefined) return;
    if (element.current?.open === false) element.current.showModal();
    // The browser does so when a dialog opens, and not when one takes the place of another.
    else element.current?.querySelector<HTMLElement>("[autofocus]")?.focus();
  }, [Content]);
  if (Content === undefined) return null;
  return (
    <dialog
      ref={element}
      aria-labelledby="dialog-title"
      onClose={close}
      onKeyDown={(event) => {
        // At once: the browser's own way takes a task, in which the next key would act on the page.
        if (event.key !== "Escape") return;
        event.preventDefault();
        close();
      }}
      onClick={({ target }) => target === element.current && close()}
    >
      <Content />
    </dialog>
  );
}
