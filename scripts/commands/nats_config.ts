/** `rack nats-config`: users and rights of a rack, for a nats-server of one's own. */
import type { Command } from "commander";
import { PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { writeNatsConfig } from "../../console/rack/nats_config.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { wordOf } from "./options.ts";
import {
  addPackOption,
  addVariantOptions,
  prepareOptions,
  type VariantFlags,
} from "./rack_options.ts";
import { print } from "./output.ts";

interface NatsConfigFlags extends VariantFlags {
  readonly out: string;
  readonly account: string;
  readonly pack: string;
  readonly json?: boolean;
}

export function addNatsConfig(program: Command): void {
  const command = addVariantOptions(program.command("nats-config <scenario>"));
  addPackOption(command, { words: PROCESS_PACKINGS, normal: "node" })
    .description("write users and rights of a rack for a nats-server or cluster of your own")
    .requiredOption("--out <dir>", "the folder for both files")
    .option("--account <name>", "NATS' account, also the beginning of the users' names", "rackmesh")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
Each process has a user of its own, which may say and hear what its cables allow. Include the
configuration in each server's accounts, and reload the servers. It holds for all runs of scenarios
with these devices, cables and --pack.

Example:
  rack nats-config scripts/scenarios/persist_pair.yaml --account lab --out ./bus
  # n1.conf, n2.conf …: accounts { include "bus/lab.conf" }
  nats-server --signal reload=PID
  rack run scripts/scenarios/persist_pair.yaml --nats n1,n2 --nats-users ./bus/users.json`,
    )
    .action(natsConfig);
}

async function natsConfig(path: string, flags: NatsConfigFlags): Promise<void> {
  const { out, account } = flags;
  const packing = wordOf("--pack", flags.pack, PROCESS_PACKINGS);
  const scenario = await readScenario(path, flags);
  const prepare = prepareOptions(flags, packing);
  const written = await writeNatsConfig(scenario, { prepare, out, account });
  const { configFile, usersFile, users } = written;
  if (flags.json) return print(JSON.stringify(written));
  print(
    [
      `${configFile}: ${users.length} users of the account ${account}`,
      `  on each server: accounts { include "${configFile}" }, then nats-server --signal reload=PID`,
      `${usersFile}: their passwords, for --nats-users`,
    ].join("\n"),
  );
}
