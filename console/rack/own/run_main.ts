/**
 * A process that runs a rack with own programs (`--pack all`): it opens the run's files, gives up its
 * rights, and only then loads the programs. Or a rack with native programs, and none of those. Its job
 * comes from `run_variant.ts`.
 */
import type { CreateNode } from "../../../fabric/partition/partition.ts";
import { type RunFile, startsNative } from "../../../fabric/rack/assembly/run_file.ts";
import { giveUpRights } from "../../../nodes/files.ts";
import { loadOwnPrograms } from "../../../nodes/load_own_programs.ts";
import { LOG_TOPIC } from "../../../nodes/host/cpu/log_text.ts";
import { livesOf } from "../../checks/lives.ts";
import { type DurableLog, durableLog } from "../../checks/durable_log.ts";
import { endOf, judgeProtocols, type ProtocolVerdict } from "../../reports/protocol_checks.ts";
import type { ImageView } from "../../checks/run_record.ts";
import { recordOfWatched, type Watch, watchRun } from "../run_record.ts";
import { type OwnPrograms, simulate, type Simulated } from "../simulate.ts";
import { heldFor, withHeld } from "../survived.ts";
import { answerConfined, type Asker } from "./answer.ts";
import { watchLoops } from "./loop_watch.ts";

export interface RunJob {
  readonly runFilePath: string;
  readonly isChecked: boolean;
  readonly limitMs?: number | undefined;
  /**
   * A debugger may hold it up at any place, for any time; recoveries and checks run here, so that
   * it stops in them, too.
   */
  readonly isInspected: boolean;
}

/** A report of progress, or a line of a program's log. */
export type RunProgress = readonly [node: string, topic: string, value: unknown];

export interface RunAnswer extends Simulated {
  readonly durable: DurableLog["durable"];
  readonly protocols?: readonly ProtocolVerdict[];
}

async function run(
  { runFilePath, isChecked, limitMs, isInspected }: RunJob,
  { tell }: Asker<RunProgress>,
): Promise<RunAnswer> {
  const runFile: RunFile = JSON.parse(await Deno.readTextFile(runFilePath));
  const { plan, directory } = runFile;
  const log = isChecked ? durableLog(livesOf(plan, plan.faults)) : undefined;
  const watch = isInspected ? watchRun(plan) : undefined;
  let own: OwnPrograms["own"] = {};
  let protocols: readonly ProtocolVerdict[] | undefined;
  const simulated = await simulate(runFile, {
    watch: { ...log, ...(watch && { onAudit: watch.onAudit, onReport: watch.onReport }) },
    onEnd: watch && ((scm) => protocols = judgedHere(runFile, watch, { scm, own })),
    limitMs,
    onProgress: (node, topic, value) => {
      if (topic === "progress" || topic === LOG_TOPIC) tell([node, topic, value]);
    },
    async load() {
      const loops = await watchLoops();
      if (!startsNative(runFile)) await giveUpRights([directory]);
      own = await loadOwnPrograms(runFile);
      const replace = (create: CreateNode) => isInspected ? create : loops.steps(create, plan, own);
      return { own, replace };
    },
  });
  return { ...simulated, durable: log?.durable ?? [], ...(protocols && { protocols }) };
}

function judgedHere(
  { plan, directory }: RunFile,
  watch: Watch,
  { scm, own }: { readonly scm: (host: string) => ImageView; readonly own: OwnPrograms["own"] },
): readonly ProtocolVerdict[] {
  const record = recordOfWatched({ plan, directory, hasWire: false }, watch);
  const survived = (host: string) => withHeld(scm(host), heldFor(host, record.reports));
  return judgeProtocols(endOf({ ...record, scm: survived }, own));
}

if (import.meta.main) await answerConfined(run);
