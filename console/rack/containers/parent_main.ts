/**
 * Process 1 of a device's container: `parent_main.ts RUN_FILE PARTITION`, a supervisor for one
 * partition. Orders start and end the partition's process (`control.kill-<partition>`,
 * `control.boot-<partition>`, the plan's by `clock.order`). The end of this process is a power
 * failure, too; the timekeeper hears nothing of it but silence.
 */
import { hostsOf } from "../../../fabric/bus/nats_bus.ts";
import { orderFromBytes } from "../../../fabric/clock/clock.ts";
import { bootVerb, deathVerb, killVerb, processVerb } from "../../../fabric/bus/access.ts";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { patternOf } from "../../../fabric/bus/subjects.ts";
import { runOnBus } from "../../../fabric/process.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import {
  busAddressFrom,
  nativeSetUpOf,
  type RunFile,
} from "../../../fabric/rack/assembly/run_file.ts";
import { nativeIn } from "../../../fabric/rack/plan/plan.ts";
import { ifThere } from "../../base/files.ts";
import { sha256 } from "../../base/sha256.ts";
import { startChild, statusText } from "../children.ts";
import { deviceRights } from "../device_rights.ts";
import { DeviceSlot } from "../device_slot.ts";
import { ControlClient } from "../live/control.ts";

interface Place {
  readonly runFilePath: string;
  readonly runFile: RunFile;
  readonly partition: string;
}

function slotOn(
  bus: Bus,
  { runFilePath, runFile: { run, directory, plan, partitions }, partition }: Place,
) {
  const nodes = partitions.find(({ name }) => name === partition)?.nodes;
  if (nodes === undefined) throw new Error(`Found no partition ${partition} in ${runFilePath}`);
  const { url } = busAddressFrom((variable) => Deno.env.get(variable));
  const isNative = nativeIn(plan, nodes).length > 0;
  const control = new ControlClient(bus, run);
  let code: number = EXIT.unclear;
  const slot: DeviceSlot = new DeviceSlot({
    name: partition,
    nodes,
    spawn: (instance) =>
      startChild({
        name: partition,
        module: "nodes/main.ts",
        args: [runFilePath, partition, instance],
        env: {},
        rights: ["--frozen", ...deviceRights(hostsOf(url), { directory, isNative })],
      }),
    onStart: ({ pid }) => console.log(`${partition} started, pid ${pid}`),
    onEnd: (_, status) => {
      console.log(`${partition} has lost its power (${statusText(status)})`);
      if (status.signal === null) code = status.code;
      return true;
    },
    tell: (death) => control.attempt(deathVerb(partition), death),
    onNeverUp: (found) => {
      console.error(`Found that ${found}, expected it to come up`);
      Deno.exit(code);
    },
  });
  const on = (verb: string, answerTo: (request: unknown) => object | undefined) =>
    bus.subscribe(patternOf({ kind: "control", run, verb }), (payload, _, reply) => {
      reply?.(encode(answerTo(decode(payload)) ?? { error: `Cannot ${verb}: malformed request` }));
    });
  on(killVerb(partition), (request) => {
    const { token } = Object(request) as { readonly token?: unknown };
    return typeof token === "string" ? slot.cut(token) : undefined;
  });
  on(bootVerb(partition), () => {
    if (!slot.start()) return { refusal: `${partition} has power` };
    return { started: [partition], instance: slot.instance, pid: slot.child!.pid };
  });
  on(processVerb(partition), () => ({ instance: slot.instance, pid: slot.child?.pid ?? null }));
  bus.subscribe(patternOf({ kind: "clock.order", run, partition }), (payload) => {
    const order = orderFromBytes(payload);
    if (order !== undefined) slot.obey(order);
  });
  return slot;
}

/** What native programs load, where it is not what the run is about; undefined: all is. */
async function changedFile(
  runFile: RunFile,
  partition: string,
): Promise<string | undefined> {
  const { plan, partitions } = runFile;
  const nodes = partitions.find(({ name }) => name === partition)?.nodes ?? [];
  if (nativeIn(plan, nodes).length === 0) return undefined;
  for (const [path, hash] of Object.entries(nativeSetUpOf(runFile)?.files ?? {})) {
    const bytes = ifThere(() => Deno.readFileSync(path));
    if (bytes === undefined) return `${path} is not there`;
    if (await sha256(bytes) !== hash) return `${path} has changed`;
  }
  return undefined;
}

async function main(place: Place): Promise<void> {
  const { runFile: { run }, partition } = place;
  await runOnBus({ run, name: partition, title: `The parent of ${partition}` }, (bus) => {
    const slot = slotOn(bus, place);
    slot.start();
    return () => slot.close();
  });
}

if (import.meta.main) {
  const [runFilePath, partition] = Deno.args;
  if (runFilePath === undefined || partition === undefined) {
    console.error("Usage: parent_main.ts RUN_FILE PARTITION");
    Deno.exit(EXIT.usage);
  }
  const runFile: RunFile = JSON.parse(Deno.readTextFileSync(runFilePath));
  const changed = await changedFile(runFile, partition);
  if (changed !== undefined) {
    console.error(`Found that ${changed}, expected it as rack compose has copied it`);
    Deno.exit(EXIT.unclear);
  }
  await main({ runFilePath, runFile, partition });
}
