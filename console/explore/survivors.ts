import { CHECKERS } from "../checks/all.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import type { EndedHost } from "../reports/protocol_checks.ts";
import { type PostCrashRun, type Victim, victimOf } from "./post_crash_run.ts";
import { CrashCursor, type Entry, Overlay, Pages, type Readable } from "./history.ts";
import type { RackRun } from "./rerun.ts";

const OTHERS = new WeakMap<RackRun, ReadonlyMap<string, EndedHost>>();

/** The hosts that are not cut, at the end of a run. @param run with the histories of memories. */
export function othersOf(
  run: RackRun,
  { but }: { readonly but: readonly string[] },
): ReadonlyMap<string, EndedHost> {
  const known = OTHERS.get(run);
  if (known !== undefined) return known;
  const others = new Map<string, EndedHost>();
  for (const [host, { entries }] of run.histories) {
    const life = run.lives.get(host)?.at(-1);
    if (life === undefined || but.includes(host)) continue;
    const hasPower = life.to === Infinity;
    others.set(host, {
      since: hasPower ? life.from : undefined,
      memory: hasPower ? seenByCores(entries) : leftOf(run, host)!,
    });
  }
  OTHERS.set(run, others);
  return others;
}

/** SCM at the end of a run, with the writes that its RNICs keep (`wsp`). */
export function leftOf(run: RackRun, host: string): Readable | undefined {
  const scm = run.scm.get(host);
  if (scm === undefined) return undefined;
  const writes = victimOf(run.plan, host).config.rnics.flatMap((rnic) => {
    const held = run.reports.findLast(({ node, topic }) => node === rnic && topic === "held");
    return (held?.value as HeldWrites | undefined)?.writes ?? [];
  });
  if (writes.length === 0) return scm;
  const left = new Overlay(scm);
  for (const { address, data } of writes) {
    if (address >= SCM_BASE) left.write(address - SCM_BASE, Uint8Array.fromHex(data));
  }
  return left;
}

function seenByCores(entries: readonly Entry[]): Readable {
  const cursor = new CrashCursor(entries, new Pages());
  cursor.moveTo(Infinity);
  for (const { line, versions } of cursor.dirty.values()) {
    cursor.image.write(line, versions.at(-1)!.bytes);
  }
  return cursor.image;
}

/** The run as checkers see it. */
export function recordOf(run: RackRun, claims: boolean): RunRecord {
  return {
    plan: run.plan,
    lives: run.lives,
    reports: run.reports,
    notes: run.notes,
    scm: (host) => leftOf(run, host),
    ...(run.isCutOff && { until: run.endPs }),
    claims,
  };
}

/**
 * The first finding of each checker.
 * @param but.notOf hosts whose SCM is judged elsewhere.
 * @param but.notBy a checker that runs elsewhere.
 */
export function unsoundness(
  run: RackRun,
  claims: boolean,
  but: { readonly notOf: readonly string[]; readonly notBy?: string } = { notOf: [] },
) {
  const whole = recordOf(run, claims);
  const scm: RunRecord["scm"] = (host) => but.notOf.includes(host) ? undefined : whole.scm(host);
  const record = { ...whole, scm };
  return CHECKERS.filter(({ name }) => name !== but.notBy).flatMap(({ name, check }) => {
    const [finding] = check(record);
    if (finding === undefined) return [];
    const { text, scm } = finding;
    return [{ checker: name, found: text, ...(scm && { scm }) }];
  });
}

/** @throws Error where the run has left other SCM than the history has. */
export function assertSameScm(
  { run, cutAt }: PostCrashRun,
  victim: Victim,
  cursor: CrashCursor<Pages>,
): void {
  const { host } = victim;
  const offset = run.scm.get(host)!.firstDifference(cursor.image);
  if (offset === undefined) return;
  throw new Error(
    `Explorer and machine disagree: a power failure of ${host} at ${cutAt} ps leaves other bytes at ` +
      `0x${offset.toString(16)} of its SCM than its history says`,
  );
}
