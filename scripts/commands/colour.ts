/** On a terminal, and never with NO_COLOR (no-color.org). */

const GREEN = "\x1b[32m", RED = "\x1b[31m", PLAIN = "\x1b[39m";

/** `ok` in green and `FAIL` in red where a line begins so. */
export function painted(text: string, isColoured = hasColour()): string {
  if (!isColoured) return text;
  return text.replaceAll(
    /^(?:ok|FAIL)\b/gm,
    (word) => `${word === "ok" ? GREEN : RED}${word}${PLAIN}`,
  );
}

function hasColour(): boolean {
  return Deno.stdout.isTerminal() && !Deno.noColor && Deno.env.get("TERM") !== "dumb";
}
