import { ifThere, readInto } from "../../fabric/files/reading.ts";

export { ifThere, readInto };

/** From a byte on; undefined where there is no such file. */
export function textIfThere(path: string, from = 0): string | undefined {
  if (from === 0) return ifThere(() => Deno.readTextFileSync(path));
  return ifThere(() => {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(Math.max(0, file.statSync().size - from));
    file.seekSync(from, Deno.SeekMode.Start);
    return new TextDecoder().decode(bytes.subarray(0, readInto(file, bytes)));
  });
}

/**
 * The whole lines of a file of JSON lines: the last may be being written, a blank one is room for
 * one.
 * @param from the first byte of a line.
 */
export function linesIfThere<T>(path: string, from = 0): T[] {
  const lines = (textIfThere(path, from) ?? "").split("\n").slice(0, -1);
  return lines.filter((line) => line.trim() !== "").map((line) => JSON.parse(line) as T);
}

/** A file of ours does not hold what was written into it: a full disk, or an editor. */
export class DamagedFileError extends Error {
  override readonly name = "DamagedFileError";
}

/**
 * Undefined where there is no such file.
 * @throws DamagedFileError where it is no JSON, or not of the kind that `isOne` knows.
 */
export function jsonIfThere<T>(
  path: string,
  isOne: (value: Partial<Record<keyof T, unknown>>) => boolean,
): T | undefined {
  const text = textIfThere(path);
  return text === undefined ? undefined : jsonIn(text, path, isOne);
}

/**
 * @param place a file or a line of one, for the error.
 * @throws DamagedFileError
 */
export function jsonIn<T>(
  text: string,
  place: string,
  isOne: (value: Partial<Record<keyof T, unknown>>) => boolean = () => true,
): T {
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null && isOne(value)) return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new DamagedFileError(`${place} is damaged: expected what rackmesh has written into it`);
}

/** Writes beside and renames, so that no reader and no full disk sees a part of the file. */
export function writeWhole(path: string, text: string): void {
  const whole = `${path}.${Deno.pid}.new`;
  try {
    Deno.writeTextFileSync(whole, text, { mode: 0o600 });
    Deno.renameSync(whole, path);
  } catch (error) {
    ifThere(() => Deno.removeSync(whole));
    throw error;
  }
}

export function isThere(path: string): boolean {
  return ifThere(() => Deno.statSync(path)) !== undefined;
}
