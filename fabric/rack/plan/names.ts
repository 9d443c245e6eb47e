/** Names of the rack's devices, and of objects in SCM. A host has its name from the scenario. */

export const RNIC_SUFFIX = "-rnic";

/** The switch of a star. */
export const SWITCH_NAME = "tor";

export function rnicName(host: string): string {
  return `${host}${RNIC_SUFFIX}`;
}

/** The host of the RNIC with this name; undefined where the name is no RNIC's. */
export function hostOfRnic(node: string): string | undefined {
  return node.endsWith(RNIC_SUFFIX) ? node.slice(0, -RNIC_SUFFIX.length) : undefined;
}

/** Switches of a leaf–spine network, numbered from 0 in the plan and from 1 in their names. */
export function leafName(leaf: number): string {
  return `leaf${leaf + 1}`;
}

export function spineName(spine: number): string {
  return `spine${spine + 1}`;
}

/** Switches of a fat tree, in the same way; edge and aggregation switches are counted through all pods. */
export function edgeName(edge: number): string {
  return `edge${edge + 1}`;
}

export function aggregationName(aggregation: number): string {
  return `agg${aggregation + 1}`;
}

export function coreName(core: number): string {
  return `core${core + 1}`;
}

/** Whether a switch is one for hosts by its name: a leaf, or an edge switch of a fat tree. */
export function isLeafName(name: string): boolean {
  return /^(leaf|edge)\d+$/.test(name);
}

/** Bits of a host's number in its addresses. */
const HOST_BITS = 16;

/** Hosts that a rack can have: all addresses of the subnet but its first and its last one. */
export const MAX_HOSTS = 2 ** HOST_BITS - 2;

/** `h08..h11` denotes h08, h09, h10 and h11; any other text, a range of more than `MAX_HOSTS` too, is one name, valid or not. */
export function namesInRange(text: string): string[] {
  const range = /^(.*?)(\d{1,5})\.\.(.*?)(\d{1,5})$/.exec(text);
  if (range === null || range[1] !== range[3]) return [text];
  const [, prefix, from, , to] = range as unknown as [string, string, string, string, string];
  const first = Number(from), last = Number(to);
  if (last < first || last - first >= MAX_HOSTS) return [text];
  return Array.from(
    { length: last - first + 1 },
    (_, i) => prefix + String(first + i).padStart(from.length, "0"),
  );
}

/** What is expected in place of a text that looks like a range; undefined for any other. */
export function rangeExpected(text: string, place: "one" | "many"): string | undefined {
  if (!text.includes("..")) return undefined;
  return place === "one"
    ? "one name: a range has no place here"
    : "a range of names from the lower number to the higher, like s1..s4";
}

/** Bytes of an object's name in the directory of a host's SCM. */
export const OBJECT_NAME_BYTES_MAX = 96;

export const OBJECT_NAME_EXPECTED =
  `1 to ${OBJECT_NAME_BYTES_MAX} bytes without control characters, and not "." or ".."`;

/** False for names that no entry holds, or that a file system or a terminal takes for something else. */
export function isObjectName(name: string): boolean {
  const { length } = new TextEncoder().encode(name);
  // deno-lint-ignore no-control-regex
  const hasControls = /[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(name);
  return length >= 1 && length <= OBJECT_NAME_BYTES_MAX && !hasControls && name !== "." &&
    name !== "..";
}
