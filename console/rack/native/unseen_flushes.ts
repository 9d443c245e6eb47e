/** How many instructions of a binary, and of its libraries that are no system's, flush unseen. */
import { ifThere } from "../../base/files.ts";
import { flushesIn } from "./flush_instructions.ts";

/** Libraries of the system: the C library copies large blocks by non-temporal stores, libpmem is replaced. */
const SYSTEM = /^(\/usr)?\/lib(32|64|x32)?\//;

/**
 * @param file an ELF file of 64 bits.
 * @param env of the program: its LD_LIBRARY_PATH counts.
 */
export function unseenFlushes(file: string, env: Readonly<Record<string, string>>): number {
  const given = (env["LD_LIBRARY_PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const done = new Set<string>(), due = [file];
  let count = 0;
  for (let path = due.pop(); path !== undefined; path = due.pop()) {
    if (done.has(path)) continue;
    done.add(path);
    const elf = elfOf(Deno.readFileSync(path));
    if (elf === undefined) continue;
    for (const code of elf.code) count += flushesIn(code);
    const origin = path.replace(/\/[^/]*$/, "");
    const own = elf.folders.map((folder) => folder.replace(/\$(ORIGIN|\{ORIGIN\})/, origin));
    for (const name of elf.needed) {
      const paths = name.includes("/")
        ? [name]
        : [...own, ...given, "/usr/local/lib"].map((folder) => `${folder}/${name}`);
      const found = paths.map((each) => ifThere(() => Deno.realPathSync(each)))
        .find((each) => each !== undefined);
      if (found !== undefined && !SYSTEM.test(found)) due.push(found);
    }
  }
  return count;
}

interface Elf {
  readonly code: readonly Uint8Array[];
  /** Names of libraries, and the folders of its own in which they are looked for. */
  readonly needed: readonly string[];
  readonly folders: readonly string[];
}

/** Words of a section's header (elf(5), Elf64_Shdr) and of an entry of the dynamic section. */
const SECTION = { type: 4, flags: 8, offset: 24, size: 32, link: 40 } as const;
const SECTIONS_AT = 40, SECTION_BYTES_AT = 58, SECTIONS_COUNT_AT = 60;
const PROGBITS = 1, DYNAMIC = 6, EXECUTABLE = 4;
const NEEDED = 1, RPATH = 15, RUNPATH = 29, ENTRY_BYTES = 16;

/** Undefined where it is no such file, or has no section headers. */
function elfOf(bytes: Uint8Array): Elf | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 64 || view.getUint32(0) !== 0x7f454c46 || bytes[4] !== 2) return undefined;
  const word = (at: number) => Number(view.getBigUint64(at, true));
  const first = word(SECTIONS_AT), size = view.getUint16(SECTION_BYTES_AT, true);
  const headers = Array.from(
    { length: view.getUint16(SECTIONS_COUNT_AT, true) },
    (_, i) => first + i * size,
  ).filter((at) => at + SECTION.link + 4 <= bytes.length);
  const partOf = (at: number) => {
    const from = word(at + SECTION.offset);
    return bytes.subarray(from, from + word(at + SECTION.size));
  };
  const typeOf = (at: number) => view.getUint32(at + SECTION.type, true);
  const code = headers.filter((at) =>
    typeOf(at) === PROGBITS && (word(at + SECTION.flags) & EXECUTABLE) !== 0
  ).map(partOf);
  const needed: string[] = [], folders: string[] = [];
  for (const at of headers.filter((at) => typeOf(at) === DYNAMIC)) {
    const texts = headers[view.getUint32(at + SECTION.link, true)];
    if (texts === undefined) continue;
    const names = partOf(texts), entries = partOf(at);
    const from = entries.byteOffset - bytes.byteOffset;
    for (let entry = 0; entry + ENTRY_BYTES <= entries.length; entry += ENTRY_BYTES) {
      const tag = word(from + entry), text = textAt(names, word(from + entry + 8));
      if (tag === NEEDED) needed.push(text);
      else if (tag === RPATH || tag === RUNPATH) folders.push(...text.split(":"));
    }
  }
  return { code, needed, folders };
}

function textAt(names: Uint8Array, at: number): string {
  const end = names.indexOf(0, at);
  return new TextDecoder().decode(names.subarray(at, end < 0 ? undefined : end));
}
