/** Dark or light: as the system has it, until one is chosen here. */
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
