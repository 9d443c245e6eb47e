import type { Command } from "commander";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { countOf } from "../../console/checks/finding.ts";
import {
  awaitService,
  isService,
  killDevice,
  killDeviceAt,
  killService,
  startDevice,
} from "../../console/rack/live/power.ts";
import { refuseLocked } from "../../console/rack/live/lock.ts";
import { findUp, withRack } from "../../console/rack/live/racks.ts";
import { addOrderOptions, type OrderFlags, timeOf, whole } from "./options.ts";
import { printResult, say } from "./output.ts";

interface PowerFlags extends OrderFlags {
  readonly at?: string;
  readonly acceptDamage?: boolean;
}

export function addPower(program: Command): void {
  addOrderOptions(program.command("kill <node>"))
    .description("cut a device's power: its process dies (kill -9); or kill timekeeper or nats")
    .option("--at <time>", "at this virtual time (40us), instead of now")
    .addHelpText(
      "after",
      "\nA kill -9 of the process from outside is the same event." +
        "\nThe supervisor starts timekeeper and nats again by itself.\n" +
        "\nExample:\n  rack kill b\n  rack kill b --at 2.5ms",
    )
    .action(kill);
  addOrderOptions(program.command("shutdown <host>"))
    .description("shut a host down in order: programs end, shared regions go home, caches to SCM")
    .option("--within <time>", "its power goes off so long after the begin, done or not", "1ms")
    .option("--timeout <seconds>", "how long to wait", "120")
    .addHelpText(
      "after",
      "\nReturns when its power is off; the exit code is 1 where that came before all was done." +
        "\nAs `{ at: 80us, shutdown: b, within: 1ms }` among a scenario's faults.\n" +
        "\nExample:\n  rack shutdown b --within 2ms\n  rack start b",
    )
    .action(shutDown);
  addOrderOptions(program.command("start <node>"))
    .description("give a device its power back; or wait for timekeeper or nats to be back")
    .option("--accept-damage", "go on with what there is of a host's damaged SCM file")
    .addHelpText(
      "after",
      "\nA host comes back with cold caches and its SCM; a card of it that failed comes back, too.\n" +
        "\nExample:\n  rack start b",
    )
    .action(start);
}

async function kill(node: string, flags: PowerFlags): Promise<void> {
  if (flags.at !== undefined) {
    const at = timeOf("--at", flags.at);
    await withRack(flags.run, (link) => killDeviceAt(link, node, at), flags);
    printResult(flags, { node, atPs: at }, `${node}: power will fail at ${formatTime(at)}`);
  } else if (isService(node)) {
    // Without the bus, which may be what is to be killed.
    const rack = await findUp(flags.run);
    if (!flags.overrideLock) refuseLocked(rack);
    killService(rack, node);
    printResult(flags, { node, killed: true }, `${node} is killed; the supervisor starts it again`);
  } else {
    const { nodes, at } = await withRack(flags.run, (link) => killDevice(link, node), flags);
    const text = `${nodes.join(", ")}: power failed at ${formatTime(at)}`;
    printResult(flags, { node, nodes, atPs: at }, text);
  }
}

interface ShutDownFlags extends OrderFlags {
  readonly within: string;
  readonly timeout: string;
}

async function shutDown(host: string, flags: ShutDownFlags): Promise<void> {
  const options = {
    withinPs: timeOf("--within", flags.within, { least: 1, expected: "a time > 0 such as 1ms" }),
    timeoutSeconds: whole("--timeout", flags.timeout, { least: 1, most: 86_400 }),
    onHeld: ({ now }: { readonly now: Time }) =>
      say(`Time is held at ${formatTime(now)}: the shutdown waits for rack resume, step or until`),
  };
  const { shutDownHost } = await import("../../console/rack/live/shutdown.ts");
  const done = await withRack(flags.run, (link) => shutDownHost(link, host, options), flags);
  const { nodes, begun, complete, offAt, stopped, regions, lines } = done;
  const counts = { programs: stopped, regions, lines };
  const what = [
    countOf(stopped, "program"),
    ...(regions.length > 0 ? [`shared ${regions.join(", ")}`] : []),
    `${countOf(lines, "line")} of SCM`,
  ].join(", ");
  printResult(
    flags,
    { host, nodes, atPs: begun, completePs: complete, offPs: offAt, ...counts },
    `${host}: shut down at ${formatTime(begun)}, done after ${
      formatTime(complete - begun)
    } (${what}); power off at ${formatTime(offAt)}`,
  );
}

async function start(node: string, flags: PowerFlags): Promise<void> {
  await withRack(flags.run, async (link) => {
    if (isService(node)) {
      const { pid, virtualPs } = await awaitService(link, node);
      printResult(flags, { node, pid, virtualPs }, `${node} is up, pid ${pid}`);
    } else {
      const { nodes, started, at } = await startDevice(link, node, {
        acceptDamage: flags.acceptDamage === true,
      });
      const text = `${nodes.join(", ")}: power is back at ${formatTime(at)}`;
      printResult(flags, { node, started, atPs: at }, text);
    }
  }, flags);
}
