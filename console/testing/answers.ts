/** Runs and explores for a test, and makes what it sees of them. */
import { eventsIn, type RecordedRun } from "../captures/captures.ts";
import { type FrameSeen, isFrameSeen } from "../../fabric/capture/observation.ts";
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import { SCM_BASE } from "../../fabric/rack/plan/shared_region.ts";
import { describeFrame, formatAddress, type Naming } from "../../fabric/trace/describe.ts";
import { hostsByAddress } from "../../fabric/trace/trace.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import { NO_CHECK } from "../base/no_check.ts";
import { workersFor } from "../base/workers.ts";
import type { ImageView } from "../checks/run_record.ts";
import { exploreOptions } from "../explore/options.ts";
import { exploreScenario } from "../explore/explore_scenario.ts";
import { exploredText } from "../explore/report.ts";
import { checkScenarioTypes } from "../rack/own/types/check_scenario.ts";
import type { Prepared } from "../rack/prepare.ts";
import { runScenario } from "../rack/run_scenario.ts";
import { type Reported, reportsOf } from "../rack/run_variant.ts";
import type { RunReport } from "../reports/method_report.ts";
import { runText } from "../reports/report_text.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { changedScenario, type CheckedQuestion, choicesOf, exploreValues } from "./question.ts";
import type {
  ExploreAnswer,
  Explored,
  MemoryAnswer,
  Packet,
  ProgramReport,
  RackReport,
  RunAnswer,
  VariantAnswer,
} from "./types.ts";

/** @param how.onLog given what programs log, line by line. @throws Refusal, RackError; the reason of `signal`. */
export async function runFor(
  { options }: CheckedQuestion & { readonly kind: "run" },
  { signal, onLog }: { readonly signal: AbortSignal; readonly onLog: (text: string) => void },
): Promise<RunAnswer> {
  const { source, folder } = await changedScenario(options);
  const judged: Parameters<typeof variantOf>[] = [], packets = new Map<string, Packet[]>();
  try {
    await checkTypes(source, options);
    const report = await runScenario(source, {
      prepare: { ...choicesOf(options), native: { kind: "run" } },
      ...(options.claims && { claims: true }),
      ...(options.capture && { pcap: true }),
      signal,
      onLog,
      onRecorded(recorded) {
        if (!options.capture) return;
        for (const each of recorded) packets.set(each.directory, packetsOf(each));
      },
      onJudged: ({ one, outcome }) => void judged.push([one, outcome]),
    });
    // Captures are taken when all variants have ended.
    const variants = judged.map(([one, outcome]) => ({
      ...variantOf(one, outcome),
      ...(options.capture && { packets: packets.get(outcome.directory) ?? [] }),
    }));
    return { kind: "run", report: plainReport(report), text: runText(report).join("\n"), variants };
  } finally {
    if (folder !== undefined) await Deno.remove(folder, { recursive: true });
  }
}

/** @throws Refusal, RackError; the reason of `signal`. */
export async function exploreFor(
  { options }: CheckedQuestion & { readonly kind: "explore" },
  signal: AbortSignal,
): Promise<ExploreAnswer> {
  const { source, folder } = await changedScenario(options);
  let isKept = false;
  try {
    await checkTypes(source, options);
    const { explored } = await exploreScenario(source, {
      prepare: { ...choicesOf(options), native: { kind: "run" } },
      explore: { ...exploreOptions(exploreValues(options)), stopped: () => signal.aborted },
      // A runner of tests has several of them under way.
      jobs: workersFor({ jobs: options.jobs ?? 1 }),
    });
    signal.throwIfAborted();
    // The command that shows a counterexample again reads the scenario.
    isKept = explored.some(({ command }) => command !== null);
    return {
      kind: "explore",
      text: exploredText(explored),
      explored: explored.map(({ label, verdict, command }): Explored => {
        const { counterexample, why = "", ...rest } = verdict;
        return { ...rest, label, why, command, counterexample };
      }),
    };
  } finally {
    if (folder !== undefined && !isKept) await Deno.remove(folder, { recursive: true });
  }
}

/** As the command does before it loads own programs. @throws Refusal with all that is wrong in them. */
async function checkTypes(
  source: ScenarioSource,
  { check }: { readonly check: boolean },
): Promise<void> {
  if (check && !Deno.env.get(NO_CHECK)) await checkScenarioTypes(source);
}

/** The compiler holds the two types of a report to each other. */
function plainReport(report: RunReport): RackReport {
  return report;
}

function variantOf(
  { label, plan, variant }: Pick<Prepared, "label" | "plan" | "variant">,
  outcome: Reported,
): VariantAnswer {
  const { digest, virtualPs, record } = outcome;
  const memory: Record<string, MemoryAnswer> = {};
  for (const node of plan.nodes) {
    const image = node.kind === "host" ? record?.scm(node.name) : undefined;
    if (node.kind !== "host" || image === undefined) continue;
    const { regions = [] } = variant.hosts.find(({ name }) => name === node.name) ?? {};
    memory[node.name] = {
      address: SCM_BASE,
      length: node.config.scmBytes,
      regions: Object.fromEntries(regions.map(({ name, at, bytes }) => [name, { at, bytes }])),
      pieces: [...piecesOf(image, node.config.scmBytes)],
    };
  }
  const reports = reportsOf(outcome).map(({ time, node, topic, value }): ProgramReport => {
    return { time, node, topic, value };
  });
  return { label, digest, virtualPs, reports, memory };
}

const PAGE_BYTES = 4096, BLOCK_BYTES = 2 ** 20;

/** Pieces of whole pages that are not all zeros. */
function* piecesOf(image: ImageView, length: number): Generator<readonly [number, Uint8Array]> {
  for (let at = 0; at < length; at += BLOCK_BYTES) {
    const block = image.read(at, Math.min(length, at + BLOCK_BYTES)).slice();
    let from = 0;
    for (let end = 0; end <= block.length; end += PAGE_BYTES) {
      const page = block.subarray(end, end + PAGE_BYTES);
      if (page.length > 0 && !isZero(page)) continue;
      if (from < end) yield [at + from, block.slice(from, end)];
      from = end + PAGE_BYTES;
    }
  }
}

/** @param bytes of a buffer of its own, from a page's begin: whole words, but for the end of a memory. */
function isZero(bytes: Uint8Array<ArrayBuffer>): boolean {
  if (bytes.length % 4 !== 0) return bytes.every((byte) => byte === 0);
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4).every((w) => w === 0);
}

/** The frames that cards of a recorded run have sent, by time. */
function packetsOf({ plan, directory }: RecordedRun): Packet[] {
  const names = hostsByAddress(plan);
  const naming = (address: number) => {
    const text = formatAddress(address);
    return names.get(text) ?? text;
  };
  const found: Packet[] = [];
  for (const { seen } of eventsIn(directory)) {
    for (const each of seen) {
      const node = plan.nodes[each.node]!;
      if (each.kind !== "sent" || !isFrameSeen(each) || node.kind !== "rnic") continue;
      found.push(packetOf(each, { card: node.name, naming }));
    }
  }
  return found.sort((x, y) => x.startPs - y.startPs);
}

function packetOf(
  { startPs, endPs, frame, effect }: FrameSeen,
  { card, naming }: { readonly card: string; readonly naming: Naming },
): Packet {
  const decoded = decodePacket(frame);
  const packet = isRefusal(decoded) ? null : decoded;
  return {
    ...{ startPs, endPs, card, frame, packet },
    from: packet === null ? hostOfRnic(card) ?? card : naming(packet.sourceAddress),
    to: packet === null ? "" : naming(packet.destinationAddress),
    name: packet === null ? "" : opcodeRow(packet.bth.opcode)?.name ?? "",
    text: describeFrame(frame, naming),
    effect: effect === undefined ? null : effect.says.join(", "),
  };
}
