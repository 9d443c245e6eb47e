/** A seed that no one has chosen: drawn from the commit, so that every commit tries others. */
import { ROOT } from "../../console/base/paths.ts";

function readText(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}

/** The commit's hash; undefined in a copy without its history. */
function commitHash(): string | undefined {
  const head = readText(`${ROOT}/.git/HEAD`)?.trim();
  if (head === undefined || !head.startsWith("ref: ")) return head;
  const ref = head.slice("ref: ".length);
  const packed = readText(`${ROOT}/.git/packed-refs`)?.split("\n");
  return readText(`${ROOT}/.git/${ref}`)?.trim() ??
    packed?.find((line) => line.endsWith(` ${ref}`))?.split(" ")[0];
}

/** The first 32 bits of the hash, or a constant where there is none. */
function drawnSeed(): number {
  const hash = commitHash() ?? "";
  return /^[0-9a-f]{40,}$/.test(hash) ? parseInt(hash.slice(0, 8), 16) : 0x5eed;
}

/** The seed that `RACKMESH_TEST_SEED` names, to try it again; undefined where it names none. */
export function givenSeed(): number | undefined {
  const given = Deno.env.get("RACKMESH_TEST_SEED");
  return given === undefined ? undefined : Number(given);
}

export function commitSeed(): number {
  return givenSeed() ?? drawnSeed();
}
