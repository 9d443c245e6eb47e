import type { Command } from "commander";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { attach, type Attached } from "../../console/rack/remote/attach.ts";
import { onInterrupt } from "./interrupt.ts";
import { addNatsOptions, given, type NatsCredentialFlags } from "./options.ts";
import { natsOf } from "./rack_options.ts";
import { printResult, say } from "./output.ts";

interface AttachFlags extends NatsCredentialFlags {
  readonly run?: string;
  readonly json?: boolean;
}

export function addAttach(program: Command): void {
  addNatsOptions(program.command("attach <urls>"))
    .description("put a rack that runs elsewhere into the list of racks that are up here")
    .option("--run <id>", "which run, or how its name begins; else the only one on the server")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
<urls> is the nats-server of the rack, or those of its cluster, with the supervisor's credential: in it, or in
a file. Then all commands for a rack that is up work from here: ps, kill, start, put, get, link, pause, step,
until, why, events, logs, checkpoint, chaos, console. Their files come over the bus; rack down --run RUN lets go of the rack
again, which goes on.

Example:
  rack attach nats://_supervisor:PASSWORD@lab1:4222
  rack attach lab1,lab2 --nats-users bus/users.json --run persist-pair`,
    )
    .action(attachIt);
}

async function attachIt(urls: string, flags: AttachFlags): Promise<void> {
  const attached = await attachTo(urls, flags);
  const { runFile: { run, plan, partitions }, directory } = attached;
  const text = [
    `${run} is attached: ${plan.scenario}, seed ${plan.seed}, ${partitions.length} processes`,
    `kept   ${directory}`,
    `next   rack ps, rack put, rack get, rack kill, rack start, rack pause, rack down --run ${run}`,
  ].join("\n");
  const { scenario, seed } = plan;
  const document = { run, directory, scenario, seed, processes: partitions.length };
  printResult(flags, document, text);
}

/** @throws Refusal, BusError, RackError */
export async function attachTo(
  urls: string,
  flags: NatsCredentialFlags & { readonly run?: string; readonly json?: boolean },
): Promise<Attached> {
  const signal = onInterrupt("attaching nothing");
  return await attach({
    nats: natsOf(urls, flags),
    ...given({ run: flags.run }),
    signal,
    onWaiting: flags.json ? () => {} : say,
  });
}

/**
 * For commands with `--attach`.
 * @param more options that belong to it, too.
 * @throws Refusal for what says how to attach, without what.
 */
export function refuseWithoutAttach(
  { attach, natsUsers, natsCreds, natsCa }: NatsCredentialFlags & { readonly attach?: string },
  more: Readonly<Record<string, string | undefined>> = {},
): void {
  if (attach !== undefined) return;
  const of = { ...more, "--nats-users": natsUsers, "--nats-creds": natsCreds, "--nats-ca": natsCa };
  const alone = Object.entries(of).find(([, value]) => value !== undefined);
  if (alone === undefined) return;
  throw refusal(alone[0], { found: "without --attach", expected: "--attach URLS, too" });
}
