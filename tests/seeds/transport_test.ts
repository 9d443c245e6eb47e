/**
 * The property test of the transport (`nodes/rnic/property_test.ts`) with seeds that no one has chosen:
 * drawn from the commit, so that every commit tries others. `RACKMESH_TEST_SEED` names one to try again.
 */
import { describe, it } from "@std/testing/bdd";
import { checkSeed } from "../../nodes/rnic/testing/program_seed_testing.ts";
import { ROOT } from "../../console/base/paths.ts";

/** Seeds that follow the one drawn. */
const SEEDS = 100;

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

const given = Deno.env.get("RACKMESH_TEST_SEED");

describe("the transport with seeds drawn from the commit", () => {
  const first = given === undefined ? drawnSeed() : Number(given);
  const count = given === undefined ? SEEDS : 1;
  it(`P-28, P-30, P-31: ${count} from ${first} on end as without faults, or in an error`, () => {
    for (let i = 0; i < count; i++) checkSeed(first + i);
  });
});
