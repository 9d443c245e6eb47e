import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import { oneOf, optionRefusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { rnicName } from "../../fabric/rack/plan/names.ts";
import type { Scenario } from "../../fabric/rack/scenario/scenario.ts";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import type { PerftestName } from "../../nodes/host/programs/perftest/terms.ts";
import { unusedLabel } from "../captures/capture_files.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { onlyOne, prepare } from "./prepare.ts";
import { type RunManner, runVariants } from "./run_scenario.ts";
import type { Outcome } from "./run_variant.ts";

export interface RunPerftestOptions extends RunManner {
  readonly options: Readonly<Record<string, unknown>>;
  readonly packing: Packing;
  /** Client and server; default: the first host of the scenario, and the next. */
  readonly from?: string;
  readonly to?: string;
  /** Of both hosts, from 0; default: the first ones. */
  readonly rnic?: number;
  /** Default: on, where the scenario has both. */
  readonly ddio?: "on" | "off";
  readonly seed?: number;
}

/**
 * Runs one test without the scenario's programs and faults.
 * @returns its result, and the paths of the captures.
 * @throws Refusal
 */
export async function runPerftest(
  test: PerftestName,
  source: ScenarioSource,
  options: RunPerftestOptions,
) {
  const { path, scenario } = source;
  const { from, to } = endsOf(scenario, options);
  const isMixed = scenario.hosts.some(({ ddio }) => ddio === "both");
  const { packing, seed, ddio = isMixed ? "on" : undefined, rnic = 0 } = options;
  const nic = rnic > 0 && { nic: rnic + 1 };
  const prepared = onlyOne(
    await prepare(source, {
      packing,
      ...(ddio !== undefined && { ddio }),
      ...(seed !== undefined && { seed }),
      programs: [
        { on: to, run: "perftest-server", at: 0, ...nic, options: {} },
        {
          on: from,
          run: "perftest",
          at: 0,
          ...nic,
          options: { to: rnic === 0 ? to : rnicName(to, rnic), test, ...options.options },
        },
      ],
      faults: [],
      linkFaults: "none",
      signal: options.signal,
    }),
    path,
  );
  const named = { ...prepared, label: `${test}, ${prepared.label}` };
  const { results: [outcome], captures } = await runVariants([named], {
    ...options,
    captureLabel: unusedLabel,
    onOutcome: (_, { outcome }) => Promise.resolve(outcome),
  });
  const result = resultOf(outcome!);
  return { scenario: scenario.name, seed: prepared.plan.seed, result, outcome: outcome!, captures };
}

function endsOf(scenario: Scenario, given: EndsGiven): { from: string; to: string } {
  const ends = hostsOf(scenario, given), { rnic = 0 } = given;
  for (const { name, nics = 1 } of scenario.hosts) {
    if (rnic < nics || (name !== ends.from && name !== ends.to)) continue;
    const expected = nics === 1 ? "rackmesh0" : `rackmesh0 to rackmesh${nics - 1}`;
    const found = `rackmesh${rnic}: ${name} has ${nics === 1 ? "one RNIC" : `${nics} RNICs`}`;
    throw refusal("--ib-dev", { found, expected });
  }
  return ends;
}

type EndsGiven = Pick<RunPerftestOptions, "from" | "to" | "rnic">;

function hostsOf(scenario: Scenario, given: EndsGiven): { from: string; to: string } {
  const names = scenario.hosts.map(({ name }) => name);
  for (const [option, name] of [["from", given.from], ["to", given.to]] as const) {
    if (name === undefined || names.includes(name)) continue;
    throw refusal((named) => named(option), {
      found: `"${name}"`,
      expected: oneOf(names, name),
    });
  }
  const from = given.from ?? names.find((name) => name !== given.to)!;
  const to = given.to ?? names.find((name) => name !== from);
  if (to !== undefined && to !== from) return { from, to };
  throw names.length < 2
    ? refusal("", { found: `perftest needs two hosts: the scenario has ${names.join(", ")}` })
    : optionRefusal((named) => ({
      path: "",
      found: `${named("from")} and ${named("to")} are both "${from}"`,
      expected: `two of ${names.join(", ")}`,
    }));
}

function resultOf(outcome: Outcome): PerftestResult {
  const reports = outcome.finals.flatMap((final) => final.reports);
  for (const { topic, value } of reports) {
    const { program } = Object(value) as { program?: unknown };
    if (topic === "result" && program === "perftest") return value as PerftestResult;
  }
  const failure = reports.find(({ topic }) => topic === "program-failed");
  const why = failure === undefined
    ? "it has reported nothing"
    : String((failure.value as { message?: unknown }).message);
  throw refusal("", { found: `perftest gave no result: ${inFlags(why)}` });
}

const FLAGS: Readonly<Record<string, string>> = {
  cqModeration: "--cq-mod",
  depth: "--tx-depth",
  duration: "--duration",
  hopLimit: "--hop_limit",
  inlineBytes: "--inline_size",
  iterations: "--iters",
  margin: "--margin",
  outstanding: "--outs",
  postList: "--post_list",
  qps: "--qp",
  retryCount: "--retry_count",
  rxDepth: "--rx-depth",
  size: "--size",
  timeout: "--qp-timeout",
  trafficClass: "--tclass",
};

/** A refusal, with perftest's flags for its subject and for what bounds it. */
export function inFlags(text: string): string {
  const named = (word: string) => FLAGS[word] ?? word;
  return text.replace(/^\w+(?= (?:must|goes) )/, named)
    .replace(/(?<= a multiple of )\w+/, named)
    .replace(/(?<= at most )the depth\b/, named("depth"));
}
