/** The lines of a program's output, whose bytes come in pieces. */
export class Lines {
  /** The last whole line that is not empty. */
  last: string | undefined;
  readonly #show: (line: string) => void;
  readonly #decoder = new TextDecoder();
  #rest = "";

  constructor(show: (line: string) => void) {
    this.#show = show;
  }

  take(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) this.#line(line);
  }

  /** Shows a last line without its end. */
  end(): void {
    const rest = this.#rest + this.#decoder.decode();
    this.#rest = "";
    if (rest !== "") this.#line(rest);
  }

  #line(line: string): void {
    if (line.trim() !== "") this.last = line;
    this.#show(line);
  }
}
