import type { Command } from "commander";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import {
  ladderDocument,
  operationIn,
  type Trace,
  TRACED_BYTES,
  traceOfRun,
  traceScenario,
} from "../../console/rack/trace_operation.ts";
import { onInterrupt } from "./interrupt.ts";
import { given, type LiveFlags, whole } from "./options.ts";
import {
  addCheckOption,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  prepareOptions,
  type VariantFlags,
} from "./rack_options.ts";
import { printResult, say } from "./output.ts";

interface TraceFlags extends VariantFlags, LiveFlags, CheckFlags {
  readonly on?: string;
  readonly operation: string;
}

export function addTrace(program: Command): void {
  addCheckOption(addVariantOptions(program.command("trace [scenario]")))
    .description("run a scenario in this process, and show one operation step by step")
    .option("--run <id>", "of a run that was made with --trace, instead of running anything")
    .option(
      "--operation <n>",
      "which one, from 0 on: a message of put, a work request, or an access to a shared region",
      "0",
    )
    .option("--on <host>", "whose operations; else those of all hosts, as they began")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
A put without a file writes ${TRACED_BYTES / 1024} KiB of made-up data.

Example:
  rack trace scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio off
  rack trace scripts/scenarios/coherent_cost.yaml --on far-remote
  rack trace --run persist-pair-20260101-120000-1a2b --operation 5`,
    )
    .action(trace);
}

async function trace(scenario: string | undefined, flags: TraceFlags): Promise<void> {
  const { on, operation } = flags;
  const source = await traceOf(scenario, flags);
  const index = whole("--operation", operation, { least: 0, most: Number.MAX_SAFE_INTEGER });
  const { ladder, count } = operationIn(source, { index, ...given({ on }) });
  const text = `${source.label}: operation ${operation} of ${count}\n${ladderText(ladder)}`;
  printResult(flags, ladderDocument(source, ladder), text);
}

async function traceOf(scenario: string | undefined, flags: TraceFlags): Promise<Trace> {
  const { run, method, ddio } = flags;
  if (scenario !== undefined && run === undefined) {
    const options = prepareOptions(flags, "all");
    return await traceScenario(await checkedScenario(scenario, flags), {
      ...options,
      native: { kind: "run", onNotice: say },
      signal: onInterrupt("ending the run"),
      onLog: say,
    });
  }
  if (scenario === undefined && run !== undefined) {
    return await traceOfRun(run, given({ method, ddio }));
  }
  const expected = "a scenario, or --run with a run made with --trace";
  throw refusal("", { found: "rack trace", expected });
}
