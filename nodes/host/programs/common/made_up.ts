/** Data for a `put` without a file. */
import { rngFor } from "../../../../fabric/base/rng.ts";

export const MADE_UP = "made-up";

/** A function of length and name, so that a checker can compute it. */
export function madeUpBytes(length: number, name: string): Uint8Array<ArrayBuffer> {
  const rng = rngFor(length, name);
  const words = new Uint32Array(Math.ceil(length / 4));
  for (let i = 0; i < words.length; i++) words[i] = rng.next();
  return new Uint8Array(words.buffer, 0, length);
}
