import type { AuditEntry } from "../../api/session.ts";
import type { Caller } from "./keys.ts";

const KEPT_MOST = 1_000;
/** The file is begun anew beyond this; the one before stays beside it. */
const FILE_BYTES_MAX = 16 << 20;

export class AuditLog {
  readonly #path: string | undefined;
  readonly #entries: AuditEntry[] = [];
  #count = 0;

  /** @param path a file of the owner's alone; absent: none. */
  constructor(path?: string) {
    this.#path = path;
  }

  add(entry: Omit<AuditEntry, "number">): void {
    const numbered = { number: ++this.#count, ...entry };
    this.#entries.push(numbered);
    if (this.#entries.length > KEPT_MOST) this.#entries.shift();
    this.#write(JSON.stringify(numbered));
  }

  /** A file that a scenario has read. */
  addRead(
    by: Caller | undefined,
    { file, detail }: { readonly file: string; readonly detail: unknown },
  ): void {
    this.add({
      at: new Date().toISOString(),
      session: by?.session ?? "",
      role: by?.role ?? null,
      ...(by !== undefined && { name: by.name }),
      action: "read",
      target: file,
      detail,
      status: 200,
      result: "done",
    });
  }

  entries(): AuditEntry[] {
    return this.#entries.toReversed();
  }

  #write(line: string): void {
    const path = this.#path;
    if (path === undefined) return;
    try {
      using file = Deno.openSync(path, { append: true, create: true, mode: 0o600 });
      const { size } = file.statSync();
      file.writeSync(new TextEncoder().encode(`${line}\n`));
      if (size > FILE_BYTES_MAX) Deno.renameSync(path, `${path}.before`);
    } catch {
      // A full disk: the page shows the entries all the same.
    }
  }
}
