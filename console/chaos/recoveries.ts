/**
 * Judges what a round has left of hosts whose native programs have a recovery: it runs on the SCM of each, and has to find
 * what was promised, by the judge of `rack explore`.
 */
import { nativeSetUpOf } from "../../fabric/rack/assembly/run_file.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { RackError } from "../base/rack_error.ts";
import { inTime, recoverers } from "../explore/native/explore_native.ts";
import { wholeImage } from "../explore/native/images.ts";
import { breachOf, FOUND, requirementsAfter, sharedIn } from "../explore/native/promises.ts";
import { recoveriesIn } from "../explore/native/recovery.ts";
import { lackingText, whyNotJudged } from "../explore/native/shared_promises.ts";
import { EXPLORE_DEFAULTS } from "../explore/types.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { askConfined } from "../rack/own/confined.ts";
import type { RecoveredOnce } from "../rack/own/native_explore_main.ts";
import type { Prepared } from "../rack/prepare.ts";
import type { ChaosFinding } from "./progress.ts";

type Recoverable = Pick<Prepared, "plan" | "native">;

interface RecoveryOptions {
  readonly directory: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * @param options.directory of the round: the recoveries' folders are in it while they run.
 * @param options.signal ends them; it then rejects with the signal's reason.
 * @throws RackError where a recovery cannot be run.
 */
export async function lostPromises(
  prepared: Recoverable,
  record: RunRecord,
  options: RecoveryOptions,
): Promise<ChaosFinding[]> {
  if (nativeSetUpOf(prepared) === undefined) return [];
  const said = new Map<string, readonly string[]>(), findings: ChaosFinding[] = [];
  for (const [host, { run }] of recoveriesIn(prepared.plan)) {
    const recovered = await recoveredOn(host, {
      ...{ prepared, record, run, number: said.size + 1 },
      ...options,
    });
    said.set(host, recovered.lines);
    const breach = breachOn(host, recovered, record);
    if (breach !== undefined) findings.push(breach);
  }
  return [...findings, ...lostOfSeveral(record, said)];
}

/** Runs a host's recovery on what the round has left of its SCM. */
async function recoveredOn(
  host: string,
  { prepared, record, run, number, directory, signal }: RecoveryOptions & {
    readonly prepared: Recoverable;
    readonly record: RunRecord;
    /** The recovery's name. */
    readonly run: string;
    readonly number: number;
  },
): Promise<RecoveredOnce> {
  const { plan } = prepared, native = nativeSetUpOf(prepared)!;
  const memory = record.scm(host), node = plan.nodes.find(({ name }) => name === host);
  if (memory === undefined || node?.kind !== "host") {
    throw new RackError(`Cannot recover ${host}: the round has left no file of its SCM`);
  }
  const image = wholeImage(memory, node.config.scmBytes);
  const recover = {
    ...{ plan, native, directory, options: EXPLORE_DEFAULTS, host, image, number },
    isCutAgain: false,
  };
  const recovered = await inTime(async (limit) => {
    const ends = signal === undefined ? limit : AbortSignal.any([limit, signal]);
    const asked = { ...recoverers(plan, directory), job: { recover }, signal: ends };
    return await askConfined<RecoveredOnce>(asked);
  });
  signal?.throwIfAborted();
  if (recovered.notRun !== null) {
    throw new RackError(`Cannot run ${run}, the recovery of ${host}: ${recovered.notRun}`);
  }
  return recovered;
}

/** What was promised while the host had power, and its recovery has not found. */
function breachOn(
  host: string,
  { lines, wrong }: RecoveredOnce,
  record: RunRecord,
): ChaosFinding | undefined {
  const lives = record.lives.get(host) ?? [], to = lives.at(-1)?.to ?? Infinity;
  const hasFailed = to !== Infinity;
  const breach = wrong ?? breachOf(
    lines,
    requirementsAfter(record, lives),
    // What begins at the instant of the failure may have begun.
    { from: to, until: to + 1, isAmid: hasFailed },
  )?.found;
  if (breach === undefined) return undefined;
  const when = hasFailed ? formatTime(to) : "the end";
  return { check: "recovery", text: `${host}, as its power failed at ${when}: ${breach}` };
}

/** What several hosts have promised together and too few have found, and what of it cannot be judged. */
function lostOfSeveral(
  record: RunRecord,
  said: ReadonlyMap<string, readonly string[]>,
): ChaosFinding[] {
  const unjudged = whyNotJudged(record, said.size),
    texts = unjudged === undefined ? [] : [unjudged];
  for (const promise of sharedIn(record).filter(({ count }) => count <= said.size)) {
    const lacking = [...said].flatMap(([host, lines]) =>
      lines.includes(`${FOUND}${promise.what}`) ? [] : [host]
    );
    if (said.size - lacking.length >= promise.count) continue;
    texts.push(lackingText(promise, { hosts: said.size, lacking }));
  }
  return texts.map((text) => ({ check: "recovery", text }));
}
