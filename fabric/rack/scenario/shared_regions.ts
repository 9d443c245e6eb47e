import type { z } from "zod";
import { showFound } from "../plan/problem.ts";
import { formatSize } from "../plan/units.ts";
import { LINE_BYTES } from "../../base/cache_line.ts";
import {
  directoryBytes,
  JUDGE_PLAN,
  type JudgePlan,
  PLACEMENTS,
  REGION_SIZES,
} from "../plan/shared_region.ts";
import { formatTime, PS_PER_US } from "../../base/time.ts";
import type { DraftShared, HostScenario, SharedScenario } from "./scenario.ts";
import { checkKnown, namePaths, read, type Reading, readList, type Report } from "./reading.ts";
import {
  differentNames,
  integer,
  leaf,
  mapping,
  oneOf,
  orShort,
  OWN_FILE_SHAPE,
  ownFile,
  positiveTime,
  renamed,
  size,
  TEXT_SHAPE,
} from "./values.ts";
import type { Path } from "./yaml_source.ts";

const GIB = 2 ** 30;
/** An agent of a home's card is a bit of a mask, and the local cache is one. */
const FAR_MAX = 30;
/** A choice: some round trips over a switch, each 3 us. */
const LEASE_PS = 50 * PS_PER_US;
const PAGE_BYTES = 4096;

const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/;
const name = leaf(
  "a name of letters, digits, '-' and '_', at most 40",
  { type: "string", pattern: NAME_PATTERN.source },
  (value) => typeof value === "string" && NAME_PATTERN.test(value) ? value : undefined,
);
const hostName = leaf(
  "a host's name",
  TEXT_SHAPE,
  (value) => typeof value === "string" && value !== "" ? value : undefined,
);
const far = leaf(
  `a list of 1 to ${FAR_MAX} different hosts' names, or ranges like s1..s4`,
  { type: "array", items: { type: "string" }, minItems: 1, maxItems: FAR_MAX, uniqueItems: true },
  (value) => {
    const names = Array.isArray(value) ? differentNames(value) : undefined;
    return names !== undefined && names.length <= FAR_MAX ? names : undefined;
  },
);
const entries = integer(1, 2 ** 20);

const ownRule = ownFile("./my_rule.ts");
/** C-04, decision 17; a path alone is that of a rule. */
const judgeSchema = orShort(
  renamed({
    marginPercent: ["margin", integer(0, 10_000)],
    windows: ["windows", integer(1, 1_000_000)],
    windowPs: ["window", positiveTime("a time > 0 with its unit, like 100us")],
    rule: ["rule", ownRule],
  }).transform((given): JudgePlan => ({ ...JUDGE_PLAN, ...given })),
  {
    or: "a path like ./my_rule.ts ",
    schema: ownRule,
    shape: OWN_FILE_SHAPE,
    meaning: (rule) => ({ rule }),
  },
);

export const sharedSchema = mapping({
  name: name.describe("by which programs ask for it: cpu.region(name)"),
  home: hostName.describe("the host whose memory it is"),
  memory: oneOf(["scm", "dram"]).optional().describe("which memory of home; scm unless given"),
  at: size(0, 64 * GIB, LINE_BYTES).optional()
    .describe("where in home's SCM it begins; from its end downwards unless given"),
  bytes: size(LINE_BYTES, GIB, LINE_BYTES).describe("how long it is, whole lines"),
  far: far.describe("the hosts that register it"),
  placement: oneOf(PLACEMENTS).optional().describe(
    "which card keeps copies: home's, the far one's, or where the more accesses come from",
  ),
  judge: judgeSchema.optional().describe(
    "how home's judge moves the copies of placement: auto: a margin in percent, for so many windows of this time; " +
      "or a rule of your own, by its file",
  ),
  lease: positiveTime("a time > 0 with its unit, like 50us").optional().describe(
    "so long after its last word from home a far card stops serving",
  ),
  remoteCache: entries.optional().describe("lines of each far card's cache"),
  localCache: entries.optional().describe("lines of the cache of home's card"),
  slots: integer(1, 4096).optional().describe("requests that home's card works on at a time"),
  entries: entries.optional().describe("lines that are lent at a time"),
  writeBacks: integer(1, 4096).optional().describe("lines that a cache writes back at a time"),
  directory: oneOf(["card", "memory"]).optional().describe(
    "where the record of lent lines is: home's card, so that after home's power failure they show what home received " +
      "last; or its memory as well, which costs writes: in SCM, lines that were lent exclusively are lost then, and said to be",
  ),
});
export type SharedSection = z.infer<typeof sharedSchema>;

export function readShared(reading: Reading): DraftShared[] {
  return readList(reading, ["shared"]).flatMap(({ path }) => {
    const section = read(reading, path, sharedSchema);
    return section === undefined ? [] : [{ path, region: resolved(section) }];
  });
}

function resolved({ lease, ...section }: SharedSection): SharedScenario {
  const { name, home, far, bytes, at, memory = "scm", placement = "auto", ...sizes } = section;
  const given = Object.fromEntries(
    Object.entries(sizes).filter(([, value]) => value !== undefined),
  );
  return {
    ...REGION_SIZES,
    ...given,
    name,
    home,
    far,
    memory,
    ...(at !== undefined && { at }),
    bytes,
    placement,
    leasePs: lease ?? LEASE_PS,
  };
}

interface Checked {
  readonly data: unknown;
  readonly shared: readonly DraftShared[];
  readonly coherence?: string | undefined;
  readonly hostNames: readonly string[];
  readonly hosts: readonly HostScenario[];
}

export function checkShared(draft: Checked, report: Report): void {
  if (draft.coherence !== undefined && draft.shared.length === 0) {
    const expected = "shared regions (shared:), of which cards keep copies by it";
    report(["coherence"], { found: `${showFound(draft.coherence)}, and no region`, expected });
  }
  const names = new Set<string>();
  for (const { path, region } of draft.shared) {
    if (names.has(region.name)) {
      const found = `${region.name} a second time`;
      report([...path, "name"], { found, expected: "another name for each region" });
    }
    names.add(region.name);
    const places = namePaths(draft.data, [...path, "far"]);
    const hosts = [
      [[...path, "home"], region.home] as const,
      ...region.far.map((each, i) => [places[i]!, each] as const),
    ];
    for (const [at, host] of hosts) {
      const place = at.includes("far") ? "many" : "one";
      checkHost(draft, { path: at, host, place }, report);
    }
    checkVersions(draft, { path, region }, report);
    const own = region.far.indexOf(region.home);
    if (own >= 0) {
      const expected = "a host other than home, which has the memory";
      report(places[own]!, { found: region.home, expected });
    }
    if (region.at !== undefined && region.memory === "dram") {
      const expected = "none, as the system chooses a place in DRAM";
      report([...path, "at"], { found: formatSize(region.at), expected, key: true });
    }
  }
  for (const home of draft.hosts) checkMemory(draft.shared, home, report);
  checkAgents(draft.shared, report);
  checkJudges(draft.shared, report);
}

/**
 * Only regions with `auto` have a judge, and far cards report the counts of all regions of a home
 * together.
 */
function checkJudges(shared: readonly DraftShared[], report: Report): void {
  const first = new Map<string, DraftShared["region"]>();
  for (const { path, region } of shared) {
    const { name, home, placement, judge } = region;
    if (placement !== "auto") {
      if (judge === undefined) continue;
      const expected = `none, as placement: ${placement} leaves nothing to judge`;
      report([...path, "judge"], { found: "a judge", expected, key: true });
      continue;
    }
    const other = first.get(home);
    first.set(home, other ?? region);
    const { windowPs } = judge ?? JUDGE_PLAN, known = other?.judge ?? JUDGE_PLAN;
    if (other === undefined || known.windowPs === windowPs) continue;
    const expected = `a window of ${formatTime(known.windowPs)} as of region ${other.name}: far ` +
      `cards count for all regions of ${home} together`;
    report(judge === undefined ? [...path, "name"] : [...path, "judge"], {
      found: `${name} with a window of ${formatTime(windowPs)}`,
      expected,
    });
  }
}

/** C-03: both ends need a coherent bus. */
function checkHost(
  { hostNames, hosts }: Checked,
  { path, host, place }: {
    readonly path: Path;
    readonly host: string;
    readonly place: "one" | "many";
  },
  report: Report,
): void {
  if (!checkKnown(host, { path, known: hostNames, kind: "a host", place }, report)) return;
  const scenario = hosts.find((each) => each.name === host);
  if (scenario === undefined || scenario.attach === "coherent") return;
  const expected = "a host with attach: coherent, which shared regions need";
  report(path, { found: `${host}, whose card is attached by PCIe`, expected });
}

/** Decision 8: cards of two versions of RoCE drop each other's frames. */
function checkVersions(
  { data, hosts }: Checked,
  { path, region }: DraftShared,
  report: Report,
): void {
  const versionOf = (host: string) => {
    const scenario = hosts.find(({ name }) => name === host);
    return scenario && (scenario.roce ?? "v2");
  };
  const own = versionOf(region.home);
  const places = namePaths(data, [...path, "far"]);
  for (const [i, host] of region.far.entries()) {
    const theirs = versionOf(host);
    if (own === undefined || theirs === undefined || own === theirs) continue;
    const found = `${host}, whose card speaks RoCE${theirs}`;
    const expected = `a host whose card speaks RoCE${own}, as that of ${region.home}`;
    report(places[i]!, { found, expected });
  }
}

function checkMemory(
  shared: readonly DraftShared[],
  home: HostScenario,
  report: Report,
): void {
  const its = shared.filter(({ region }) => region.home === home.name);
  for (const memory of ["scm", "dram"] as const) {
    const bytes = memory === "scm" ? home.scmBytes : home.dramBytes;
    let end = bytes;
    for (const { path, region } of its) {
      if (region.memory !== memory || region.at !== undefined) continue;
      end -= pagesOf(region);
      if (end >= 0) continue;
      const expected = `regions that fit ${formatSize(bytes)} of ${memory.toUpperCase()}`;
      report([...path, "bytes"], { found: formatSize(region.bytes), expected });
    }
    if (memory === "scm" && end >= 0) checkPlaces(its, end, report);
  }
}

function checkPlaces(its: readonly DraftShared[], end: number, report: Report): void {
  const placed = its.filter(({ region: { memory, at } }) => memory === "scm" && at !== undefined)
    .toSorted((x, y) => x.region.at! - y.region.at!);
  let from = 0, before = "";
  for (const { path, region } of placed) {
    const at = region.at!, to = at + region.bytes + directoryBytes(region);
    if (at < from) {
      const expected = `a region from ${formatSize(from)} on, where ${before} ends`;
      report([...path, "at"], { found: formatSize(at), expected });
    }
    if (to > end) {
      const expected = `an end up to ${formatSize(end)}, behind which is no SCM, or other regions`;
      report([...path, "at"], { found: `a region that ends at ${formatSize(to)}`, expected });
    }
    if (to > from) [from, before] = [to, region.name];
  }
}

function checkAgents(shared: readonly DraftShared[], report: Report): void {
  const known = new Map<string, Set<string>>();
  for (const { path, region } of shared) {
    const its = known.get(region.home) ?? new Set();
    known.set(region.home, its);
    for (const host of region.far) its.add(host);
    if (its.size <= FAR_MAX) continue;
    const found = `${its.size} far hosts of ${region.home}`;
    report([...path, "far"], { found, expected: `at most ${FAR_MAX} for one home` });
  }
}

/** Includes its directory in SCM. */
function pagesOf(region: Parameters<typeof directoryBytes>[0]): number {
  return Math.ceil((region.bytes + directoryBytes(region)) / PAGE_BYTES) * PAGE_BYTES;
}

/** From the memory's start: the file's place, else from the end downwards, in whole pages. */
export function placesOf(
  shared: readonly SharedScenario[],
  hosts: readonly Pick<HostScenario, "name" | "scmBytes" | "dramBytes">[],
): number[] {
  const ends = new Map<string, number>();
  return shared.map(({ home, memory, at, bytes, directory }) => {
    if (at !== undefined) return at;
    const host = hosts.find(({ name }) => name === home)!;
    const key = `${home}/${memory}`;
    const end = ends.get(key) ?? (memory === "scm" ? host.scmBytes : host.dramBytes);
    const from = end - pagesOf({ memory, bytes, directory });
    ends.set(key, from);
    return from;
  });
}
