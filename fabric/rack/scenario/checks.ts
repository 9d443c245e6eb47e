/** Consistency checks across several values of a scenario; each reports all its problems. */
import { QUEUE_PLAN } from "../plan/queue_plan.ts";
import { checkDeviceFaults, checkLinkFaults, checkPowerFaults } from "./fault_checks.ts";
import { machineOf } from "../plan/names.ts";
import { switchNames } from "../assembly/network.ts";
import { wordOf } from "../plan/power.ts";
import { showFound } from "../plan/problem.ts";
import { isMapping } from "../../base/mapping.ts";
import { checkKnown, namePaths, type Report, valueAt } from "./reading.ts";
import type { Draft, DraftProgram, HostScenario } from "./scenario.ts";
import { NAME_EXPECTED, NAME_PATTERN } from "./schema.ts";
import { asksService, PROGRAMS, serviceExpected } from "../plan/vocabulary.ts";
import { formatSize } from "../plan/units.ts";
import type { Path } from "./yaml_source.ts";
import { checkBuffers } from "./buffer_checks.ts";
import { checkHints } from "./hints.ts";
import { checkNetwork, optionPath } from "./fabric_checks.ts";
import { machinesIn, peersIn } from "./network_hosts.ts";
import { checkCongestion, checkPfcKeys, HEADERS_BYTES } from "./congestion.ts";
import { checkShared } from "./shared_regions.ts";
import { isOwnFile } from "./values.ts";

/** Information and doorbell records, rounded up. */
const QUEUE_BYTES = 256;
/** The LLC has tags of 31 bits for lines of 64 B, and one of them is for no line. */
const MEMORY_BYTES_END = 128 * 2 ** 30;

export function checkScenario(draft: Draft, report: Report): void {
  const isBuilt = checkNetwork(draft, report);
  checkFabric(draft, { isBuilt }, report);
  for (const host of draft.hosts) checkHost(host, draft.hostPaths.get(host.name)!, report);
  for (const { path, program } of draft.programs) checkProgram({ path, program, draft }, report);
  checkRecoveries(draft, report);
  checkMethods(draft, report);
  checkFaults(draft, { isBuilt }, report);
  checkShared(draft, report);
}

function checkFabric(draft: Draft, of: { isBuilt: boolean }, report: Report): void {
  const { fabric, fabricSection } = draft;
  checkAttachments(draft, report);
  checkCoherentNics(draft, report);
  checkRoce(draft, report);
  if (fabric.congestion !== undefined) checkCongestion(fabric.congestion, report);
  const pfc = valueAt(draft.data, ["fabric", "pfc"]);
  checkPfcKeys(new Set(isMapping(pfc) ? Object.keys(pfc) : []), fabric, report);
  if (fabric.topology === "direct") {
    if (fabricSection.switch === undefined) return;
    const found = "options of a switch";
    report(["fabric", "switch"], { found, expected: "none, as the topology is direct", key: true });
    return;
  }
  const least = fabric.mtu + HEADERS_BYTES;
  const { queueBytes } = fabric.switch;
  if (queueBytes < least) {
    const expected = `at least ${least} B, a frame of this MTU`;
    report(["fabric", "switch", "queue"], { found: formatSize(queueBytes), expected });
  }
  if (of.isBuilt) checkBuffers(draft, report);
}

function checkAttachments({ hosts, fabricSection }: Draft, report: Report): void {
  if (
    fabricSection.coherentBus === undefined || hosts.some(({ attach }) => attach === "coherent")
  ) return;
  const found = "a coherent bus, and no host on it";
  const expected = "at least one host with attach: coherent";
  report(["fabric", "coherentBus"], { found, expected, key: true });
}

/** C-01: features that RoCEv1 lacks, and that a cable's two cards speak one version. */
function checkRoce({ fabric, hosts, hostPaths }: Draft, report: Report): void {
  const old = hosts.find(({ roce }) => roce === "v1");
  if (old === undefined) return;
  for (const key of ["ecn", "dcqcn"] as const) {
    if (!fabric.congestion?.[key]) continue;
    const reason = `as the card of ${old.name} speaks RoCEv1, which has no IP header to mark`;
    report(["fabric", key], { found: "on", expected: `off, ${reason}: use pfc`, key: true });
  }
  if (fabric.topology !== "direct") return;
  for (const { name, roce = "v2" } of hosts) {
    if (roce === "v1") continue;
    const expected = `v1, as the card of ${old.name} at the other end of the cable`;
    report(hostPaths.get(name)!, { found: `RoCE${roce} at ${name}`, expected, key: true });
  }
}

/** C-01: a host has at most one coherent card. */
function checkCoherentNics(draft: Draft, report: Report): void {
  for (const { name, attach, nics = 1 } of draft.hosts) {
    if (attach !== "coherent" || nics === 1) continue;
    const expected = "1, as a card on the processor's coherent bus is its host's only one";
    report(optionPath(draft, name, "nics"), { found: String(nics), expected });
  }
}

function checkHost(host: HostScenario, path: Path, report: Report): void {
  checkRegions(host, path, report);
  const { llc, timing } = host;
  if (llc.ddioWays > llc.ways) {
    const expected = `at most ${llc.ways}, the LLC's ways`;
    report([...path, "llc", "ddioWays"], { found: String(llc.ddioWays), expected });
  }
  if (llc.bytes % (64 * llc.ways) !== 0) {
    const expected = `a multiple of ${64 * llc.ways} B, a line in each of ${llc.ways} ways`;
    report([...path, "llc", "size"], { found: formatSize(llc.bytes), expected });
  }
  const memoryBytes = host.dramBytes + host.scmBytes;
  if (memoryBytes >= MEMORY_BYTES_END) {
    const expected = `less than ${formatSize(MEMORY_BYTES_END)} together`;
    const found = `${formatSize(host.scmBytes)} of SCM beside ${
      formatSize(host.dramBytes)
    } of DRAM`;
    report([...path, "scm"], { found, expected });
  }
  const { scheme, doorbell } = host.queuePlan ?? QUEUE_PLAN;
  if (scheme === "classic" && doorbell.carries === "pointer") {
    const expected = "number, as the classic scheme has no pointer in its doorbells";
    report([...path, "queues", "doorbell", "carries"], { found: "pointer", expected });
  }
  if (host.queues * QUEUE_BYTES > host.dramBytes) {
    const expected = `at most ${Math.floor(host.dramBytes / QUEUE_BYTES)} with this DRAM`;
    report([...path, "queues"], { found: String(host.queues), expected });
  }
  checkHints(host, path, report);
  const { wpqLines, iioDrainBytes } = timing.host;
  const leastLines = Math.ceil(iioDrainBytes / 64) + 1;
  if (wpqLines < leastLines) {
    const expected = `at least ${leastLines}, more than the IIO moves at once`;
    report([...path, "timing", "host", "wpqLines"], { found: String(wpqLines), expected });
  }
  for (const [field, unit] of [["dramInterleaveBytes", 64], ["scmInterleaveBytes", 256]] as const) {
    const bytes = timing.host[field];
    if (bytes % unit === 0) continue;
    const expected = `a multiple of ${unit} B`;
    report([...path, "timing", "host", field], { found: formatSize(bytes), expected });
  }
}

function checkRegions(host: HostScenario, path: Path, report: Report): void {
  let end = 0, before = "";
  for (const { name, at, bytes } of host.regions) {
    const here = [...path, "scm", "regions", name];
    if (!NAME_PATTERN.test(name)) {
      report(here, { found: showFound(name), expected: NAME_EXPECTED, key: true });
    }
    if (at + bytes > host.scmBytes) {
      const expected = `an end within the SCM's ${formatSize(host.scmBytes)}`;
      report(here, { found: `a region that ends at ${formatSize(at + bytes)}`, expected });
    }
    if (at < end) {
      const expected = `a region from ${formatSize(end)} on, where ${before} ends`;
      report(here, { found: `a region from ${formatSize(at)} on`, expected });
    }
    if (at + bytes > end) [end, before] = [at + bytes, name];
  }
}

function checkProgram(
  { path, program, draft }: { path: Path; program: DraftProgram; draft: Draft },
  report: Report,
): void {
  const { hostNames } = draft;
  const { on, run, options, native } = program;
  checkNic({ path, program, draft }, report);
  if (native !== undefined) {
    checkNativeName([...path, "native", 0], run, report);
    const { recover } = native;
    if (recover !== undefined) checkNativeName([...path, "recover", 0], recover.argv[0]!, report);
    checkNoServices({ on, draft }, report);
  }
  if (!(on.length === 1 && on[0] === "all")) {
    const places = namePaths(draft.data, [...path, "on"]);
    on.forEach((name, i) => {
      checkKnown(name, { path: places[i]!, known: hostNames, kind: "a host" }, report);
    });
  }
  for (const key of ["to", "from"]) {
    const given = options[key];
    const isMany = Object.hasOwn(PROGRAMS, run) && PROGRAMS[run]![key]?.kind === "hosts";
    const places = isMany ? namePaths(draft.data, [...path, key]) : undefined;
    const peers: readonly unknown[] = Array.isArray(given) ? given : [given];
    for (const [i, peer] of peers.entries()) {
      if (typeof peer !== "string") continue;
      const at = places?.[i] ?? (Array.isArray(given) ? [...path, key, i] : [...path, key]);
      const place = isMany ? "many" : "one";
      checkPeer({ path: at, peer, place, on, draft, run }, report);
      if (isMany) checkMachine({ path: at, peer, before: peers.slice(0, i) }, report);
      checkVersions({ path: at, peer, on, draft }, report);
      if (asksService(run)) checkServed({ path: at, peer, on, draft }, report);
    }
  }
  if (program.run === "log" || program.run === "log-read") checkQuorum(program, path, report);
}

/** What the service stores would be in a native program's SCM. */
function checkNoServices(
  { on, draft }: { readonly on: readonly string[]; readonly draft: Draft },
  report: Report,
): void {
  const natives = on.length === 1 && on[0] === "all" ? draft.hostNames : on;
  for (const path of new Set(natives.flatMap((name) => [draft.hostPaths.get(name) ?? []]))) {
    const own = valueAt(draft.data, [...path, "services"]);
    const given = own ?? valueAt(draft.data, ["defaults", "services"]);
    if (path.length === 0 || given === undefined || given === "none") continue;
    const at = [...(own === undefined ? ["defaults"] : path), "services"];
    const found = `${showFound(given)} on ${path.at(-1)}, which has a native program`;
    report(at, { found, expected: "none there, as the SCM is the native program's" });
  }
}

/** What brings a host's SCM in order is one program, and there has to be some. */
function checkRecoveries({ programs, hosts, hostNames }: Draft, report: Report): void {
  const known = new Set<string>();
  for (const { path, program: { on, native } } of programs) {
    if (native?.recover === undefined) continue;
    const expected = "one recovery for each host, that has SCM";
    for (const host of on.length === 1 && on[0] === "all" ? hostNames : on) {
      const scmBytes = hosts.find(({ name }) => name === host)?.scmBytes;
      const found = known.has(host)
        ? `a second recovery of ${host}`
        : scmBytes === 0
        ? `a recovery of ${host}, which has no SCM`
        : undefined;
      if (found !== undefined) report([...path, "recover"], { found, expected });
      known.add(host);
    }
  }
}

/** A report names a program by its run: a binary's name is told from those of other programs. */
function checkNativeName(path: Path, run: string, report: Report): void {
  if (Object.hasOwn(PROGRAMS, run)) {
    const found = `${showFound(run)}, the name of a shipped program`;
    report(path, { found, expected: "the binary's path" });
  } else if (isOwnFile(run)) {
    const found = `${showFound(run)}, a program in TypeScript`;
    report(path, { found, expected: "a binary, or program: for this one" });
  } else if (!NATIVE_NAME.test(run)) {
    report(path, { found: showFound(run), expected: "a binary's name or path" });
  }
}

/** Without blanks and control characters, by which reports would be misread, and no folder. */
const NATIVE_NAME = /^[^\s\p{Cc}#]*[^\s\p{Cc}/#]$/u;

/** Copies on two RNICs of one host are lost with one host. */
function checkMachine(
  { path, peer, before }: {
    readonly path: Path;
    readonly peer: string;
    readonly before: readonly unknown[];
  },
  report: Report,
): void {
  const same = before.find((name) =>
    typeof name === "string" && name !== "next" && machineOf(name) === machineOf(peer)
  );
  if (same === undefined) return;
  const found = `${showFound(peer)}: the same host as ${showFound(same)}`;
  report(path, { found, expected: "each host once" });
}

function checkNic(
  { path, program: { on, nic = 1 }, draft }: {
    readonly path: Path;
    readonly program: DraftProgram;
    readonly draft: Draft;
  },
  report: Report,
): void {
  const hosts = draft.hosts.filter(({ name }) => on[0] === "all" || on.includes(name));
  const without = hosts.find(({ nics = 1 }) => nics < nic);
  if (without === undefined) return;
  const { name, nics = 1 } = without;
  const has = nics === 1 ? "one RNIC" : `${nics} RNICs`;
  const most = nics === 1 ? "1" : `1 to ${nics}`;
  report([...path, "nic"], { found: String(nic), expected: `${most}, as ${name} has ${has}` });
}

/** Any two quorums share a host: else one could miss a record that the other confirmed. */
function checkQuorum({ options }: DraftProgram, path: Path, report: Report): void {
  const { quorum } = options;
  const replicas = options.from ?? options.to;
  if (typeof quorum !== "number" || !Array.isArray(replicas)) return;
  const { length } = replicas;
  const least = Math.floor(length / 2) + 1;
  if (quorum >= least && quorum <= length) return;
  const right = least === length ? `${least}` : `${least} to ${length}`;
  const expected = `${right}, more than half of the ${length} hosts`;
  report([...path, "quorum"], { found: String(quorum), expected });
}

/** A host or card that programs on `on` name as their peer. */
interface Peer {
  readonly path: Path;
  readonly peer: string;
  readonly on: readonly string[];
  readonly draft: Draft;
}

/** C-01: cards of two versions drop each other's frames, so no program can connect them. */
function checkVersions(
  { path, peer, on, draft }: Peer,
  report: Report,
): void {
  const versions = new Map(draft.hosts.map(({ name, roce = "v2" }) => [name, roce]));
  for (const name of on[0] === "all" ? draft.hostNames : on) {
    const other = peerOf(name, { peer, draft });
    const own = versions.get(name), theirs = versions.get(machineOf(other));
    if (own === undefined || theirs === undefined || own === theirs) continue;
    const found = `${showFound(peer)}: the card of ${other} speaks RoCE${theirs}`;
    report(path, { found, expected: `a host whose card speaks RoCE${own}, as that of ${name}` });
  }
}

/** It would be refused its connection, in the run. A program of one's own may be in the service's place. */
function checkServed(
  { path, peer, on, draft }: Peer,
  report: Report,
): void {
  const runsOn = (host: string, is: (program: DraftProgram) => boolean) =>
    draft.programs.some(({ program }) =>
      is(program) && (program.on[0] === "all" || program.on.includes(host))
    );
  for (const name of on[0] === "all" ? draft.hostNames : on) {
    const other = peerOf(name, { peer, draft });
    const host = draft.hosts.find(({ name }) => name === machineOf(other));
    if (host === undefined || runsOn(host.name, ({ run }) => isOwnFile(run))) continue;
    const isNative = runsOn(host.name, ({ native }) => native !== undefined);
    if (!isNative && host.services.length > 0) continue;
    const why = isNative ? ": it has a native program" : "";
    report(path, { found: showFound(peer), expected: serviceExpected(host.name, why) });
    return;
  }
}

/** `next` is that of a host by name, cyclically. */
function peerOf(host: string, { peer, draft }: { readonly peer: string; readonly draft: Draft }) {
  if (peer !== "next") return peer;
  const names = draft.hostNames.toSorted();
  return names[(names.indexOf(host) + 1) % names.length]!;
}

function checkPeer(
  { path, peer, place, on, draft, run }: {
    readonly path: Path;
    readonly peer: string;
    readonly place: "one" | "many";
    readonly on: readonly string[];
    readonly draft: Draft;
    readonly run: string;
  },
  report: Report,
): void {
  if (peer === "next") {
    if (draft.hostNames.length > 1) return;
    return report(path, { found: '"next"', expected: "a second host to be next" });
  }
  const known = peersIn(draft);
  if (!checkKnown(peer, { path, known, kind: "a host", place }, report)) return;
  if (!on.includes(machineOf(peer)) && on[0] !== "all") return;
  // A program of one's own may be its host's peer: its card loops the frames back.
  if (!Object.hasOwn(PROGRAMS, run)) return;
  report(path, { found: showFound(peer), expected: "another host than the one it runs on" });
}

function checkMethods(draft: Draft, report: Report): void {
  const varying = draft.programs.filter(({ program }) => methodsOf(program).length > 1);
  const first = varying[0];
  if (first === undefined) return;
  const expected = methodsOf(first.program).join(", ");
  for (const { path, program } of varying) {
    const found = methodsOf(program).join(", ");
    if (found !== expected) {
      report([...path, "method"], { found, expected: `${expected}, as above` });
    }
  }
}

function methodsOf(program: DraftProgram): readonly unknown[] {
  return Array.isArray(program.options.method) ? program.options.method : [];
}

function checkFaults(draft: Draft, of: { isBuilt: boolean }, report: Report): void {
  const nodes = [...machinesIn(draft), ...switchNames(draft.fabric)];
  const faults = draft.faults.filter(({ path, fault }) => {
    const word = wordOf(fault);
    const its = word === "shutdown"
      ? { known: draft.hostNames, kind: "a host" }
      : { known: nodes, kind: "a node" };
    return checkKnown(fault.node, { path: [...path, word], ...its }, report);
  });
  checkPowerFaults({ faults, until: draft.until }, report);
  if (of.isBuilt) checkLinkFaults(draft, report);
  checkDeviceFaults(draft, report);
}
