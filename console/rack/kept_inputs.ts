/**
 * What a run was given is kept with it: the user may change or remove the file, and the run is replayed, a
 * process of it started again, and its report made, all the same.
 */
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { Prepared } from "./prepare.ts";

/** Copies of a run take so much of the disk at most, as the content of its orders does. */
export const INPUT_BYTES_MAX = 1 << 30;

/**
 * The same variants with copies of their input files in `<directory>/inputs`, one for each file, owner's alone.
 * What is beyond `most` bytes in all stays where it is: the run's replay then needs it there, unchanged.
 * @throws Refusal where a file cannot be copied.
 */
export async function keepInputs<Variant extends Pick<Prepared, "inputs">>(
  variants: readonly Variant[],
  directory: string,
  { most = INPUT_BYTES_MAX }: { readonly most?: number } = {},
): Promise<Variant[]> {
  const kept = new Map<string, string>();
  const paths = new Set(
    variants.flatMap(({ inputs }) =>
      Object.values(inputs).flatMap((files) => Object.values(files))
    ),
  );
  let left = most;
  for (const path of paths) {
    const { size } = await Deno.stat(path);
    if (size > left) continue;
    left -= size;
    const name = path.replace(/.*\//, "").replaceAll(/[^\w.-]/g, "_");
    const to = `${directory}/inputs/${kept.size}-${name}`;
    await copy(path, to);
    kept.set(path, to);
  }
  return variants.map((variant) => ({ ...variant, inputs: atCopies(variant.inputs, kept) }));
}

async function copy(from: string, to: string): Promise<void> {
  try {
    await Deno.mkdir(to.replace(/\/[^/]*$/, ""), { recursive: true, mode: 0o700 });
    await Deno.copyFile(from, to);
    await Deno.chmod(to, 0o600);
  } catch (cause) {
    const found = `Cannot keep a copy of ${from} with the run: ${(cause as Error).message}`;
    throw refusal("", { found, cause });
  }
}

function atCopies(inputs: Prepared["inputs"], kept: ReadonlyMap<string, string>) {
  return Object.fromEntries(
    Object.entries(inputs).map(([host, files]) => {
      const entries = Object.entries(files).map(([name, path]) => [name, kept.get(path) ?? path]);
      return [host, Object.fromEntries(entries)];
    }),
  );
}
