/** The timekeeper's records, a line of JSON each, written whole or not at all. */
import { RecordError } from "./record.ts";

/** What a timekeeper leaves in the run's directory (`timekeeper_main.ts`). */
export const RECORD_FILES: readonly string[] = [
  "clock.json",
  "faults.jsonl",
  "inexact.jsonl",
  "orders",
  "orders.jsonl",
  "orders.settled",
  "planned.jsonl",
  "timekeeper.term",
];

export function readIfThere(path: string, from = 0): string {
  try {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(Math.max(file.statSync().size - from, 0));
    file.seekSync(from, Deno.SeekMode.Start);
    for (let at = 0; at < bytes.length;) at += file.readSync(bytes.subarray(at)) ?? bytes.length;
    return new TextDecoder().decode(bytes);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/**
 * From a byte on at which a line begins. An incomplete last line has had no effect and is removed.
 */
export function readLines<T>(path: string, from = 0): T[] {
  const text = readIfThere(path, from);
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole !== text) Deno.truncateSync(path, from + new TextEncoder().encode(whole).length);
  // A blank line is reserved, unused room.
  const lines = whole.split("\n").filter((line) => line.trim() !== "");
  return lines.map((line) => JSON.parse(line) as T);
}

/** A full disk loses only lines of a log. */
export function appendText(path: string, text: string): void {
  try {
    Deno.writeTextFileSync(path, `${text}\n`, { append: true, mode: 0o600 });
  } catch {
    // The line is lost.
  }
}

/** All of the line or nothing. @throws RecordError */
export function appendLine(path: string, value: unknown): void {
  append(path, JSON.stringify(value));
}

/** @returns the begin of the line. @throws RecordError */
export function append(path: string, text: string): number {
  return recorded(path, () => {
    using file = Deno.openSync(path, { create: true, append: true, mode: 0o600 });
    const { size } = file.statSync();
    const line = new TextEncoder().encode(text + "\n");
    try {
      for (let at = 0; at < line.length;) at += file.writeSync(line.subarray(at));
    } catch (error) {
      file.truncateSync(size);
      throw error;
    }
    return size;
  });
}

/** @throws RecordError for an error of the file system. */
export function recorded<T>(path: string, write: () => T): T {
  try {
    return write();
  } catch (cause) {
    throw new RecordError(`Cannot write ${path}: ${(cause as Error).message}`, { cause });
  }
}
