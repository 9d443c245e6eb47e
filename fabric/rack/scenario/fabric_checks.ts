import {
  fatTreeSizes,
  type ListedCable,
  type ListedEnd,
  type ListedFabric,
  rnicsByEnd,
  rnicsOf,
  switchNames,
  type TOPOLOGIES,
} from "../assembly/network.ts";
import { hostOfRnic, machineOf, MAX_HOSTS, NO_RNIC, SWITCH_NAME } from "../plan/names.ts";
import { listOf, nearest, showFound } from "../plan/problem.ts";
import { PORT_MOST } from "./cables_schema.ts";
import { networkHosts, rnicsIn } from "./network_hosts.ts";
import { type Report, valueAt } from "./reading.ts";
import type { Draft } from "./scenario.ts";
import { FAT_TREE_K_MOST, NAME_EXPECTED, NAME_PATTERN } from "./schema.ts";
import type { Path } from "./yaml_source.ts";

const WORDS = ["all", "next"];
/** Of the largest fat tree: each process knows the distances between all. */
const LARGEST = fatTreeSizes({ k: FAT_TREE_K_MOST });
const SWITCHES_MOST = 2 * LARGEST.edges + LARGEST.cores;
const NAMES_MOST = 8;

type Topology = typeof TOPOLOGIES[number];

const OF_SEVERAL: readonly Topology[] = ["leaf-spine", "fat-tree", "explicit"];
const KEYS = {
  leaves: ["leaf-spine"],
  spines: ["leaf-spine"],
  k: ["fat-tree"],
  switches: ["explicit"],
  cables: ["leaf-spine", "explicit"],
  uplinks: OF_SEVERAL,
  convergence: OF_SEVERAL,
} as const satisfies Readonly<Record<string, readonly Topology[]>>;

/** @returns whether the network can be built, so that its cables can be asked for. */
export function checkNetwork(draft: Draft, report: Report): boolean {
  let isSound = true;
  const noting: Report = (path, problem) => {
    isSound = false;
    report(path, problem);
  };
  checkKeysOfTopology(draft, noting);
  checkHostNames(draft, noting);
  checkLeaves(draft, noting);
  if (draft.fabric.listed !== undefined) checkListed(draft.fabric.listed, draft, noting);
  return isSound;
}

function checkKeysOfTopology({ fabric: { topology }, fabricSection }: Draft, report: Report): void {
  for (const [key, topologies] of Object.entries(KEYS)) {
    if (fabricSection[key as keyof typeof KEYS] === undefined) continue;
    if ((topologies as readonly Topology[]).includes(topology)) continue;
    const found = `${key} of a ${topology}`;
    const expected = `it with topology: ${listOf(topologies)}`;
    report(["fabric", key], { found, expected, key: true });
  }
  const { cables } = fabricSection;
  if (topology === "leaf-spine" && typeof cables === "object") {
    const expected = "a number of cables between each leaf and each spine, as the topology is " +
      "leaf-spine: a list is of topology: explicit";
    report(["fabric", "cables"], { found: "a list", expected });
  }
  if (topology === "explicit" && typeof cables === "number") {
    const expected = "a list of cables, as the topology is explicit";
    report(["fabric", "cables"], { found: String(cables), expected });
  }
}

function checkHostNames(draft: Draft, report: Report): void {
  const { hostNames, hostPaths, fabric, hosts } = draft;
  // A name of the list that is a host's is the list's problem.
  const own = fabric.listed === undefined ? switchNames(fabric) : [];
  const switches = new Set([SWITCH_NAME, ...own]);
  const reserved = [...WORDS, ...switches];
  const others = reserved.length <= NAMES_MOST
    ? listOf(reserved)
    : `${WORDS.join(", ")} and the switches' names`;
  for (const [name, path] of hostPaths) {
    const found = showFound(name);
    if (!NAME_PATTERN.test(name)) {
      report(path, { found, expected: NAME_EXPECTED, key: true });
    } else if (hostOfRnic(name) !== undefined) {
      report(path, { found, expected: NO_RNIC, key: true });
    } else if (WORDS.includes(name) || switches.has(name)) {
      report(path, { found, expected: `a name other than ${others}`, key: true });
    }
  }
  const rnics = rnicsIn(draft).length;
  const isMore = rnics > hostNames.length;
  const found = `${hostNames.length} hosts${isMore ? ` with ${rnics} RNICs` : ""}`;
  const refuse = (expected: string) => report(["hosts"], { found, expected, key: true });
  if (fabric.topology === "direct") {
    if (hostNames.length !== 2) return refuse("2 hosts, as the topology is direct");
    for (const { name, nics = 1 } of hosts) {
      if (nics === 1) continue;
      const expected = "1, as the topology is direct: one cable between two RNICs";
      report(optionPath(draft, name, "nics"), { found: String(nics), expected });
    }
    return;
  }
  if (hostNames.length === 0 || rnics > MAX_HOSTS) {
    return refuse(isMore ? `1 to ${MAX_HOSTS} RNICs` : `1 to ${MAX_HOSTS} hosts`);
  }
  if (fabric.fatTree === undefined) return;
  const { k } = fabric.fatTree, most = fatTreeSizes(fabric.fatTree).hosts;
  if (rnics > most) {
    const what = isMore ? `${most} RNICs` : String(most);
    refuse(`at most ${what}, k³/4 of a fat tree with k: ${k}, or a higher k`);
  }
}

export function optionPath({ data, hostPaths }: Draft, host: string, option: string): Path {
  const own = [...hostPaths.get(host)!, option];
  return valueAt(data, own) === undefined ? ["defaults", option] : own;
}

function checkLeaves(draft: Draft, report: Report): void {
  const { fabric, hosts } = draft;
  const { leafSpine, fatTree } = fabric;
  const sizes = fatTree && fatTreeSizes(fatTree);
  const leaves = leafSpine?.leaves ?? sizes?.edges ?? 0;
  const kind = sizes === undefined ? "a leaf" : "an edge switch";
  const counts = new Map<number, number>();
  for (const { name, leaf, nics = 1 } of hosts) {
    if (typeof leaf === "number" || leaf === undefined || leaf.length === nics) continue;
    const path = optionPath(draft, name, "leaf");
    const expected = nics === 1
      ? `a leaf, as ${name} has one RNIC`
      : `${nics} leaves, one of each RNIC of ${name}`;
    report(path, { found: `${leaf.length} leaves`, expected });
  }
  for (const { name, host, leaf } of rnicsOf(hosts)) {
    if (leaf === undefined) continue;
    const path = optionPath(draft, host, "leaf");
    if (leaf > leaves) {
      const expected = leaves === 0
        ? "none, as the topology has no leaves"
        : `${kind} from 1 to ${leaves}`;
      report(path, { found: String(leaf), expected });
      continue;
    }
    const count = (counts.get(leaf) ?? 0) + 1;
    counts.set(leaf, count);
    if (sizes === undefined || count <= sizes.half) continue;
    const isOnly = hosts.every(({ nics = 1 }) => nics === 1);
    const found = isOnly
      ? `${host} as host number ${count} at edge switch ${leaf}`
      : `${name} as RNIC number ${count} at edge switch ${leaf}`;
    report(path, { found, expected: `at most k/2, ${sizes.half}, at one edge switch` });
  }
}

function checkListed(listed: ListedFabric, draft: Draft, report: Report): void {
  const { fabricSection, hostNames } = draft;
  if (fabricSection.switches === undefined) {
    const expected = "the switches' names, like [s1, s2], as the topology is explicit";
    return report(["fabric"], { found: "no switches", expected, key: true });
  }
  if (fabricSection.cables === undefined) {
    const expected = "a list of cables, like h1..h4/s1, as the topology is explicit";
    return report(["fabric"], { found: "no cables", expected, key: true });
  }
  if (typeof fabricSection.cables === "number") return;
  checkSwitchNames(listed.switches, new Set(hostNames), report);
  // With a switch that is called as a host nothing is known of cables of that name.
  let isJoined = !listed.switches.some((name) => hostNames.includes(name));
  const rnicOf = rnicsByEnd(rnicsOf(networkHosts(draft)));
  const ends = new Ends({ rnicOf, switches: listed.switches });
  const said = new Set<number>();
  for (const cable of listed.cables) {
    const problem = ends.refuse(cable);
    if (problem === undefined) continue;
    isJoined = false;
    // Errors of the names of a range are one problem.
    if (!said.has(cable.item)) report(["fabric", "cables", cable.item], problem);
    said.add(cable.item);
  }
  if (isJoined) checkWays(listed, { draft, rnicOf }, report);
}

function checkSwitchNames(
  switches: readonly string[],
  isHost: ReadonlySet<string>,
  report: Report,
): void {
  if (switches.length > SWITCHES_MOST) {
    const found = `${switches.length} switches`;
    return report(["fabric", "switches"], { found, expected: `at most ${SWITCHES_MOST}` });
  }
  for (const name of switches) {
    const expected = !NAME_PATTERN.test(name)
      ? NAME_EXPECTED
      : hostOfRnic(name) !== undefined
      ? NO_RNIC
      : WORDS.includes(name)
      ? `a name other than ${listOf(WORDS)}`
      : isHost.has(name)
      ? "another name than a host's"
      : undefined;
    if (expected === undefined) continue;
    return report(["fabric", "switches"], { found: showFound(name), expected });
  }
}

class Ends {
  readonly #rnicOf: ReadonlyMap<string, string>;
  readonly #isSwitch: ReadonlySet<string>;
  readonly #names: readonly string[];
  readonly #used = new Set<string>();

  constructor(of: { rnicOf: ReadonlyMap<string, string>; switches: readonly string[] }) {
    this.#rnicOf = of.rnicOf;
    this.#isSwitch = new Set(of.switches);
    // The host names its first RNIC.
    const first = new Set([...of.rnicOf].flatMap(([name, rnic]) => name === rnic ? [] : [rnic]));
    this.#names = [...[...of.rnicOf.keys()].filter((name) => !first.has(name)), ...of.switches];
  }

  refuse({ ends }: ListedCable): { readonly found: string; readonly expected: string } | undefined {
    const found = ends.map(endName).join("/");
    for (const { name } of ends) {
      if (this.#rnicOf.has(name) || this.#isSwitch.has(name)) continue;
      const near = nearest(name, this.#names);
      const some = this.#names.length <= NAMES_MOST ? ` (${listOf(this.#names)})` : "";
      const expected = near === undefined ? `a host or a switch of this rack${some}` : near;
      return { found: `${name} of ${found}`, expected };
    }
    const [one, other] = ends;
    if (one.name === other.name) {
      return { found, expected: "two ends: no cable leads back to its own switch" };
    }
    if (ends.every(({ name }) => this.#rnicOf.has(name))) {
      const expected = "a switch at one end at least (two hosts alone are topology: direct)";
      return { found, expected };
    }
    for (const end of ends) {
      const rnic = this.#rnicOf.get(end.name);
      if (rnic !== undefined && end.port !== undefined) {
        return { found: endName(end), expected: `${end.name} alone, as a card has one port` };
      }
      if (rnic === undefined && end.port === undefined) continue;
      const name = endName(end);
      if (this.#used.has(rnic ?? name)) {
        const expected = rnic === undefined
          ? "one cable at each port"
          : "one cable of each RNIC (nics: 2 gives a host two)";
        return { found: `a second cable of ${name}`, expected };
      }
      this.#used.add(rnic ?? name);
    }
    return undefined;
  }
}

function endName({ name, port }: ListedEnd): string {
  return port === undefined ? name : `${name}:${port}`;
}

function checkWays(
  { switches, cables }: ListedFabric,
  { draft: { hostPaths }, rnicOf }: {
    readonly draft: Draft;
    readonly rnicOf: ReadonlyMap<string, string>;
  },
  report: Report,
): void {
  const rnics = [...new Set(rnicOf.values())];
  const parts = new Parts([...rnics, ...switches]);
  const joined = new Map<string, number>();
  for (const { ends } of cables) {
    const [one, other] = ends.map(({ name }) => rnicOf.get(name) ?? name) as [string, string];
    for (const name of [one, other]) joined.set(name, (joined.get(name) ?? 0) + 1);
    parts.join(one, other);
  }
  const listPath: Path = ["fabric", "cables"];
  const full = switches.find((name) => (joined.get(name) ?? 0) > PORT_MOST + 1);
  if (full !== undefined) {
    const found = `${joined.get(full)} cables of ${full}`;
    report(listPath, { found, expected: `at most ${PORT_MOST + 1} of one switch`, key: true });
  }
  const without = rnics.filter((name) => !joined.has(name));
  const said = namesToSay(rnicOf);
  for (const name of without) {
    const found = `${said(name)} without a cable`;
    const expected = said(name) === name ? "a cable of each RNIC" : "a cable of each host";
    report(hostPaths.get(machineOf(name))!, { found, expected, key: true });
  }
  const alone = switches.filter((name) => !joined.has(name));
  if (alone.length > 0) {
    const found = `no cable of ${some(alone)}`;
    report(listPath, { found, expected: "a cable of each switch at least", key: true });
  }
  if (without.length > 0 || alone.length > 0) return;
  const [first, ...others] = [...rnics, ...switches];
  const apart = others.find((name) => !parts.areJoined(first!, name));
  if (apart === undefined) return;
  const found = `no way from ${said(first!)} to ${said(apart)}`;
  report(listPath, { found, expected: "a way between any two", key: true });
}

function namesToSay(rnicOf: ReadonlyMap<string, string>): (node: string) => string {
  const hosts = new Map([...rnicOf].flatMap(([name, rnic]) => name === rnic ? [] : [[rnic, name]]));
  return (node) => hosts.get(node) ?? node;
}

function some(names: readonly string[]): string {
  const more = names.length > NAMES_MOST ? " …" : "";
  return `${names.slice(0, NAMES_MOST).join(", ")}${more}`;
}

/** A forest, in which each name points towards the root of its connected part. */
class Parts {
  readonly #towards: Map<string, string>;

  constructor(names: readonly string[]) {
    this.#towards = new Map(names.map((name) => [name, name]));
  }

  join(one: string, other: string): void {
    this.#towards.set(this.#root(one), this.#root(other));
  }

  areJoined(one: string, other: string): boolean {
    return this.#root(one) === this.#root(other);
  }

  #root(name: string): string {
    let at = name;
    for (let next = this.#towards.get(at)!; next !== at; next = this.#towards.get(at)!) {
      this.#towards.set(at, this.#towards.get(next)!);
      at = next;
    }
    return at;
  }
}
