/** A choice: the PCIe slots of a server with two sockets. */
export const MAX_RNICS = 8;

/** Further RNICs are counted from 2: `a-rnic`, `a-rnic2` … */
const RNIC_SUFFIX = "-rnic";

export const SWITCH_NAME = "tor";

export function rnicName(host: string, index = 0): string {
  return index === 0 ? `${host}${RNIC_SUFFIX}` : `${host}${RNIC_SUFFIX}${index + 1}`;
}

export function rnicNames(host: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => rnicName(host, index));
}

const RNIC_NAME = /^(.+)-rnic([2-9]|[1-9]\d)?$/;

/** Undefined if the name is no RNIC's. */
export function hostOfRnic(node: string): string | undefined {
  return RNIC_NAME.exec(node)?.[1];
}

/** From 0; undefined if the name is no RNIC's. */
export function indexOfRnic(node: string): number | undefined {
  const found = RNIC_NAME.exec(node);
  return found === null ? undefined : Number(found[2] ?? 1) - 1;
}

export function machineOf(node: string): string {
  return hostOfRnic(node) ?? node;
}

export const NO_RNIC =
  `a name that does not end in ${RNIC_SUFFIX}, ${RNIC_SUFFIX}2 and so on, as RNICs' names do`;

export function leafName(leaf: number): string {
  return `leaf${leaf + 1}`;
}

export function spineName(spine: number): string {
  return `spine${spine + 1}`;
}

/** Counted through all pods. */
export function edgeName(edge: number): string {
  return `edge${edge + 1}`;
}

export function aggregationName(aggregation: number): string {
  return `agg${aggregation + 1}`;
}

export function coreName(core: number): string {
  return `core${core + 1}`;
}

/** A leaf, or an edge switch of a fat tree: it has hosts. */
export function isLeafName(name: string): boolean {
  return /^(leaf|edge)\d+$/.test(name);
}

const HOST_BITS = 16;

/** All addresses of the subnet but its first and its last one. */
export const MAX_HOSTS = 2 ** HOST_BITS - 2;

/**
 * `h08..h11` denotes h08, h09, h10 and h11, `h1..h4-rnic2` the second RNIC of each; any other text,
 * and a range of more than `MAX_HOSTS`, is one name.
 */
export function namesInRange(text: string): string[] {
  const range = /^(.*?)(\d{1,5})\.\.(.*?)(\d{1,5})(-rnic\d{0,2})?$/.exec(text);
  if (range === null || range[1] !== range[3]) return [text];
  const [, prefix, from, , to, rnic = ""] = range as unknown as [string, ...string[]];
  const first = Number(from), last = Number(to);
  if (last < first || last - first >= MAX_HOSTS) return [text];
  return Array.from(
    { length: last - first + 1 },
    (_, i) => prefix + String(first + i).padStart(from!.length, "0") + rnic,
  );
}

/** For a text that looks like a range; else undefined. */
export function rangeExpected(text: string, place: "one" | "many"): string | undefined {
  if (!text.includes("..")) return undefined;
  return place === "one"
    ? "one name: a range has no place here"
    : "a range of names from the lower number to the higher, like s1..s4";
}

export const OBJECT_NAME_BYTES_MAX = 96;

export const OBJECT_NAME_EXPECTED =
  `1 to ${OBJECT_NAME_BYTES_MAX} bytes without control characters, and not "." or ".."`;

/** False for names that no entry holds, or that mean something to a file system or a terminal. */
export function isObjectName(name: string): boolean {
  const { length } = new TextEncoder().encode(name);
  // deno-lint-ignore no-control-regex
  const hasControls = /[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(name);
  return length >= 1 && length <= OBJECT_NAME_BYTES_MAX && !hasControls && name !== "." &&
    name !== "..";
}
