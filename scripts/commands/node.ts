import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import { cacheFolder } from "../../console/base/paths.ts";
import { type ExistingNats, existingNats } from "../../console/rack/existing_nats.ts";
import { USERS_FILE } from "../../console/rack/elsewhere.ts";
import { isThere } from "../../console/base/files.ts";
import { findUp } from "../../console/rack/live/racks.ts";
import { runNode } from "../../console/rack/node.ts";
import { listRuns } from "../../console/rack/run_directory.ts";
import { onInterrupt } from "./interrupt.ts";
import { addNatsOptions, given, type NatsCredentialFlags } from "./options.ts";
import { natsOf } from "./rack_options.ts";
import { print, say } from "./output.ts";

interface NodeFlags extends NatsCredentialFlags {
  readonly run?: string;
  readonly dir?: string;
  readonly json?: boolean;
}

export function addNode(program: Command): void {
  addNatsOptions(program.command("node <run-or-urls> <device...>"))
    .description("start devices of a rack on this machine, which did not bring it up")
    .option("--run <id>", "which run, or how its name begins; else the one that expects them")
    .option("--dir <folder>", "a folder for each device: SCM, logs, outputs; else in the cache")
    .option("--json", "one JSON document on stdout, at the end")
    .addHelpText(
      "after",
      `
The rack is brought up with --elsewhere DEVICE,… on a nats-server that both machines reach. This command waits
for it, takes the plan from it, and obeys its orders until it is taken down. Ctrl-C, like the end of this machine,
is a power failure of its devices; the same command with the same folder brings them back with their SCM.

Example:
  rack up scripts/scenarios/persist_pair.yaml --nats lab1,lab2 --nats-users users.json --elsewhere b,b-rnic
  rack node lab1,lab2 b b-rnic --nats-users users.json       # on the other machine`,
    )
    .action(node);
}

async function node(place: string, devices: readonly string[], flags: NodeFlags): Promise<void> {
  const { dir, json = false } = flags;
  const signal = onInterrupt("cutting the power of its devices");
  const { nats, run } = await rackAt(place, flags);
  const told = json ? () => {} : say;
  const ended = await runNode({
    nats,
    ...given({ run }),
    devices,
    directoryOf: (run) => dir === undefined ? `${cacheFolder("nodes")}/${run}` : absolute(dir),
    signal,
    onEvent: told,
    onStart: (run, directory) => told(`${run}: starting ${devices.join(", ")} in ${directory}`),
  });
  const { run: id, directory, end, untold } = ended;
  if (json) print(JSON.stringify({ ...ended, run: id }));
  else print(`${id} ${end === "down" ? "is down" : "goes on without"}: kept ${directory}`);
  if (untold.length === 0) return;
  say(`${id} has not heard of the power failure of ${untold.join(", ")}: it will miss them`);
  Deno.exitCode = EXIT.unclear;
}

/** A rack of this machine by its name, or a server. */
async function rackAt(
  place: string,
  flags: NodeFlags,
): Promise<{ readonly nats: ExistingNats; readonly run?: string | undefined }> {
  const known = /^[\w-]+$/.test(place) &&
    (await listRuns()).some(({ id, up }) => up && id.startsWith(place));
  if (!known) return { nats: natsOf(place, flags), run: flags.run };
  const { id, directory, supervisor: { url, user, password, token, creds, ca } } = await findUp(
    place,
  );
  const file = `${directory}/${USERS_FILE}`;
  if (isThere(file)) return { nats: existingNats({ nats: url, natsUsers: file })!, run: id };
  return { nats: { address: { url, ...given({ user, password, token, creds, ca }) } }, run: id };
}

function absolute(path: string): string {
  return path.startsWith("/") ? path : `${Deno.cwd()}/${path}`;
}
