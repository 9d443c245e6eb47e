/**
 * The process behind `rack up`: `supervise.ts RUN_FILE`, started detached. It owns the processes of
 * one rack, restarts broker and timekeeper when they end, and ends everything on SIGTERM. It writes
 * to the run directory:
 *
 *     supervisor.json   the broker's address with its credential, readable by the owner only
 *     processes.json    see process_table.ts
 *     ended.json        why it ended, unless by SIGTERM
 */
import { accessOfProcesses, USERS } from "../../fabric/bus/access.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { BUS_ENVIRONMENT, type RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { existingBroker, existingFrom } from "./existing_nats.ts";
import { type Broker, connectSupervisor, type NatsServer, startNatsServer } from "./nats_server.ts";
import { writeProcesses } from "./process_table.ts";
import { writeUsers } from "./elsewhere.ts";
import { collectDevices } from "./remote/collect.ts";
import { reserveEnd, writeEnd, writeSupervisor, writeUncollected } from "./run_directory.ts";
import { Supervisor, type SupervisorEvent } from "./supervisor.ts";
import { explain } from "./failure.ts";
import { stallText } from "./stall_text.ts";

async function main(runFilePath: string): Promise<void> {
  const runFile: RunFile = JSON.parse(await Deno.readTextFile(runFilePath));
  const { directory, run } = runFile;
  const log = logTo(`${directory}/logs/supervisor.log`);
  reserveEnd(directory);
  const ending = Promise.withResolvers<void>();
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => {
      log(`${signal}: taking the rack down`);
      ending.resolve();
    });
  }
  let server: NatsServer | undefined, supervisor: Supervisor | undefined;
  const list = () => {
    try {
      writeProcesses(directory, [
        { name: "supervisor", kind: "supervisor", pid: Deno.pid, nodes: [] },
        ...(server ? [{ name: "nats", kind: "nats" as const, pid: server.pid, nodes: [] }] : []),
        ...supervisor?.processes() ?? [],
      ]);
    } catch (error) {
      // Full disk: the table is old until the next change.
      log(error);
    }
  };
  // The rack's own broker, unless the environment names an existing one.
  if (!Deno.env.get(BUS_ENVIRONMENT.url)) {
    const onEvent = (text: string) => {
      log(text);
      list();
    };
    const users = accessOfProcesses(runFile);
    server = await startNatsServer({ dir: directory, users, keepUp: true, onEvent });
  }
  const broker: Broker = server ??
    await existingBroker(existingFrom((variable) => Deno.env.get(variable)), runFile);
  const address = broker.addressOf(USERS.supervisor);
  if (runFile.elsewhere !== undefined) writeUsers(runFile, broker);
  try {
    const bus = await connectSupervisor(broker, { run, onError: log });
    supervisor = new Supervisor({
      runFile,
      runFilePath,
      broker,
      bus,
      onEvent: (event) => {
        log(eventText(event, runFile));
        list();
      },
    });
    await supervisor.start();
    const { url: _, ...viewer } = broker.addressOf(USERS.viewer);
    writeSupervisor(directory, { run, pid: Deno.pid, ...address, viewer });
    log(`up, on ${address.url}`);
    const failed = supervisor.finished.then(() => ending.promise);
    await Promise.race([ending.promise, failed]);
    if (runFile.elsewhere !== undefined) await collectAll(bus, { runFile, supervisor, log });
    await supervisor.down();
    await bus.close();
  } finally {
    await supervisor?.down();
    await server?.stop();
    log("down");
  }
}

/**
 * Time is paused first. Spans that are granted already are still finished: a file that changes
 * meanwhile is fetched again.
 */
async function collectAll(
  bus: Bus,
  { runFile, supervisor, log }: {
    readonly runFile: RunFile;
    readonly supervisor: Supervisor;
    readonly log: (message: unknown) => void;
  },
): Promise<void> {
  const { directory } = runFile;
  if (!bus.connected) return writeUncollected(directory, "no nats-server answers");
  await supervisor.control.attempt("pause", {});
  await collectDevices(bus, { runFile, directory }).catch((error) => {
    const { message } = explain(error);
    log(message);
    writeUncollected(directory, message);
  });
}

function eventText(event: SupervisorEvent, runFile: RunFile): string {
  switch (event.kind) {
    case "started":
      return `${event.name} started, pid ${event.pid}`;
    case "died":
      return `${event.name} died (${event.detail}), pid ${event.pid}`;
    case "stalled":
      return stallText(event.why, runFile);
    case "finished":
      return `finished: ${event.summary.reason}, digest ${event.summary.digest}`;
  }
}

function logTo(path: string): (message: unknown) => void {
  return (message) => {
    const text = message instanceof Error ? message.stack ?? message.message : String(message);
    try {
      Deno.writeTextFileSync(path, `${new Date().toISOString()} ${text}\n`, {
        append: true,
        mode: 0o600,
      });
    } catch {
      // A full disk ends no rack; `ended.json` has its room.
    }
  };
}

if (import.meta.main) {
  const [runFile] = Deno.args;
  if (runFile === undefined) {
    console.error("Usage: supervise.ts RUN_FILE (started by `rack up`)");
    Deno.exit(EXIT.usage);
  }
  let end: { message: string; code: number } | undefined;
  try {
    await main(runFile);
  } catch (error) {
    end = explain(error);
    writeEnd(runFile.replace(/\/[^/]*$/, ""), end);
  }
  Deno.exit(end?.code ?? EXIT.done);
}
