/**
 * Credentials of racks' brokers in the files and the logs of a run that the console hands out, whichever
 * way they have got there: a copy that a user gave to the run as its input, a line that a program has
 * printed. They are found by what they are, and the same number of `*` goes out. An upload goes out as
 * it came in; the door for reading (`read_door.ts`) lets no credentials into a run.
 */
import { ifThere } from "../base/files.ts";
import { listRuns } from "../rack/run_directory.ts";
import { SECRET_FILE } from "../scenarios/read_door.ts";

const WORD = /(?:password|token|creds|nkey|seed)"?\s*[:=]\s*"((?:[^"\\]|\\.)+)"/gi;
/** A shorter one would be found in files that have nothing of it; ours have 48 letters. */
export const LETTERS_LEAST = 8;
const DEPTH_MAX = 4;

/** Of the racks that are up, and of a run that may have ended. */
export async function secretsOf(run: string): Promise<readonly string[]> {
  const rows = (await listRuns()).filter(({ id, up, isForeign }) =>
    !isForeign && (up || id === run)
  );
  const words = rows.flatMap(({ path }) => [...secretsIn(path, DEPTH_MAX)]);
  // The longest first: one may begin another.
  return [...new Set(words)].sort((x, y) => y.length - x.length);
}

function* secretsIn(folder: string, depth: number): Generator<string> {
  for (const { name, isFile, isDirectory } of ifThere(() => [...Deno.readDirSync(folder)]) ?? []) {
    const path = `${folder}/${name}`;
    if (isDirectory && depth > 0) yield* secretsIn(path, depth - 1);
    if (!isFile || !SECRET_FILE.test(path)) continue;
    const text = ifThere(() => Deno.readTextFileSync(path)) ?? "";
    for (const [, word] of text.matchAll(WORD)) {
      const plain = word!.replaceAll(/\\(.)/g, "$1");
      if (plain.length >= LETTERS_LEAST) yield plain;
    }
  }
}

export function hideSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((left, word) => left.replaceAll(word, "*".repeat(word.length)), text);
}

/** For a file of any size: a word may lie across two chunks. */
export function hidingSecrets(
  secrets: readonly string[],
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const words = secrets.map((word) => new TextEncoder().encode(word));
  const longest = Math.max(0, ...words.map(({ length }) => length));
  let held = new Uint8Array();
  return new TransformStream({
    transform(chunk, controller) {
      const all = new Uint8Array(held.length + chunk.length);
      all.set(held);
      all.set(chunk, held.length);
      for (const word of words) hide(all, word);
      const out = Math.max(0, all.length - Math.max(0, longest - 1));
      controller.enqueue(all.subarray(0, out));
      held = all.slice(out);
    },
    flush: (controller) => controller.enqueue(held),
  });
}

const STAR = 0x2a;

function hide(bytes: Uint8Array, word: Uint8Array): void {
  const [first] = word;
  for (let at = bytes.indexOf(first!); at >= 0; at = bytes.indexOf(first!, at + 1)) {
    if (word.every((byte, i) => bytes[at + i] === byte)) bytes.fill(STAR, at, at + word.length);
  }
}
