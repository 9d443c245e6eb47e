/** Colour of the words that say how something came out: on a terminal, and never with NO_COLOR. */

export interface Terminal {
  readonly isTerminal: boolean;
  /** `NO_COLOR`: set and not empty, whatever it says (no-color.org). */
  readonly noColor: string | undefined;
  readonly term: string | undefined;
}

const GREEN = "\x1b[32m", RED = "\x1b[31m", PLAIN = "\x1b[39m";

/** The text with `ok` in green and `FAIL` in red where a line begins so. */
export function painted(text: string, terminal: Terminal = terminalHere()): string {
  const { isTerminal, noColor, term } = terminal;
  if (!isTerminal || (noColor !== undefined && noColor !== "") || term === "dumb") return text;
  return text.replaceAll(
    /^(?:ok|FAIL)\b/gm,
    (word) => `${word === "ok" ? GREEN : RED}${word}${PLAIN}`,
  );
}

function terminalHere(): Terminal {
  return {
    isTerminal: Deno.stdout.isTerminal(),
    noColor: Deno.env.get("NO_COLOR"),
    term: Deno.env.get("TERM"),
  };
}
