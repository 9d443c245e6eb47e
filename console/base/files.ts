/** Files that may not exist. */

/** The result of `read`; undefined where its file, or a folder of its path, does not exist. */
export function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory;
    if (isMissing) return undefined;
    throw error;
  }
}

/** The text of a file; undefined where there is no such file. */
export function textIfThere(path: string): string | undefined {
  return ifThere(() => Deno.readTextFileSync(path));
}

/** The value of a JSON file; undefined where there is no such file. */
export function jsonIfThere<T>(path: string): T | undefined {
  const text = textIfThere(path);
  return text === undefined ? undefined : JSON.parse(text);
}

export function isThere(path: string): boolean {
  return ifThere(() => Deno.statSync(path)) !== undefined;
}

/** Reads until the buffer is full or the file ends. @returns the number of bytes. */
export function readInto(file: Deno.FsFile, buffer: Uint8Array): number {
  let length = 0;
  while (length < buffer.length) {
    const count = file.readSync(buffer.subarray(length));
    if (count === null) break;
    length += count;
  }
  return length;
}
