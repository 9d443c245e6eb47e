import { type Bus, BusError } from "./bus/bus.ts";
import { RecordError } from "./clock/record.ts";
import { connectNats } from "./bus/nats_bus.ts";
import { EXIT } from "./base/exit.ts";
import { BUS_ENVIRONMENT, busAddressFrom, busPatienceMs } from "./rack/assembly/run_file.ts";

const CLOSE_MS = 1_000;
const CHECK_MS = 1_000;

/** The parent may end before the child starts. */
export const PARENT_VARIABLE = "RACKMESH_PARENT";

/** Of a variable whose value is in a file: secrets come as files where an engine has no other way. */
export const FILE_SUFFIX = "_FILE";
const OURS = "RACKMESH_";

/** Gives each variable `RACKMESH_X`, and child processes, the text of the file in `RACKMESH_X_FILE`. */
export function readVariableFiles(): void {
  for (const [name, path] of Object.entries(Deno.env.toObject())) {
    if (!name.startsWith(OURS) || !name.endsWith(FILE_SUFFIX) || path === "") continue;
    const text = Deno.readTextFileSync(path);
    Deno.env.set(name.slice(0, -FILE_SUFFIX.length), text.trimEnd());
  }
}

/**
 * `start` returns a function that stops the work. A signal, the parent's end and the loss of the
 * bus end the process.
 */
export async function runOnBus(
  options: { readonly run: string; readonly name: string; readonly title: string },
  start: (bus: Bus) => (() => void) | Promise<() => void>,
): Promise<void> {
  const { run, name, title } = options;
  // Until the work has begun, the process ends at once.
  let end: () => void = () => Deno.exit(EXIT.done);
  endWithParent(() => end());
  readVariableFiles();
  const bus = await connectNats({
    ...busAddressFrom((variable) => Deno.env.get(variable)),
    // The machine may be busy with the start of hundreds of processes. While the parent lives, this
    // one is needed.
    connectTimeoutMs: Infinity,
    onWaiting: (why) => console.error(why),
    patienceMs: patienceMs(),
    run,
    name,
    onError: exitWith,
  });
  const stopWork = await start(bus);
  const stop = async () => {
    stopWork();
    // Even if the broker is gone, too.
    setTimeout(() => Deno.exit(EXIT.done), CLOSE_MS);
    await bus.close();
    Deno.exit(EXIT.done);
  };
  Deno.addSignalListener("SIGTERM", stop);
  // A terminal sends SIGINT to all processes of a rack; the parent ends them in order.
  Deno.addSignalListener("SIGINT", () => {});
  end = () => void stop();
  const reason = await bus.closed;
  if (reason !== undefined) {
    console.error(`${title} stops: ${reason.message}`);
    Deno.exit(EXIT.unclear);
  }
}

/**
 * The parent has a patience of its own and then ends its children: a child that gave up by itself,
 * on a machine too busy for pings, would be a power failure.
 */
function patienceMs(): number {
  const get = (variable: string) => Deno.env.get(variable);
  const isLeftToParent = get(PARENT_VARIABLE) !== undefined && !get(BUS_ENVIRONMENT.patienceMs);
  return isLeftToParent ? Infinity : busPatienceMs(get);
}

export function exitWith(error: unknown): never {
  const thrown = error instanceof BusError && error.kind === "handler" ? error.cause : error;
  const isOfWorld = thrown instanceof BusError || thrown instanceof RecordError;
  console.error(isOfWorld ? thrown.message : error);
  Deno.exit(isOfWorld ? EXIT.unclear : EXIT.internal);
}

/** A killed parent cannot end its children. */
function endWithParent(stop: () => void): void {
  const parent = Number(Deno.env.get(PARENT_VARIABLE) ?? Deno.ppid);
  // Process 1 never ends.
  if (!(parent > 1)) return;
  const timer = setInterval(() => {
    if (Deno.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, CHECK_MS);
}
