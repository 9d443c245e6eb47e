/**
 * `a-rnic/tor` is a cable, `a-rnic->tor` one direction of it, `leaf1/spine1#2` the second of
 * several between two nodes, `a` the network cable of host a's first RNIC, `a-rnic2` that of its
 * second.
 */
import { rnicName } from "./names.ts";
import type { CablePlan } from "./plan.ts";
import type { LinkDirection } from "./link_plan.ts";
import { listOf, nearest } from "./problem.ts";

type Cable = Pick<CablePlan, "kind" | "a" | "b">;
type Cables = { readonly cables: readonly Cable[] };

export interface CableTarget {
  readonly cable: number;
  readonly direction: LinkDirection;
}

export function directionName(
  { cables }: Cables,
  { cable, from }: { readonly cable: number; readonly from: "a" | "b" },
): string {
  const { a, b } = cables[cable]!;
  const [near, far] = from === "a" ? [a.node, b.node] : [b.node, a.node];
  return `${near}->${far}${numberOf(cables, cable)}`;
}

export function targetName(rack: Cables, { cable, direction }: CableTarget): string {
  if (direction !== "both") return directionName(rack, { cable, from: direction });
  const { a, b } = rack.cables[cable]!;
  return `${a.node}/${b.node}${numberOf(rack.cables, cable)}`;
}

/** "" for the only cable between two nodes. */
function numberOf(cables: readonly Cable[], cable: number): string {
  const same = between(cables, cables[cable]!.a.node, cables[cable]!.b.node);
  return same.length === 1 ? "" : `#${same.indexOf(cable) + 1}`;
}

function between(cables: readonly Cable[], x: string, y: string): number[] {
  return cables.flatMap(({ a, b }, i) =>
    (a.node === x && b.node === y) || (a.node === y && b.node === x) ? [i] : []
  );
}

export function parseTarget(
  rack: Cables,
  text: string,
): CableTarget | { readonly expected: string } {
  const { cables } = rack;
  const match = /^(.+?)(\/|->)(.+?)(?:#(\d+))?$/.exec(text);
  if (match === null) return targetOfHost(cables, text);
  const [, near, separator, far, number] = match as unknown as string[];
  const found = between(cables, near!, far!);
  if (found.length === 0) return { expected: known(cables, text) };
  if (cables[found[0]!]!.kind === "bus") {
    return {
      expected: `a network cable: ${near} and ${far} are joined by a bus, which has no faults`,
    };
  }
  if (number === undefined && found.length > 1) {
    const names = found.map((_, i) => `${text}#${i + 1}`);
    return { expected: `one of the cables: ${listOf(names)}` };
  }
  const cable = found[number === undefined ? 0 : Number(number) - 1];
  if (cable === undefined) return { expected: `a number from 1 to ${found.length}` };
  const direction = separator === "/" ? "both" : cables[cable]!.a.node === near ? "a" : "b";
  return { cable, direction };
}

function targetOfHost(
  cables: readonly Cable[],
  text: string,
): CableTarget | { readonly expected: string } {
  const found = cables.flatMap(({ kind, a, b }, i) =>
    kind === "network" && [a.node, b.node].some((name) => name === text || name === rnicName(text))
      ? [i]
      : []
  );
  const [cable] = found;
  if (cable === undefined) return { expected: known(cables, text) };
  if (found.length === 1) return { cable, direction: "both" };
  const names = found.slice(0, 4).map((i) =>
    targetName({ cables }, { cable: i, direction: "both" })
  );
  return { expected: `one of its cables: ${listOf(names)}${found.length > 4 ? " …" : ""}` };
}

function known(cables: readonly Cable[], text: string): string {
  const names = cables.flatMap(({ kind }, cable) =>
    kind === "network" ? [targetName({ cables }, { cable, direction: "both" })] : []
  );
  const near = nearest(text, names);
  if (near !== undefined) return `${near}, a cable`;
  const hosts = cables.flatMap(({ kind, a }) => kind === "bus" ? [a.node] : []);
  const host = nearest(text, hosts);
  if (host !== undefined) return `${host}, a host`;
  const some = names.length <= 6 ? listOf(names) : `like ${names[0]}`;
  return `a cable of this rack (${some}), one way of it (${
    names[0]?.replace("/", "->") ?? "a-rnic->tor"
  }) or a host`;
}
