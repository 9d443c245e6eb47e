/**
 * Persistent memory of a native program: the files below `/scm` are the named regions of its host's
 * SCM. What is persistent is the model's to say, so the process has a private copy of a file that it
 * maps: its stores come as requests, as the stores of its core, and the card's writes go there when
 * they are visible.
 */
// deno-lint-ignore-file require-yield -- handlers have one form
import { verbError } from "../verbs/errors.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { DRAM_PAGE_BYTES, SCM_BASE } from "../memory/address_map.ts";
import type { VerbError } from "../verbs/objects.ts";
import type { Handlers } from "./control_requests.ts";
import type { NativeError, NativeObjects } from "./native_objects.ts";

/** A file: part of SCM, from its first byte. */
interface ScmFile {
  readonly at: number;
  readonly bytes: number;
}

/**
 * The file of a name. Where the scenario names no regions, each name is the whole SCM.
 * @param regions `options.regions` of the program.
 */
function scmFile(
  name: string,
  { regions, scmBytes }: { readonly regions: unknown; readonly scmBytes: number },
): ScmFile | NativeError {
  const known = Object(regions) as Readonly<Record<string, ScmFile>>;
  const names = Object.keys(known);
  if (names.length === 0 && scmBytes > 0) return { at: 0, bytes: scmBytes };
  if (Object.hasOwn(known, name)) return known[name]!;
  const expected = names.length === 0
    ? "the host has no SCM"
    : `a region of it: ${names.join(", ")}`;
  return { errno: "ENOENT", reason: `/scm/${name}: expected ${expected}` };
}

function refuseRange(
  { cpu }: NativeObjects,
  { offset, length }: { readonly offset: number; readonly length: number },
): VerbError | undefined {
  const { scm } = cpu;
  if (offset >= 0 && length >= 0 && offset + length <= scm.length) return undefined;
  const range = `[${offset}, ${offset + length})`;
  return verbError("EINVAL", `${range} lies outside of ${scm.length} B of SCM`);
}

export const SCM: Handlers<
  | "scm_open"
  | "scm_load"
  | "scm_map"
  | "scm_unmap"
  | "scm_store"
  | "scm_stream"
  | "scm_flush"
  | "scm_drain"
> = {
  *scm_open(_, objects, request) {
    const name = new TextDecoder().decode(request.bytes("scm_open"));
    const { cpu, options: { regions } } = objects;
    const file = scmFile(name, { regions, scmBytes: cpu.scm.length });
    return "errno" in file ? file : { words: { offset: file.at, length: file.bytes } };
  },

  /** What a core would see: a page that is mapped costs nothing until it is used, and loads are unseen. */
  *scm_load({ offset, length }, objects) {
    const wrong = refuseRange(objects, { offset, length });
    if (wrong !== undefined) return wrong;
    return { bytes: objects.outside.peek(SCM_BASE + offset, length) };
  },

  *scm_map({ offset, length, addr }, objects) {
    const wrong = refuseRange(objects, { offset, length });
    if (wrong !== undefined) return wrong;
    if (offset % DRAM_PAGE_BYTES !== 0 || addr % DRAM_PAGE_BYTES !== 0) {
      return verbError("EINVAL", `A mapping begins at a page: found ${offset}`);
    }
    objects.mapScm({ offset, length, address: addr });
    return {};
  },

  *scm_unmap({ addr }, objects) {
    objects.unmapScm(addr);
    return {};
  },

  /** Rows of a word each, and behind them their bytes: [offset, length]… */
  *scm_store(_, objects, request) {
    const lines = new Set<number>();
    for (const { offset, bytes } of request.spans("scm_store")) {
      const wrong = refuseRange(objects, { offset, length: bytes.length });
      if (wrong !== undefined) return wrong;
      objects.cpu.store(objects.cpu.scm.address + offset, bytes);
      // Two are enough to know that there are several.
      for (const at of [offset, offset + bytes.length - 1]) lines.add(Math.floor(at / LINE_BYTES));
    }
    if (lines.size > 1) objects.steps++;
    return {};
  },

  *scm_stream({ offset }, objects, request) {
    const bytes = request.bytes("scm_stream");
    const wrong = refuseRange(objects, { offset, length: bytes.length });
    if (wrong !== undefined) return wrong;
    objects.cpu.ntstore(objects.cpu.scm.address + offset, bytes);
    return {};
  },

  *scm_flush({ offset, length, drain }, objects) {
    const wrong = refuseRange(objects, { offset, length });
    if (wrong !== undefined) return wrong;
    objects.cpu.clwb(objects.cpu.scm.address + offset, length);
    if (drain !== 0) yield* objects.cpu.sfence();
    return {};
  },

  *scm_drain(_, { cpu }) {
    yield* cpu.sfence();
    return {};
  },
};
