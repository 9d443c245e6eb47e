/**
 * The process behind `rack up`: `supervise.ts RUN_FILE`, started detached. It owns the broker, the
 * timekeeper and the partitions of one rack, restarts broker and timekeeper when they end, and ends
 * everything on SIGTERM. It writes to the run directory:
 *
 *     supervisor.json   the broker's address with its credential, readable by the owner only
 *     processes.json    see process_table.ts
 *     ended.json        why it ended, unless by SIGTERM
 */
import { connectNats, type NatsAddress } from "../../fabric/bus/nats_bus.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { busAddressFrom, EXIT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import { type NatsServer, startNatsServer } from "./nats_server.ts";
import { type ProcessEntry, writeProcesses } from "./process_table.ts";
import { writeEnd, writeSupervisor } from "./run_directory.ts";
import { Supervisor, type SupervisorEvent } from "./supervisor.ts";
import { explain } from "./failure.ts";
import { stallText } from "./stall_text.ts";

/** Delay before a killed broker is restarted, so that a user can see the effect. */
const BROKER_PAUSE_MS = 300;

interface Broker {
  readonly address: NatsAddress;
  readonly server: NatsServer | undefined;
}

async function main(runFilePath: string): Promise<void> {
  const runFile: RunFile = JSON.parse(await Deno.readTextFile(runFilePath));
  const { directory, run } = runFile;
  const log = logTo(`${directory}/logs/supervisor.log`);
  const ending = Promise.withResolvers<void>();
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => {
      log(`${signal}: taking the rack down`);
      ending.resolve();
    });
  }
  const { address, server } = await openBroker(directory);
  let supervisor: Supervisor | undefined;
  try {
    const bus = await connectNats({ ...address, run, name: "supervisor", onError: log });
    const list = () => writeProcesses(directory, processesOf(supervisor, server));
    supervisor = new Supervisor({
      runFile,
      runFilePath,
      address,
      bus,
      onEvent: (event) => {
        log(eventText(event));
        list();
      },
    });
    const broker = server && keepBroker(server, { ending: ending.promise, log, list });
    await supervisor.start();
    await writeSupervisor(directory, { run, pid: Deno.pid, ...address });
    log(`up, on ${address.url}`);
    const failed = supervisor.finished.then(() => ending.promise);
    await Promise.race([ending.promise, failed, ...(broker ? [broker] : [])]);
    await supervisor.down();
    await bus.close();
  } finally {
    await supervisor?.down();
    await server?.stop();
    log("down");
  }
}

/** The rack's own broker, or an existing one that the environment names. */
async function openBroker(directory: string): Promise<Broker> {
  const address = busAddressFrom((variable) => Deno.env.get(variable));
  if (Deno.env.get("RACKMESH_NATS_URL")) return { address, server: undefined };
  const server = await startNatsServer({ dir: directory });
  return { address: server.address, server };
}

/** Restarts the broker when it ends; settles when the rack is taken down. */
async function keepBroker(
  server: NatsServer,
  options: {
    readonly ending: Promise<void>;
    readonly log: (text: string) => void;
    readonly list: () => void;
  },
): Promise<void> {
  let isEnding = false;
  const ended = options.ending.then(() => {
    isEnding = true;
  });
  for (;;) {
    await Promise.race([ended, server.exited]);
    if (isEnding) return;
    options.log("nats-server has ended");
    options.list();
    await sleep(BROKER_PAUSE_MS);
    if (isEnding) return;
    await server.restart();
    options.log(`nats-server is back, pid ${server.pid}`);
    options.list();
  }
}

function processesOf(
  supervisor: Supervisor | undefined,
  server: NatsServer | undefined,
): ProcessEntry[] {
  return [
    { name: "supervisor", kind: "supervisor", pid: Deno.pid, nodes: [] },
    ...(server ? [{ name: "nats", kind: "nats" as const, pid: server.pid, nodes: [] }] : []),
    ...supervisor?.processes() ?? [],
  ];
}

function eventText(event: SupervisorEvent): string {
  switch (event.kind) {
    case "started":
      return `${event.name} started, pid ${event.pid}`;
    case "died":
      return `${event.name} died (${event.detail}), pid ${event.pid}`;
    case "stalled":
      return stallText(event.why);
    case "finished":
      return `finished: ${event.summary.reason}, digest ${event.summary.digest}`;
  }
}

/** Writes log lines with a timestamp, as the process has no terminal. */
function logTo(path: string): (what: unknown) => void {
  return (what) => {
    const text = what instanceof Error ? what.stack ?? what.message : String(what);
    Deno.writeTextFileSync(path, `${new Date().toISOString()} ${text}\n`, { append: true });
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
