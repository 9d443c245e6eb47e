/**
 * The files that native programs load, for a machine that has only those: binaries, the library in
 * them, what their loader names (`ldd`), what is opened by name, and the few commands that start them.
 */
import { normalize } from "node:path";
import { nativeIn, type NativePlan, type RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { NATIVE_COMMANDS } from "../../../nodes/native_process.ts";
import { ifThere } from "../../base/files.ts";
import { executableInPath } from "../../base/executables.ts";

/** The loader of glibc, by the path that is in each program (System V ABI, AMD64 supplement). */
const LOADER = "/lib64/ld-linux-x86-64.so.2";
const C_LIBRARY = "libc.so.6";
/**
 * Of glibc 2.36's build: each works with the C library of its own build alone, and a program that is
 * already there may load one that no native program does.
 */
const OF_C_LIBRARY = [
  ...["libm.so.6", "libmvec.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"],
  ...[
    "libresolv.so.2",
    "libanl.so.1",
    "libnss_files.so.2",
    "libnss_dns.so.2",
    "libnss_compat.so.2",
  ],
];
/** A library that loads all of a folder beside it by `dlopen`: UCX's transports, libfabric's providers. */
const MODULES: readonly (readonly [library: RegExp, folder: string])[] = [
  [/^libucs\.so/, "ucx"],
  [/^libfabric\.so/, "libfabric"],
];
/**
 * Where libraries are: which path one is found by, and how much of the address space the search takes,
 * is the same with the same cache. And the locale of native programs, C.UTF-8.
 */
const BY_NAME = ["/etc/ld.so.cache", "/usr/lib/locale/C.utf8"];
const COMMANDS_FOLDER = "/usr/bin";

/**
 * Path of each file there → where it is here. A link is its file: the loader goes by names.
 * @param library that is preloaded.
 * @throws Refusal where a program's libraries are not all here.
 */
export async function nativeFiles(
  plan: RackPlan,
  { library }: { readonly library: string },
): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const add = (path: string, from = path) => void files.set(path, from);
  const addWith = async (file: string, env: Readonly<Record<string, string>>, at = file) => {
    add(at, file);
    for (const path of await loadedBy(file, env)) await addLibrary(path, env);
  };
  const addLibrary = async (path: string, env: Readonly<Record<string, string>>) => {
    if (files.has(path)) return;
    add(path);
    const [, folder, name] = /^(.*)\/([^/]+)$/.exec(path)!;
    if (name === C_LIBRARY) OF_C_LIBRARY.forEach((other) => addIfThere(`${folder}/${other}`));
    const modules = MODULES.find(([library]) => library.test(name!))?.[1];
    if (modules === undefined) return;
    for (const module of filesBelow(`${folder}/${modules}`)) await addWith(module, env);
  };
  const addIfThere = (path: string) => filesBelow(path).forEach((file) => add(file));
  for (const { program: { native } } of nativeIn(plan)) {
    await addWith(native.file, searchOf(native));
    filesNamedBy(native).forEach((file) => add(file));
  }
  await addWith(library, {});
  for (const command of NATIVE_COMMANDS) {
    const file = executableInPath(command);
    if (file === undefined) {
      const expected = `it in PATH: Debian's packages dash and coreutils have it`;
      throw refusal("", {
        found: `${command}, which starts native programs, is not there`,
        expected,
      });
    }
    await addWith(file, {}, `${COMMANDS_FOLDER}/${command}`);
  }
  BY_NAME.forEach(addIfThere);
  return files;
}

/** What of a program's environment its loader heeds. */
function searchOf({ env }: NativePlan): Record<string, string> {
  const { LD_LIBRARY_PATH } = env;
  return LD_LIBRARY_PATH === undefined ? {} : { LD_LIBRARY_PATH };
}

/** Arguments that are paths of files, as a job's. */
function filesNamedBy({ argv }: NativePlan): string[] {
  return argv.slice(1).filter((word) =>
    word.startsWith("/") && ifThere(() => Deno.statSync(word))?.isFile === true
  ).map((word) => normalize(word));
}

/** Paths of all files of a folder; of a file, itself. */
function filesBelow(path: string): string[] {
  const found = ifThere(() => Deno.statSync(path));
  if (found === undefined) return [];
  if (found.isFile) return [path];
  return [...Deno.readDirSync(path)].map(({ name }) => `${path}/${name}`).sort().flatMap(
    filesBelow,
  );
}

/**
 * Paths of the libraries of a program or a library, as its loader finds them: nothing of it is run.
 * @throws Refusal
 */
async function loadedBy(
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const { success, stdout, stderr } = await new Deno.Command(LOADER, {
    args: ["--list", file],
    clearEnv: true,
    env: { ...env, LC_ALL: "C" },
    stdin: "null",
  }).output();
  if (!success) {
    const [said = ""] = new TextDecoder().decode(stderr).trim().split("\n");
    throw refusal("", {
      found: `${file} cannot be loaded here: ${said}`,
      expected: "a program with all of its libraries",
    });
  }
  return librariesIn(new TextDecoder().decode(stdout), file);
}

/**
 * Absolute paths in the output of `ldd`.
 * @throws Refusal where a library is not found, or found by the current folder.
 */
export function librariesIn(text: string, file: string): string[] {
  return text.split("\n").flatMap((line) => {
    const [, name, path = name] = /^\s+(\S+)(?: => (.+?))?(?: \(0x[0-9a-f]+\))?$/.exec(line) ?? [];
    // The kernel's own has no file.
    if (name === undefined || path === undefined || name.startsWith("linux-vdso.so")) return [];
    if (path.startsWith("/")) return [normalize(path)];
    const found = `${file} loads ${name}, which is ${path === "not found" ? path : `at ${path}`}`;
    throw refusal("", { found, expected: "a library with an absolute path" });
  });
}
