/**
 * The one door by which a scenario names a file: its data, programs of one's own with what they
 * import, rules, rows of a protocol, binaries. A scenario may be a stranger's text, so it reads only
 * below its own folder, and below those that the command line, or the console for it, names.
 */
import { resolve } from "node:path";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { runsDirectory } from "../base/paths.ts";
import { ifThere } from "../base/files.ts";

export interface Reach {
  /** Where relative paths begin: an absolute path without links. */
  readonly base: string;
  /**
   * More folders below which files may be read. A relative path that `base` has not is looked for
   * there as well.
   */
  readonly allowRead: readonly string[];
  /** Its runs write into their own directories alone; else its captures may go below `base`. */
  readonly isReadOnly?: boolean;
  /** Told of each file that is let through, by its path without links. */
  readonly onRead?: (file: string) => void;
}

/** They hold the credentials of a rack's broker. */
export const SECRET_FILE = /(^|\/)(supervisor\.json|nats-server\.conf)$/;

/** A name of the scenario as an absolute path, which may not be there. */
export function pathOf(name: string, { base, allowRead }: Omit<Reach, "onRead">): string {
  if (name.startsWith("/")) return name;
  const at = (folder: string) => `${folder}/${name.replace(/^(?:\.\/)+/, "")}`;
  return allowRead.map(at).find((path) => statOf(at(base)) === undefined && statOf(path)) ??
    at(base);
}

/**
 * The file of a name, without links.
 * @param name in the scenario, or an absolute path.
 * @param role begins the message: `Program ./x.ts`.
 * @throws Refusal where the file is outside, also by a link, and then whether it is there or not;
 * where it holds credentials; where there is none.
 */
export function admitFile(name: string, reach: Reach, role: string): string {
  const path = pathOf(name, reach);
  const real = ifReadable(() => Deno.realPathSync(path));
  const isInside = real === undefined ? isBelow(resolve(path), reach) : isBelow(real, reach);
  if (!isInside) throw outside(path, reach, role);
  if (real === undefined) {
    throw refusal("", { found: `${role}: cannot find ${path}`, expected: CAN_BE_READ });
  }
  refuseSecret(real, role);
  const stat = statOf(real);
  if (stat?.isFile !== true) {
    throw refusal("", { found: `${role}: ${path} is not a file`, expected: "one" });
  }
  reach.onRead?.(real);
  return real;
}

/**
 * Where a scenario writes to: an absolute path that may not be there yet.
 * @throws Refusal where it is outside of the scenario's own folder, also by a link, and where the
 * scenario is to write nothing.
 */
export function admitTarget(
  name: string,
  { base, isReadOnly = false }: Reach,
  role: string,
): string {
  if (isReadOnly) {
    const found = `${role}: ${name}, and this scenario writes into its run's directory alone`;
    throw refusal("", { found, expected: "true, for that directory" });
  }
  const path = resolve(base === "" ? "/" : base, name);
  const own = { base, allowRead: [] };
  let there = path, rest = "";
  for (; there !== "/"; there = there.replace(/\/[^/]*$/, "") || "/") {
    const real = ifReadable(() => Deno.realPathSync(there));
    if (real !== undefined) {
      if (isBelow(`${real}${rest}/`, own)) return path + (name.endsWith("/") ? "/" : "");
      break;
    }
    rest = there.slice(there.lastIndexOf("/")) + rest;
  }
  throw refusal("", {
    found: `${role}: ${path} is outside of the folder that this scenario writes to (${base})`,
    expected: "a place below it, or the command's own option for it",
  });
}

/**
 * The folders that a command has to name to read what the scenario of a file may read: `base` may be
 * elsewhere.
 */
export function allowedBeside({ path, base, allowRead }: Reach & { readonly path: string }) {
  const real = ifReadable(() => Deno.realPathSync(path));
  const own = real === undefined ? undefined : real.slice(0, real.lastIndexOf("/"));
  return [...new Set([...(own === base || base === "" ? [] : [base]), ...allowRead])];
}

const CAN_BE_READ = "a file that can be read";

/** @throws Refusal for a file with credentials, whoever names it. @param real without links. */
export function refuseSecret(real: string, role: string): void {
  if (!SECRET_FILE.test(real) || !real.startsWith(`${runsDirectory()}/`)) return;
  const found = `${role}: ${real} has the credentials of a rack's broker`;
  throw refusal("", { found, expected: "another file: no run gets a copy of it" });
}

/** @param real an absolute path without links. */
export function isBelow(real: string, { base, allowRead }: Omit<Reach, "onRead">): boolean {
  return [base, ...allowRead].some((folder) => {
    const root = ifReadable(() => Deno.realPathSync(folder === "" ? "/" : folder)) ?? folder;
    return real.startsWith(root.endsWith("/") ? root : `${root}/`);
  });
}

export function outside(path: string, { base, allowRead }: Reach, role: string) {
  const folders = [base === "" ? "/" : base, ...allowRead].join(", ");
  const folder = path.replace(/\/[^/]*$/, "") || "/";
  return refusal("", {
    found: `${role}: ${path} is outside of what this scenario may read (${folders})`,
    expected: `a file below it, or --allow-read ${folder}`,
  });
}

function statOf(path: string): Deno.FileInfo | undefined {
  return ifReadable(() => Deno.statSync(path));
}

/** What cannot be looked at counts as absent. */
function ifReadable<T>(read: () => T): T | undefined {
  try {
    return ifThere(read);
  } catch (error) {
    const isClosed = error instanceof Deno.errors.PermissionDenied ||
      error instanceof Deno.errors.FilesystemLoop ||
      (error instanceof Error && "code" in error && error.code === "ENAMETOOLONG");
    if (isClosed || error instanceof TypeError) return undefined;
    throw error;
  }
}
