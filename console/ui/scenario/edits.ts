/** Changed texts of scenarios, by name. They are the browser's, so that a reload keeps them. */
import { signal } from "@preact/signals";

const KEY = "rackmesh-edits";

export const edits = signal<ReadonlyMap<string, string>>(new Map());

/** What is there that is none of ours is no edit. */
export function editsIn(text: string | null): ReadonlyMap<string, string> {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(found)) return new Map();
    return new Map(
      found.filter((each): each is [string, string] =>
        Array.isArray(each) && each.length === 2 && each.every((part) => typeof part === "string")
      ),
    );
  } catch {
    return new Map();
  }
}

/** Once, as the page begins. */
export function readEdits(): void {
  edits.value = editsIn(localStorage.getItem(KEY));
}

/** @param text undefined: as it was. */
export function changeEdit(name: string, text: string | undefined): void {
  const others = [...edits.value].filter(([each]) => each !== name);
  edits.value = new Map(text === undefined ? others : [...others, [name, text]]);
}

/** False where the browser has no room for them. */
export function keepEdits(): boolean {
  try {
    if (edits.value.size === 0) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify([...edits.value]));
    return true;
  } catch {
    return false;
  }
}
