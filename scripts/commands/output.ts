/** Results on stdout, everything else on stderr. */

const encoder = new TextEncoder();

export function print(text: string): void {
  write(visible(text) + "\n");
}

/** As it is. @throws OutputClosed, StdoutError */
export function write(text: string): void {
  const bytes = encoder.encode(text);
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  } catch (cause) {
    if (cause instanceof Deno.errors.BrokenPipe) throw new OutputClosed();
    throw new StdoutError(`Cannot write to the standard output: ${(cause as Error).message}`);
  }
}

/** `| head`: the reader of stdout has seen enough. */
export class OutputClosed extends Error {
  override readonly name = "OutputClosed";
}

export class StdoutError extends Error {
  override readonly name = "StdoutError";
}

/**
 * Names of files and objects come from anywhere: characters that a terminal would obey are shown as
 * escapes, except the colours of `colour.ts`.
 */
export function visible(text: string): string {
  return text.replaceAll(
    CONTROL,
    (code) => `\\x${code.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}

// deno-lint-ignore no-control-regex
const CONTROL = /\x1b(?!\[\d{1,2}m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]/g;

export function printResult(
  flags: { readonly json?: boolean },
  document: unknown,
  text: string,
): void {
  print(flags.json ? JSON.stringify(document) : text);
}

export function say(text: string): void {
  tell(visible(text) + "\n");
}

/** Without a reader of stderr the command does its work nevertheless. */
function tell(text: string): void {
  try {
    Deno.stderr.writeSync(encoder.encode(text));
  } catch {
    // There is no other place to say it.
  }
}

/** On stderr; the next line overwrites it. Without a terminal, a line at intervals. */
export class Progress {
  readonly #live = Deno.stderr.isTerminal();
  readonly #quiet: boolean;
  #lastLength = 0;
  #lastShown = 0;

  constructor(options: { quiet: boolean }) {
    this.#quiet = options.quiet;
  }

  show(title: string, share: number): void {
    if (this.#quiet) return;
    const text = `${visible(title)} ${bar(share)} ${Math.floor(100 * share)} %`;
    if (this.#live) {
      const padded = text.padEnd(this.#lastLength);
      this.#lastLength = text.length;
      tell(`\r${padded}`);
      return;
    }
    if (Date.now() - this.#lastShown < 2_000) return;
    this.#lastShown = Date.now();
    say(text);
  }

  clear(): void {
    if (!this.#live || this.#quiet || this.#lastLength === 0) return;
    tell(`\r${" ".repeat(this.#lastLength)}\r`);
    this.#lastLength = 0;
  }
}

function bar(share: number): string {
  const full = Math.round(20 * share);
  return `[${"#".repeat(full)}${".".repeat(20 - full)}]`;
}
