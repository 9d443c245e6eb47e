/** The binaries of native programs: found as a shell finds them, and refused where the library cannot be preloaded. */
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { executableInPath, foldersOfPath, isExecutable } from "../../base/executables.ts";
import { ifThere } from "../../base/files.ts";
import { sha256 } from "../../base/sha256.ts";
import { admitFile, type Reach } from "../../scenarios/read_door.ts";

export interface Binary {
  /** Absolute, without links. */
  readonly file: string;
  readonly sha256: string;
}

/**
 * @param run its name, looked up in PATH, or its path, also of one in a folder of PATH.
 * @throws Refusal where it is not there, the scenario may not read it, or it cannot run with a
 * preloaded library.
 */
export async function findBinary(
  run: string,
  { reach, on }: { readonly reach: Reach; readonly on: string },
): Promise<Binary> {
  const who = `Program ${run} on ${on}`;
  const file = isInPath(run)
    ? realFile(run)
    : run.includes("/")
    ? admitFile(run, reach, who)
    : executableInPath(run);
  if (file === undefined) {
    throw refusal("", { found: `${who} is not there`, expected: inPath(run) });
  }
  const refused = await problemOf(file);
  if (refused !== undefined) {
    const found = `${who} (${file}) ${refused}`;
    throw refusal("", { found, expected: "a dynamic program for x86-64 Linux and glibc" });
  }
  return { file, sha256: await sha256(await Deno.readFile(file)) };
}

/** Debian's packages with programs over verbs, by how their names begin. */
const PACKAGES: readonly (readonly [prefix: RegExp, name: string])[] = [
  [/^(ib_|raw_ethernet_)/, "perftest"],
  [/^ibv_/, "ibverbs-utils"],
  [/^(rping|ucmatose|udaddy|mckey|cmtime|rstream|rcopy|riostream|rdma_)/, "rdmacm-utils"],
];

function inPath(run: string): string {
  const [, name] = PACKAGES.find(([prefix]) => prefix.test(run)) ?? [];
  return name === undefined ? "a program in PATH" : `it in PATH: Debian's package ${name} has it`;
}

/** As good as its name alone: what PATH has is no secret of a user's. */
function isInPath(path: string): boolean {
  return foldersOfPath().some((folder) => path === `${folder}/${path.replace(/.*\//, "")}`);
}

function realFile(path: string): string | undefined {
  const real = ifThere(() => Deno.realPathSync(path));
  return real !== undefined && Deno.statSync(real).isFile ? real : undefined;
}

const SET_ID = 0o6000;
/** Of an ELF file's head: class and order of bytes, type, machine; place, size and number of program headers. */
const IDENT = [0x7f, 0x45, 0x4c, 0x46, 2, 1];
const TYPE_AT = 16, MACHINE_AT = 18, HEADERS_AT = 32, HEADER_BYTES_AT = 54, HEADERS_COUNT_AT = 56;
const EXECUTABLE = 2, SHARED = 3, X86_64 = 62, HEAD_BYTES = 64, INTERPRETER = 3;
const GLIBC = "ld-linux-x86-64.so.2";

/** Why the library cannot be preloaded into it; undefined where it can. */
async function problemOf(file: string): Promise<string | undefined> {
  if (!isExecutable(file)) return "is not executable";
  // The loader of such a program preloads nothing of the user's.
  if (((Deno.statSync(file).mode ?? 0) & SET_ID) !== 0) return "is setuid or setgid";
  const head = await bytesAt(file, { at: 0, length: HEAD_BYTES });
  if (head === undefined || IDENT.some((byte, i) => head.getUint8(i) !== byte)) {
    return isScript(head) ? "is a script" : "is no 64-bit ELF file";
  }
  const type = head.getUint16(TYPE_AT, true);
  if (head.getUint16(MACHINE_AT, true) !== X86_64) return "is not for x86-64";
  if (type !== EXECUTABLE && type !== SHARED) return "is no program";
  const interpreter = await interpreterOf(file, head);
  if (interpreter === undefined) return "is statically linked";
  return interpreter.endsWith(`/${GLIBC}`)
    ? undefined
    : `is for another C library (${interpreter})`;
}

function isScript(head: DataView | undefined): boolean {
  return head?.getUint8(0) === 0x23 && head.getUint8(1) === 0x21;
}

/** The path of its loader. */
async function interpreterOf(file: string, head: DataView): Promise<string | undefined> {
  const bytes = head.getUint16(HEADER_BYTES_AT, true);
  const first = Number(head.getBigUint64(HEADERS_AT, true));
  for (let i = 0; i < head.getUint16(HEADERS_COUNT_AT, true); i++) {
    const header = await bytesAt(file, { at: first + i * bytes, length: bytes });
    if (header?.getUint32(0, true) !== INTERPRETER) continue;
    const at = Number(header.getBigUint64(8, true)), length = Number(header.getBigUint64(32, true));
    const path = await bytesAt(file, { at, length });
    return path && new TextDecoder().decode(path).replace(/\0.*$/, "");
  }
  return undefined;
}

async function bytesAt(
  file: string,
  { at, length }: { readonly at: number; readonly length: number },
): Promise<DataView | undefined> {
  using open = await Deno.open(file);
  const bytes = new Uint8Array(length);
  await open.seek(at, Deno.SeekMode.Start);
  for (let have = 0; have < length;) {
    const count = await open.read(bytes.subarray(have));
    if (count === null) return undefined;
    have += count;
  }
  return new DataView(bytes.buffer);
}
