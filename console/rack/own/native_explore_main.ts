/**
 * The process of a native exploration: one that runs the rack and says what power failures leave, and others that run
 * recoveries on it. Its first job, from `explore/native/explore_native.ts`, has all that it needs.
 */
import type { NativeSetUp } from "../../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { NATIVE_FOLDER, nativePorts } from "../../../nodes/native_ports.ts";
import { type NativeViolation, repeat, type Repeated } from "../../explore/native/confirm.ts";
import {
  type AgainImage,
  type CrashImage,
  type Image,
  ImageCount,
  imagesAgain,
  imagesOf,
  type NativeExploration,
  type NativeOpening,
  openNative,
  partsOf,
} from "../../explore/native/images.ts";
import { type Recovered, recoverOn } from "../../explore/native/recovery.ts";
import { Pages } from "../../explore/history.ts";
import type { Covered } from "../../explore/covering/coverage.ts";
import type { ExploredRack, ExploreOptions } from "../../explore/types.ts";
import { sha256 } from "../../base/sha256.ts";
import { RackError } from "../../base/rack_error.ts";
import { answerConfined } from "./answer.ts";

export interface NativeJob {
  readonly plan: RackPlan;
  readonly native: NativeSetUp;
  /** In which it runs. */
  readonly directory: string;
  readonly options: Omit<ExploreOptions, "stopped">;
}

/** Answered by a {@link NativeOpening}, {@link Batch}, {@link Repeated} and {@link RecoveredOnce}. */
export type NativeRequest =
  | { readonly open: NativeJob }
  | { readonly images: number }
  | { readonly repeat: NativeViolation }
  | {
    readonly recover: NativeJob & {
      readonly host: string;
      readonly image: Image;
      /** Names the folder of the recovery. */
      readonly number: number;
      /** Whether what a second power failure leaves is wanted. */
      readonly isCutAgain: boolean;
    };
  };

/** An image, without its bytes where the same ones came before. Plain data. */
export interface Found extends Omit<CrashImage, "image"> {
  readonly key: string;
  readonly image: Image | null;
  /** Spans up to this one, with it. */
  readonly instants: number;
}

/** With what power failures during the recovery leave, each content once. Plain data. */
export interface RecoveredOnce extends Recovered {
  readonly again: readonly (AgainImage & { readonly key: string })[];
  readonly isWhole: boolean;
}

export interface Batch {
  readonly found: readonly Found[];
  readonly isLast: boolean;
  readonly instants: number;
  readonly bounded: number;
  readonly covered: readonly Covered[];
}

interface Opened {
  readonly job: NativeJob;
  readonly exploration: NativeExploration;
  readonly count: ImageCount;
  readonly images: Generator<CrashImage>;
  readonly known: Set<string>;
}

let opened: Opened | undefined;

async function work(
  request: NativeRequest,
): Promise<NativeOpening | Batch | Repeated | RecoveredOnce> {
  if ("open" in request) {
    const job = request.open;
    const exploration = openNative(rackOf(job, "run"), job.options), count = new ImageCount();
    opened = { job, exploration, count, images: imagesOf(exploration, count), known: new Set() };
    return exploration.opening;
  }
  if ("recover" in request) return await recover(request.recover);
  if (opened === undefined) throw new RackError("Found that the process ended by itself");
  if ("images" in request) return await batchOf(opened, request.images);
  const { job, exploration: { recording } } = opened;
  return repeat(rackOf(job, "again"), recording, request.repeat);
}

/** @param run names the folder of its programs. */
function rackOf({ plan, native, directory }: NativeJob, run: string): ExploredRack {
  const folder = `${directory}/${NATIVE_FOLDER}/${run}`;
  return { plan, inputs: {}, own: {}, native: portsIn(folder, native).port };
}

/** The exploration keeps histories of its own. */
function portsIn(directory: string, native: NativeSetUp) {
  return nativePorts({ directory, native }, { isRecorded: false })!;
}

async function batchOf({ images, count, known }: Opened, most: number): Promise<Batch> {
  const found: Found[] = [];
  let isLast = false;
  while (found.length < most) {
    const next = images.next();
    if (next.done === true) {
      isLast = true;
      break;
    }
    const { image, ...crash } = next.value;
    const key = await keyOf(crash.host, image);
    found.push({ ...crash, key, image: known.has(key) ? null : image, instants: count.instants });
    known.add(key);
  }
  const { instants, bounded, covered } = count;
  return { found, isLast, instants, bounded, covered };
}

/** Pages that are all zeros count as absent. */
async function keyOf(host: string, image: Image): Promise<string> {
  const there = [...partsOf(image)].filter(({ bytes }) => bytes.some((byte) => byte !== 0));
  const parts = await Promise.all(
    there.map(async ({ offset, bytes }) => `${offset}:${await sha256(bytes.slice())}`),
  );
  return [host, ...parts].join(" ");
}

async function recover(
  { host, image, number, isCutAgain, ...job }: Extract<
    NativeRequest,
    { readonly recover: unknown }
  >["recover"],
): Promise<RecoveredOnce> {
  const memory = new Pages();
  for (const { offset, bytes } of partsOf(image)) memory.write(offset, bytes);
  const { plan, native, directory, options } = job;
  const folder = `${directory}/${NATIVE_FOLDER}/recovery-${number}`;
  const { port } = portsIn(folder, native);
  try {
    const { log, ...recovered } = recoverOn(plan, { host, memory, native: port });
    if (!isCutAgain) return { ...recovered, again: [], isWhole: false };
    const again = new Map<string, RecoveredOnce["again"][number]>();
    const images = imagesAgain(image, log, options);
    for (;;) {
      const { done, value } = images.next();
      if (done === true) return { ...recovered, again: [...again.values()], isWhole: value };
      const key = await keyOf(host, value.image);
      if (!again.has(key)) again.set(key, { ...value, key });
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

if (import.meta.main) await answerConfined(work);
