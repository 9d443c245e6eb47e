/**
 * The library that is preloaded into native programs, built by the machine's C compiler once: it is
 * kept in the user's cache by what it was made from.
 */
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { requestsHeader } from "../../../nodes/host/native/header.ts";
import { isThere } from "../../base/files.ts";
import { cacheFolder, fromFileUrl, projectFile } from "../../base/paths.ts";
import { sha256 } from "../../base/sha256.ts";
import { RackError } from "../../base/rack_error.ts";

const SOURCES = "nodes/host/native/lib";
const COMPILER = "cc";
const FLAGS = [
  "-std=gnu11",
  "-O2",
  "-fPIC",
  "-shared",
  // Its constructor runs before those of the program's libraries.
  "-Wl,-z,initfirst",
  // The loader resolves no function on the program's stack when it is first called: that leaves much there.
  "-Wl,-z,now",
  "-Wall",
  "-Wextra",
  "-Werror",
];
const LIBRARIES = ["-ldl", "-lpthread"];
/** What `scripts/setup.sh` installs, too. */
const PACKAGES = "gcc, libc6-dev and libibverbs-dev";
const EXPECTED = `Debian's packages ${PACKAGES}, which scripts/rack installs where it may ` +
  "(as root, or by a sudo that asks nothing) for a scenario with native programs";

export interface BuildOptions {
  /** Called before the compiler starts, where there is something to build. */
  readonly onBuild?: (() => void) | undefined;
  /** Of the compiler, besides those of every library: for checkers of memory. */
  readonly flags?: readonly string[];
}

/**
 * The path of the library, which is built if it is not in the cache.
 * @throws Refusal without a compiler or libibverbs' headers; RackError where it does not compile.
 */
export async function nativeLibrary(
  { onBuild, flags: more = [] }: BuildOptions = {},
): Promise<string> {
  const flags = [...FLAGS, ...more];
  const folder = fromFileUrl(projectFile(SOURCES));
  const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  const texts = names.map((name) => Deno.readTextFileSync(`${folder}/${name}`));
  const header = requestsHeader(), version = await compilerVersion();
  const made = JSON.stringify([names, texts, header, version, flags, LIBRARIES]);
  const hash = await sha256(new TextEncoder().encode(made));
  const cache = cacheFolder("native"), library = `${cache}/librackmesh-${hash.slice(0, 16)}.so`;
  if (isThere(library)) return library;
  onBuild?.();
  // Two commands may build at once: each in a folder of its own, and the last one's result stays.
  await Deno.mkdir(cache, { recursive: true, mode: 0o700 });
  const work = await Deno.makeTempDir({ dir: cache, prefix: "build-" });
  try {
    await Deno.writeTextFile(`${work}/requests.h`, header);
    const sources = names.filter((name) => name.endsWith(".c")).map((name) => `${folder}/${name}`);
    await compile([...flags, `-I${work}`, "-o", `${work}/library`, ...sources, ...LIBRARIES]);
    await Deno.rename(`${work}/library`, library);
  } finally {
    await Deno.remove(work, { recursive: true });
  }
  return library;
}

async function compilerVersion(): Promise<string> {
  try {
    const { stdout } = await new Deno.Command(COMPILER, { args: ["--version"], stdin: "null" })
      .output();
    return new TextDecoder().decode(stdout);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    const found = "Native programs need a C compiler, which is not here";
    throw refusal("", { found, expected: EXPECTED, cause });
  }
}

async function compile(args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(COMPILER, {
    args: [...args],
    env: { LC_ALL: "C" },
    stdin: "null",
  }).output();
  if (success) return;
  const said = new TextDecoder().decode(stderr);
  if (/infiniband\/verbs\.h: No such file/.test(said)) {
    const found = "Native programs need infiniband/verbs.h, which is not here";
    throw refusal("", { found, expected: EXPECTED });
  }
  throw new RackError(`Cannot build the library of native programs:\n${said.trimEnd()}`);
}
