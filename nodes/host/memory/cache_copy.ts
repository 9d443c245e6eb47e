/**
 * Copies between ranges of memory and the LLC. Lines that lie one behind the other in the cache, too,
 * are copied together.
 */
import { LINE_BYTES, type Llc } from "./llc.ts";

/** A range that begins `inLine` bytes into a line. */
export interface LineRange {
  readonly line: number;
  readonly inLine: number;
}

/** Writes `bytes` into the LLC, which makes room; their lines are dirty then. */
export function writeIntoCache(
  llc: Llc,
  { line, inLine }: LineRange,
  write: { readonly bytes: Uint8Array; readonly by: "core" | "dma" },
): void {
  const { bytes } = write;
  const whole = write.by === "core" ? CORE_WHOLE : DMA_WHOLE;
  const part = write.by === "core" ? CORE_FILL : DMA_FILL;
  let done = 0, next = line, skip = inLine;
  // Copied together only as long as they are of different sets: so none of them makes room for a later
  // one before its bytes are there.
  const most = (llc.sets - 2) * LINE_BYTES;
  let from = 0, start = 0, end = 0;
  while (done < bytes.length) {
    if (done - from > most) {
      llc.data.set(bytes.subarray(from, done), start);
      from = done;
      end = -1;
    }
    const length = Math.min(LINE_BYTES - skip, bytes.length - done);
    const slot = llc.access(next++, length === LINE_BYTES ? whole : part);
    llc.markDirty(slot);
    const at = llc.at(slot) + skip;
    skip = 0;
    if (at !== end) {
      if (done > from) llc.data.set(bytes.subarray(from, done), start);
      from = done;
      start = at;
    }
    end = at + length;
    done += length;
  }
  if (done > from) llc.data.set(from === 0 ? bytes : bytes.subarray(from), start);
}

/** Lays the dirty lines of the range over what memory has of it, in `data`. */
export function overlayDirty(llc: Llc, { line: first, inLine }: LineRange, data: Uint8Array): void {
  const last = first + Math.floor((inLine + data.length - 1) / LINE_BYTES);
  if (llc.isAbsent(first, last)) return;
  // `shift` leads from lines' place in `data` to that in the cache; those before `done` are copied.
  let done = 0, end = 0, shift = 0;
  for (let line = first; line <= last; line++) {
    const slot = llc.find(line);
    const isDirty = slot >= 0 && llc.isDirty(slot);
    const from = (line - first) * LINE_BYTES - inLine;
    const at = isDirty ? llc.at(slot) - from : NaN;
    if (at !== shift) {
      if (end > done) data.set(llc.data.subarray(done + shift, end + shift), done);
      done = Math.max(0, from);
      shift = at;
    }
    end = isDirty ? Math.min(data.length, from + LINE_BYTES) : 0;
  }
  if (end > done) data.set(llc.data.subarray(done + shift, end + shift), done);
}

/** An access of a core that needs the line's bytes. */
export const CORE_FILL = { by: "core", fill: true } as const;
const CORE_WHOLE = { by: "core", fill: false } as const;
const DMA_FILL = { by: "dma", fill: true } as const;
const DMA_WHOLE = { by: "dma", fill: false } as const;
