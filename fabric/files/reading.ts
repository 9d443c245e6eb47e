/** Reading files that may not be there. */

/** Undefined where the file of `read`, or a folder of its path, does not exist. */
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

/** Reads until the buffer is full or the file ends; returns the number of bytes. */
export function readInto(file: Deno.FsFile, buffer: Uint8Array): number {
  let length = 0;
  while (length < buffer.length) {
    const count = file.readSync(buffer.subarray(length));
    if (count === null) break;
    length += count;
  }
  return length;
}
