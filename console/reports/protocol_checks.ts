/**
 * Runs the `recover` and the `check` of users' protocols at the end of `rack run`, and after each
 * power failure of `rack explore`. Hosts without power recover here, on a recovery machine over
 * what their SCM holds, so a run need not start them again.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { assert } from "../../fabric/base/assert.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { HostPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { checkedScm } from "../../nodes/host/calls/checked_scm.ts";
import { readableText } from "../../nodes/host/cpu/log_text.ts";
import { VIRTUAL_SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import { siteIn } from "../../nodes/host/cpu/wait_site.ts";
import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import type {
  Check,
  CrashedHost,
  CrashView,
  Reported,
} from "../../nodes/host/recovery/protocol.ts";
import { RecoveryBoot } from "../../nodes/host/recovery/recovery_machine.ts";
import type { Life } from "../checks/lives.ts";
import {
  judgeObject,
  type NotedObject,
  objectsIn,
  type ObjectVerdict,
  wrongCalls,
} from "../checks/operations/operations.ts";
import type { NodeTime } from "../checks/finding.ts";
import { inOrder, type RunRecord } from "../checks/run_record.ts";
import { Overlay, type Readable } from "../explore/history.ts";
import { askConfined } from "../rack/own/confined.ts";
import type { Around } from "../rack/own/loop_watch.ts";
import type { Prepared } from "../rack/prepare.ts";

export interface ProtocolVerdict {
  readonly program: string;
  /** The protocol's own check, or the operations that it notes. */
  readonly by: "check" | "operations";
  readonly findings: readonly string[];
  readonly unknown: readonly string[];
  /** When it looked, at a host whose power had failed then, if there was one. */
  readonly at: NodeTime;
  /** A host had lost its power, for good or not, when the check looked. */
  readonly sawCut: boolean;
}

export interface EndedRack {
  readonly plan: RackPlan;
  readonly own: Readonly<Record<string, MakeProgram>>;
  /** The last power failure among the hosts without power; with power everywhere, the end. */
  readonly at: Time;
  readonly hosts: ReadonlyMap<string, EndedHost>;
  /** Both {@link inOrder}. */
  readonly reports: readonly Reported[];
  readonly notes: readonly TimedRecord[];
}

export interface EndedHost {
  /** Begin of its last life: 0 where it kept its power; undefined where it has none. */
  readonly since: Time | undefined;
  /** Without power, as the failure has left it. */
  readonly memory: Readable;
  readonly log?: MemoryLog;
}

/** For the process with a run's own programs, which reads SCM files by itself. */
export interface CheckJob extends Pick<RunRecord, "plan" | "reports" | "notes" | "until"> {
  readonly programs: Readonly<Record<string, string>>;
  readonly lives: readonly (readonly [string, readonly Life[]])[];
}

/**
 * Judges the protocols of a scenario at the end of a run, in a process that may read the run's SCM
 * files and nothing else.
 * @param options.signal ends it.
 */
export async function checkProtocols(
  { programs, hooked }: Pick<Prepared, "programs" | "hooked">,
  { record, directory, signal }: {
    readonly record: RunRecord;
    readonly directory: string;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<readonly ProtocolVerdict[]> {
  if (hooked.length === 0) return [];
  const own = Object.entries(programs).filter(([name]) => hooked.includes(name));
  const { plan, lives, reports, notes, until } = record;
  const job: CheckJob = {
    programs: Object.fromEntries(own),
    ...{ plan, lives: [...lives], reports, notes },
    ...(until !== undefined && { until }),
  };
  return await askConfined<ProtocolVerdict[]>({
    module: "console/rack/own/check_main.ts",
    job,
    programs: hooked,
    reads: ["scm", "faults.jsonl"],
    directory,
    signal,
  });
}

type EndedRun = Pick<RunRecord, "plan" | "lives" | "reports" | "notes" | "until" | "scm">;

export function endOf(
  { plan, lives, reports, notes, until, scm }: EndedRun,
  own: EndedRack["own"],
): EndedRack {
  const hosts = new Map<string, EndedHost>();
  const failures: Time[] = [];
  for (const { name, kind } of plan.nodes) {
    if (kind !== "host") continue;
    const { from = 0, to = Infinity } = lives.get(name)?.at(-1) ?? {};
    if (to !== Infinity) failures.push(to);
    const image = scm(name);
    hosts.set(name, {
      since: to === Infinity ? from : undefined,
      memory: { read: (at, end) => image?.read(at, end) ?? new Uint8Array(end - at) },
    });
  }
  const said = [...reports, ...notes].map(({ time }) => time);
  const end = said.reduce((last, time) => Math.max(last, time), until ?? 0);
  return {
    plan,
    own,
    at: failures.length > 0 ? Math.max(...failures) : end,
    hosts,
    reports: inOrder(plan, reports),
    notes: inOrder(plan, notes),
  };
}

/**
 * Judges each protocol that checks, or whose recovery fails.
 * @param around called to run each `recover` and `check`.
 */
export function judgeProtocols(
  rack: EndedRack,
  around: Around = (_, work) => work(),
): ProtocolVerdict[] {
  const { plan, own, hosts } = rack;
  const names = plan.nodes.map(({ name }) => name).filter((name) => hosts.has(name));
  const booted = new Map(names.map((name) => [name, bootOf(rack, { host: name, around })]));
  const cut = names.filter((name) => hosts.get(name)!.since === undefined);
  const sawCut = names.some((name) => hosts.get(name)!.since !== 0);
  const objects = objectsIn(rack.notes, rack.at);
  const looked = { at: { node: cut[0] ?? names[0]!, time: rack.at }, sawCut };
  return Object.entries(own).flatMap(([program, make]): ProtocolVerdict[] => {
    const failed = names.flatMap((name) => booted.get(name)!.failures.get(program) ?? []);
    if (failed.length > 0) {
      return [{ program, by: "check", findings: failed, unknown: [], ...looked }];
    }
    const { check: own, recover } = make();
    const isNoted = own === undefined && recover !== undefined && objects.length > 0;
    if (!isNoted && own === undefined) return [];
    const { at, reports, notes } = rack;
    const seen = names.map((name): [string, CrashedHost] => {
      const { answers, scm: read } = booted.get(name)!;
      const scm = checkedScm({ host: name, bytes: hostIn(plan, name).scmBytes, read });
      const survived = hosts.get(name)!.since === 0;
      const options = optionsOf(plan, { host: name, program });
      return [name, { survived, options, recovered: answers(program), scm }];
    });
    const view = { cut, at, reports, notes, hosts: Object.fromEntries(seen) };
    if (own === undefined) {
      const verdicts = judgeObjects(view, objects, program);
      const findings = verdicts.flatMap(({ wrong = [] }) => wrong);
      const unknown = verdicts.flatMap(({ unknown = [] }) => unknown);
      return [{ program, by: "operations", findings, unknown, ...looked }];
    }
    const findings = around(`check of ${program}`, () => findingsOf(own, view));
    return [{ program, by: "check", findings, unknown: [], ...looked }];
  });
}

interface Booted {
  readonly answers: (program: string) => unknown;
  readonly failures: ReadonlyMap<string, string>;
  readonly scm: CrashedHost["scm"];
}

function bootOf(
  { plan, own, hosts, reports }: EndedRack,
  { host, around }: { readonly host: string; readonly around: Around },
): Booted {
  const { since, memory, log } = hosts.get(host)!;
  if (since === undefined) {
    return recover(own, { ...hostIn(plan, host), host, memory, log, around });
  }
  return {
    answers: (program) => recoveredIn(reports, { host, program, since }),
    failures: new Map(),
    scm: (offset, length) => memory.read(offset, offset + length),
  };
}

function recover(
  own: EndedRack["own"],
  { host, domain, scmBytes, programs, memory, log, around }:
    & Pick<HostPlan, "domain" | "scmBytes" | "programs">
    & {
      readonly host: string;
      readonly memory: Readable;
      readonly log: MemoryLog | undefined;
      readonly around: Around;
    },
): Booted {
  const written = new Overlay(memory);
  const image = {
    read: (offset: number, length: number) => written.read(offset, offset + length),
    write: (offset: number, bytes: Uint8Array) => written.write(offset, bytes),
  };
  const scm = { address: VIRTUAL_SCM_BASE, length: scmBytes, pageBytes: scmBytes, pages: [0] };
  const boot = new RecoveryBoot({ host, domain, scm, image, ...(log && { log }) });
  const answers = new Map<string, unknown>(), failures = new Map<string, string>();
  for (const { run, options } of programs) {
    // Each once and of a new instance, as at the host's boot.
    if (answers.has(run) || failures.has(run)) continue;
    const recover = own[run]?.().recover;
    if (recover === undefined) continue;
    try {
      const work = () => boot.recover(recover, options);
      answers.set(run, around(`recover of ${run} on ${host}`, work));
    } catch (error) {
      failures.set(run, `recover failed on ${host}: ${failureText(error)}`);
    }
  }
  return { answers: (program) => answers.get(program), failures, scm: boot.read };
}

function judgeObjects(
  { cut, hosts }: CrashView,
  objects: readonly NotedObject[],
  program: string,
): ObjectVerdict[] {
  return objects.flatMap((noted): ObjectVerdict | readonly ObjectVerdict[] => {
    const { on, object } = noted;
    const refused = wrongCalls(noted);
    if (refused.length > 0) return refused.map((wrong) => ({ wrong }));
    const { recovered } = hosts[on] ?? {};
    // A host that is back has recovered in the middle of the run, and gone on.
    if (recovered === undefined || !cut.includes(on)) return [];
    const answered = (recovered as { objects?: Record<string, unknown> } | null)?.objects;
    if (answered === undefined || !Object.hasOwn(answered, object)) {
      const wrong =
        `recover of ${program} on ${on} answers no state of ${object}, of which operations are noted: ` +
        `expected { objects: { ${object}: … } }`;
      return { wrong };
    }
    return judgeObject(noted, answered[object]);
  });
}

/** The answer of a check, or its exception. */
export function findingsOf(check: Check, view: CrashView): readonly string[] {
  try {
    return textsOf(check(view));
  } catch (error) {
    return [`check throws ${failureText(error)}`];
  }
}

function textsOf(answer: unknown): readonly string[] {
  if (answer === undefined || answer === null) return [];
  const answers = Array.isArray(answer) ? answer : [answer];
  if (answers.every((text) => typeof text === "string" && text !== "")) return answers;
  const [other] = answers.filter((text) => typeof text !== "string" || text === "");
  const found = typeof other === "object" && other !== null
    ? `an object (${Object.keys(other)})`
    : typeof other === "string"
    ? "an empty text"
    : String(other);
  return [
    `check answers ${found}: expected what is wrong, in words, and nothing where all is well`,
  ];
}

function optionsOf(
  plan: RackPlan,
  { host, program }: { readonly host: string; readonly program: string },
): Readonly<Record<string, unknown>> {
  return hostIn(plan, host).programs.find(({ run }) => run === program)?.options ?? {};
}

function hostIn({ nodes }: RackPlan, host: string): HostPlan {
  const node = nodes.find(({ name }) => name === host);
  assert(node?.kind === "host", `${host} is no host`);
  return node.config;
}

function recoveredIn(
  reports: EndedRack["reports"],
  { host, program, since }: {
    readonly host: string;
    readonly program: string;
    readonly since: Time;
  },
): unknown {
  const found = reports.findLast(({ time, node, topic, value }) =>
    time >= since && node === host && topic === "recovered" &&
    (value as { program?: unknown } | null)?.program === program
  );
  return (found?.value as { recovered?: unknown } | undefined)?.recovered;
}

/** Frames of the product in a stack; a test's are a user's. */
const OURS = new RegExp(
  `\\b${new URL("../..", import.meta.url).href}(?:console|fabric|nodes)/(?!\\S+_test\\.ts:)`,
);

function failureText(error: unknown): string {
  if (!(error instanceof Error)) return readableText(() => error);
  const message = readableText(() => error.message);
  const stack = readableText(() => error.stack ?? "");
  const { line } = siteIn(stack.split("\n").filter((frame) => !OURS.test(frame)).join("\n"));
  return line === undefined || message.includes(line) ? message : `${message} (${line})`;
}
