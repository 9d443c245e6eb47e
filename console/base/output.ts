/** What a command prints: results on stdout, everything else on stderr. */

const encoder = new TextEncoder();

/** A line on stdout: results only. */
export function print(text: string): void {
  Deno.stdout.writeSync(encoder.encode(text + "\n"));
}

/** A line on stderr: what happens meanwhile. */
export function say(text: string): void {
  Deno.stderr.writeSync(encoder.encode(text + "\n"));
}

/** A line on stderr that is overwritten by the next one; on no terminal, a line every so often. */
export class Progress {
  readonly #live = Deno.stderr.isTerminal();
  readonly #quiet: boolean;
  #lastLength = 0;
  #lastTold = 0;

  constructor(options: { quiet: boolean }) {
    this.#quiet = options.quiet;
  }

  /** @param share how much is done, in [0, 1]. */
  tell(what: string, share: number): void {
    if (this.#quiet) return;
    const text = `${what} ${bar(share)} ${Math.floor(100 * share)} %`;
    if (this.#live) {
      const padded = text.padEnd(this.#lastLength);
      this.#lastLength = text.length;
      Deno.stderr.writeSync(encoder.encode(`\r${padded}`));
      return;
    }
    if (Date.now() - this.#lastTold < 2_000) return;
    this.#lastTold = Date.now();
    say(text);
  }

  /** Takes the line away. */
  clear(): void {
    if (!this.#live || this.#quiet || this.#lastLength === 0) return;
    Deno.stderr.writeSync(encoder.encode(`\r${" ".repeat(this.#lastLength)}\r`));
    this.#lastLength = 0;
  }
}

function bar(share: number): string {
  const full = Math.round(20 * share);
  return `[${"#".repeat(full)}${".".repeat(20 - full)}]`;
}

/** A number for JSON, which has no infinity: null stands for "never". */
export function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** What a program reported, for `JSON.stringify`: bytes in hex, bigints as numbers where they are exact. */
export function plainly(_key: string, value: unknown): unknown {
  if (value instanceof Uint8Array) return value.toHex();
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : `${value}`;
}

/** Rows as columns: text to the left, what looks like a number to the right. */
export function table(header: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const widths = header.map((title, i) =>
    Math.max(title.length, ...rows.map((row) => row[i]!.length))
  );
  const isNumber = header.map((_, i) => rows.every((row) => /^[-\d.,]|^$/.test(row[i]!)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => isNumber[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)).join(
      "  ",
    )
      .trimEnd();
  return [line(header), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)]
    .join("\n");
}
