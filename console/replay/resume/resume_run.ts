/** Brings a rack of processes up again as it stood at an instant of a run. */
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { BusError } from "../../../fabric/bus/bus.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { type ClockEnd, orderOnRecord } from "../../../fabric/clock/record.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { RESUMING_FILE, type RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { RackError } from "../../base/rack_error.ts";
import { writeWhole } from "../../base/files.ts";
import { captureFiles, makeRoomFor, scopeFor } from "../../captures/capture_files.ts";
import { startRack } from "../../rack/bring_up.ts";
import { keepInputs } from "../../rack/prepare.ts";
import { whyText } from "../../rack/live/clock_text.ts";
import type { RackLink, RackUp } from "../../rack/live/racks.ts";
import { pause, resume } from "../../rack/live/virtual_time.ts";
import { copyScenario } from "../../scenarios/kept_scenario.ts";
import { nativeAgain, type NativeDoor } from "../../rack/native/native.ts";
import { beforeRun, createRunDirectory, readRunFile } from "../../rack/run_directory.ts";
import type { RunManner } from "../../rack/run_scenario.ts";
import { readCheckpoint } from "../checkpoints.ts";
import { Replay } from "../client.ts";
import { placeOf, sourceOf } from "../source.ts";
import type { ReplayProgress } from "../job.ts";
import type { ReplayTarget } from "../source.ts";
import { type Repeated, repeatOf } from "./repeated.ts";
import { checkInstant } from "./take_checkpoint.ts";

export interface ResumeOptions extends Omit<RunManner, "onCapturing"> {
  readonly variant?: string;
  /** Before this instant all has happened; or the name of a checkpoint. */
  readonly at: Time | string;
  /** Time runs; else the rack is paused at the instant. */
  readonly go?: boolean;
  readonly trace?: boolean;
  /** What becomes of native programs, which start again, whatever is on record: see `PrepareOptions`. */
  readonly native?: NativeDoor;
}

export interface Resumed {
  readonly rack: RackUp;
  readonly from: string;
  readonly at: Time;
  readonly digest: string;
  readonly events: number;
}

interface Expected {
  readonly run: string;
  readonly at: Time;
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string]>;
}

const REPLAY_SHARE = 0.2;

/**
 * @throws Refusal for an unknown run, instant or checkpoint, and for a run that cannot be replayed
 * exactly; RackError where a device comes to another digest: then the rack is taken down.
 */
export async function resumeRun(run: string, options: ResumeOptions): Promise<Resumed> {
  const { signal, onProgress, go = false } = options;
  const known = readRunFile((await placeOf({ run, ...given(options) })).directory);
  const native = known && await nativeAgain(known, options.native);
  const { target, at, repeated, nodes, runFile: old } = await readRun(run, options);
  const created = await createRunDirectory(old.plan.scenario), { id, path: directory } = created;
  const files = captureFiles({
    flags: options,
    scenario: {},
    reach: { base: directory, allowRead: [] },
    directory,
  });
  const observe = scopeFor(files);
  const expected = { run: target.run, at, nodes };
  // All devices are this machine's.
  const {
    captures: _,
    observe: __,
    elsewhere: ___,
    pausedAtStart: ____,
    ...rest
  } = old;
  const runFile = await beforeRun(created, async (): Promise<RunFile> => {
    await makeRoomFor(files);
    const [kept] = await keepInputs([rest], directory);
    writeRecord(directory, repeated);
    copyScenario(old.directory, directory);
    writeWhole(`${directory}/${RESUMING_FILE}`, JSON.stringify(expected));
    const { plan, partitions, ordersFrom } = repeated;
    return {
      ...{ ...kept!, run: id, directory, plan, partitions, stayUp: true },
      ...{ livenessMs: 0, delayMsMax: 0, trace: options.trace === true },
      resumed: { run: target.run, at, ordersFrom },
      ...(observe && { observe, captures: files }),
      ...(native && { native }),
    };
  });
  let end: ClockEnd | undefined;
  const rack = await startRack(runFile, {
    ...options,
    beforeUp: async (link, throwIfGone) => {
      await untilInstant(link, at, {
        throwIfGone,
        signal,
        onProgress: (share) =>
          onProgress?.(`${id}: to ${formatTime(at)}`, REPLAY_SHARE + (1 - REPLAY_SHARE) * share),
      });
      end = await link.control.demand<ClockEnd>("end", {});
      compareDigests(end, expected, { isNative: native !== undefined });
      // As long as the file is there, a timekeeper that is started again holds the rack at the
      // instant.
      if (!go) await pause(link.control);
      Deno.renameSync(`${directory}/${RESUMING_FILE}`, `${directory}/${RESUMED_FILE}`);
      if (go) await resume(link.control);
    },
  });
  const { digest, events } = end!;
  return { rack, from: target.run, at, digest, events };
}

const RESUMED_FILE = "resumed.json";

function given({ variant }: { readonly variant?: string | undefined }) {
  return variant === undefined ? {} : { variant };
}

async function readRun(
  run: string,
  { variant, at: where, signal, onProgress }: ResumeOptions,
) {
  const named = { run, ...given({ variant }) };
  const { id, directory } = await placeOf(named);
  const checkpoint = typeof where === "string" ? readCheckpoint(directory, where) : undefined;
  const at = checkpoint?.at ?? where as Time;
  const target: ReplayTarget = {
    ...{ ...named, run: id },
    ...(checkpoint && { checkpoint: checkpoint.name }),
  };
  await checkInstant(target, at);
  const job = await sourceOf(target);
  const replay = await Replay.open(target, {
    signal,
    source: { head: { ...job, isLive: false }, count: job.orders.length, orders: () => job.orders },
    onProgress: ({ atPs, endPs }: ReplayProgress) => {
      const share = endPs === null || endPs === 0 ? 0.5 : Math.min(1, atPs / endPs);
      onProgress?.(`Replaying ${id}`, REPLAY_SHARE * share);
    },
  });
  try {
    const { nodes } = await replay.ask("digestsAt", at);
    const repeated = repeatOf(job, {
      at,
      ...(checkpoint && { withPending: true, planned: checkpoint.planned }),
    });
    return { target, at, nodes, repeated, runFile: job.runFile };
  } finally {
    await replay.close();
  }
}

/** As the timekeeper writes it: this run's record begins with the other one's. */
function writeRecord(directory: string, { orders, links }: Repeated): void {
  if (links.length > 0) {
    const lines = links.map((link) => `${JSON.stringify(link)}\n`).join("");
    writeWhole(`${directory}/faults.jsonl`, lines);
  }
  if (orders.length === 0) return;
  let lines = "";
  for (const order of orders) {
    const { line, content } = orderOnRecord(order);
    lines += `${JSON.stringify(line)}\n`;
    if (content === undefined) continue;
    Deno.mkdirSync(`${directory}/orders`, { recursive: true, mode: 0o700 });
    Deno.writeFileSync(`${directory}/orders/${order.counter}`, content, { mode: 0o600 });
  }
  writeWhole(`${directory}/orders.jsonl`, lines);
}

const LOOK_MS = 20, STATUS_MS = 500;

async function untilInstant(
  { rack, control }: RackLink,
  at: Time,
  { throwIfGone, signal, onProgress }: {
    readonly throwIfGone: () => void;
    readonly signal: AbortSignal | undefined;
    readonly onProgress: (share: number) => void;
  },
): Promise<void> {
  let known: ClockStatus | undefined, deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    signal?.throwIfAborted();
    throwIfGone();
    const status = await control.status({ forMs: STATUS_MS }).catch((error) => {
      if (!(error instanceof BusError)) throw error;
      return undefined;
    });
    if (status !== undefined && status.standsAt !== null && status.next >= at) return;
    if (status !== undefined && status.events !== known?.events) {
      deadline = performance.now() + PATIENCE_MS;
      known = status;
      onProgress(Math.min(1, status.now / at));
    }
    if (performance.now() > deadline) {
      const why = known === undefined ? "its clock does not answer" : whyText(known);
      const found = `Found that ${rack.id} does not come to ${formatTime(at)}: ${why}`;
      throw new RackError(`${found} See ${rack.directory}/logs`);
    }
    await sleep(LOOK_MS);
  }
}

/** @throws RackError naming the first device with another digest than the run. */
export function compareDigests(
  { partitions }: Pick<ClockEnd, "partitions">,
  { run, at, nodes: expected }: Expected,
  { isNative = false }: { readonly isNative?: boolean } = {},
): void {
  const again = isNative ? ". Its native programs ran again, and not as then" : "";
  const found = new Map(
    partitions.flatMap(({ nodes }) => nodes.map(([node, digest]) => [node, digest] as const)),
  );
  for (const [node, digest] of expected) {
    if (found.get(node) === digest) continue;
    throw new RackError(
      `Found other events on ${node} in the resumed rack than in ${run} before ${
        formatTime(at)
      }: ` +
        `digest ${found.get(node)}, expected ${digest}${again}`,
      EXIT.failed,
    );
  }
}
