import { useEffect, useState } from "preact/hooks";

const KEY = "rackmesh-theme";

export function restoreTheme(): void {
  const chosen = localStorage.getItem(KEY);
  if (chosen !== null) document.documentElement.dataset["theme"] = chosen;
}

export function toggleTheme(): void {
  const root = document.documentElement;
  const isDark = root.dataset["theme"] === undefined
    ? matchMedia("(prefers-color-scheme: dark)").matches
    : root.dataset["theme"] === "dark";
  const next = isDark ? "light" : "dark";
  root.dataset["theme"] = next;
  localStorage.setItem(KEY, next);
}

/** What the style sheet's colours are now, for a canvas, which knows none of its names. */
export function coloursNow(): (name: string) => string {
  const known = new Map<string, string>();
  return (name) => {
    const found = known.get(name);
    if (found !== undefined) return found;
    const probe = document.createElement("i");
    document.body.append(probe);
    probe.style.color = `var(--${name})`;
    const { color } = getComputedStyle(probe);
    probe.remove();
    known.set(name, color);
    return color;
  };
}

/** Changes when the page goes from dark to light. */
export function useTheme(): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const change = () => setCount((before) => before + 1);
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", change);
    const observer = new MutationObserver(change);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      query.removeEventListener("change", change);
      observer.disconnect();
    };
  }, []);
  return count;
}
