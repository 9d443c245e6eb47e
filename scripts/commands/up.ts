import type { Command } from "commander";
import { patternOfRun } from "../../fabric/bus/subjects.ts";
import { bringUp } from "../../console/rack/bring_up.ts";
import type { RackUp } from "../../console/rack/live/racks.ts";
import { readProcesses } from "../../console/rack/process_table.ts";
import { onInterrupt } from "./interrupt.ts";
import {
  addCheckOption,
  addElsewhereOption,
  addRackOptions,
  checkedScenario,
  type CheckFlags,
  type ElsewhereFlags,
  elsewhereOf,
  mannerOf,
  type RackFlags,
} from "./rack_options.ts";
import { print, Progress, say } from "./output.ts";

interface UpFlags extends RackFlags, CheckFlags, ElsewhereFlags {
  readonly showCredentials?: boolean;
}

export function addUp(program: Command): void {
  const up = addRackOptions(program.command("up <scenario>"), "; written by rack down");
  addElsewhereOption(addCheckOption(up))
    .description("bring a rack up in the background, and leave it up")
    .option("--show-credentials", "print user and password of the nats-server, too")
    .addHelpText(
      "after",
      `
A scenario's put that has no file is left out: rack put writes one when the rack is up.

Example:
  rack up scripts/scenarios/persist_pair.yaml --ddio off
  rack put --to b ./data.bin && rack ls --from b && rack down`,
    )
    .action(bringItUp);
}

async function bringItUp(path: string, flags: UpFlags): Promise<void> {
  const manner = mannerOf(flags);
  const quiet = flags.json === true;
  const scenario = await checkedScenario(path, flags);
  const progress = new Progress({ quiet });
  const rack = await bringUp(scenario, {
    ...manner,
    prepare: { ...manner.prepare, native: { kind: "run", onNotice: quiet ? () => {} : say } },
    ...elsewhereOf(flags),
    signal: onInterrupt("taking the rack down"),
    onLeftOut: (hosts) => {
      if (quiet) return;
      say(`put on ${hosts.join(", ")} is left out as it has no file: rack put writes one`);
    },
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  try {
    print(flags.json ? JSON.stringify(document(rack, flags)) : text(rack, flags));
  } catch (error) {
    say(`${rack.id} stays up: rack down --run ${rack.id}`);
    throw error;
  }
}

function document(rack: RackUp, flags: UpFlags): Record<string, unknown> {
  const { url, user, password, token } = rack.supervisor;
  return {
    run: rack.id,
    directory: rack.directory,
    scenario: rack.file.plan.scenario,
    seed: rack.file.plan.seed,
    url,
    subjects: patternOfRun(rack.file.run),
    processes: readProcesses(rack.directory).length,
    ...(flags.showCredentials && { user, password, token }),
  };
}

function text(rack: RackUp, flags: UpFlags): string {
  const { url, user, password, token } = rack.supervisor;
  const credential = user !== undefined
    ? `--user ${user} --password ${password} `
    : token !== undefined
    ? `--user ${token} `
    : "";
  const shown = flags.showCredentials ? credential : "";
  const hint = flags.showCredentials || credential === ""
    ? ""
    : "\n       (with the user and password that --show-credentials prints)";
  return [
    `${rack.id} is up: ${
      readProcesses(rack.directory).length
    } processes, seed ${rack.file.plan.seed}`,
    `watch  nats --server ${url} ${shown}subscribe '${patternOfRun(rack.file.run)}'${hint}`,
    `kept   ${rack.directory}`,
    "next   rack ps, rack put, rack get, rack kill, rack start, rack pause, rack down",
  ].join("\n");
}
