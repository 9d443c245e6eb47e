/**
 * A shipped program on a host transfers objects into and out of the SCM of a running rack. The
 * order carries the data that enters the rack, so that the run's digest covers it.
 */
import { reportFromBytes } from "../../../fabric/rack/assembly/report_message.ts";
import { filesVerb, USERS } from "../../../fabric/bus/access.ts";
import { encode } from "../../../fabric/bus/codec.ts";
import { patternOf } from "../../../fabric/bus/subjects.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { outputFile } from "../../../fabric/rack/assembly/run_file.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { isObjectName, machineOf, OBJECT_NAME_EXPECTED } from "../../../fabric/rack/plan/names.ts";
import { valuesIn, type ValuesOf } from "../../../fabric/rack/plan/option_rows.ts";
import type { NodePlan } from "../../../fabric/rack/plan/plan.ts";
import {
  type MethodName,
  serviceExpected,
  SERVICES,
  TRANSFER_CHOICES,
} from "../../../fabric/rack/plan/vocabulary.ts";
import { isOwnProgram } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { oneOf, refusal } from "../../../fabric/rack/plan/problem.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { checkTarget, replaceFile } from "../../base/replace_file.ts";
import { sha256 } from "../../base/sha256.ts";
import { RackError } from "../../base/rack_error.ts";
import { isTimeHeld } from "./clock_text.ts";
import { RemoteFiles } from "../remote/remote_files.ts";
import { countFaults, entryOf, type Faults, isOf } from "./power.ts";
import { isAttached, isElsewhere, partitionOf, type RackLink } from "./racks.ts";

export interface TransferOptions extends ValuesOf<typeof TRANSFER_CHOICES> {
  /** Default: the first host other than the peer. */
  readonly on?: string;
  /** Of `on`, from 1; default: the first one. */
  readonly nic?: number;
  readonly timeoutSeconds: number;
  /** Ends the wait, with its reason; the program goes on. */
  readonly signal?: AbortSignal | undefined;
  /** `share` in [0, 1]. */
  readonly onProgress?: (title: string, share: number) => void;
  /**
   * Called once where time is held, so that the transfer waits. What it throws ends the wait; where
   * time is held from the beginning, nothing has been ordered by then.
   */
  readonly onHeld?: (program: string, status: ClockStatus) => void;
}

/** Begin and end in ps. */
export interface TransferResult {
  readonly host: string;
  readonly bytes: number;
  readonly startPs: Time;
  readonly endPs: Time;
  readonly sha256: string;
}

export interface GetOptions extends TransferOptions {
  readonly from: string;
  readonly object: string;
  /** Default: an incomplete object is refused. */
  readonly partial: boolean;
}

export interface GetOutcome extends TransferResult {
  readonly incomplete?: true;
}

/** Reads an object out of a host's SCM. @throws Refusal, RackError */
export async function readObject(
  link: RackLink,
  { from, object, partial, ...options }: GetOptions,
): Promise<{ readonly outcome: GetOutcome; readonly content: Uint8Array<ArrayBuffer> }> {
  const host = hostFor(link, { peer: from, option: "from", on: options.on });
  checkName(object);
  const { number, result } = await runProgram(link, options, {
    host,
    run: "get",
    title: `get ${object} ${from}`,
    options: {
      from,
      name: object,
      ...(partial && { partial }),
      ...valuesIn(TRANSFER_CHOICES, options),
    },
  });
  const { rack: { directory } } = link;
  const output = outputFile(directory, { path: object, order: number });
  await bringHere(link, { host, name: output.slice(directory.length + 1) });
  const content = await Deno.readFile(output);
  // Else a rack that stays up would keep a copy of each object that was ever read.
  await Deno.remove(output);
  const outcome = { ...result, host, sha256: await sha256(content) } as unknown as GetOutcome;
  return { outcome, content };
}

/** A file that the host's process has written in its folder, which may be another machine's. */
async function bringHere(
  { rack, bus }: RackLink,
  { host, name }: { readonly host: string; readonly name: string },
): Promise<void> {
  const partition = partitionOf(rack, host)!;
  if (!isAttached(rack) && !isElsewhere(rack, partition)) return;
  const owner = isElsewhere(rack, partition) ? partition : USERS.supervisor;
  const files = new RemoteFiles(bus, { run: rack.file.run, verb: filesVerb(owner), owner: host });
  await files.fetch({ name, bytes: 0, changedMs: Date.now() }, `${rack.directory}/${name}`);
}

/** Reads an object out of a host's SCM into a file. @throws Refusal, RackError */
export async function getObject(
  link: RackLink,
  { file, ...options }: GetOptions & { readonly file: string },
): Promise<GetOutcome & { readonly file: string }> {
  checkTarget(file);
  const { outcome, content } = await readObject(link, options);
  await replaceFile(file, content).catch((cause) => {
    throw new RackError(`Cannot write ${file}: ${(cause as Error).message}`);
  });
  const { sha256, ...rest } = outcome;
  return { ...rest, file, sha256 };
}

export interface PutOutcome extends TransferResult {
  readonly promises: boolean;
  readonly confirmedMessages: number;
  readonly messages: number;
  /** The old object was removed first, as there was no room for both. */
  readonly withdrawn?: boolean;
}

/** Makes bytes persistent in a host's SCM. @throws Refusal, RackError */
export async function putObject(
  link: RackLink,
  { to, file, content, name, method, ...options }: TransferOptions & {
    readonly to: string;
    readonly file: string;
    readonly content: Uint8Array<ArrayBuffer>;
    readonly name: string;
    readonly method: MethodName;
  },
): Promise<PutOutcome> {
  const host = hostFor(link, { peer: to, option: "to", on: options.on });
  checkName(name);
  const { result } = await runProgram(link, options, {
    host,
    run: "put",
    title: `put ${name} ${to}`,
    options: { to, file, name, method, content, ...valuesIn(TRANSFER_CHOICES, options) },
  });
  return { ...result, host, sha256: await sha256(content) } as PutOutcome;
}

/**
 * The objects in a host's SCM, as its service lists them to another host.
 * @throws Refusal, RackError
 */
export async function listObjects(
  link: RackLink,
  { from, ...options }: TransferOptions & { readonly from: string },
): Promise<{
  readonly host: string;
  readonly objects: readonly {
    readonly name: string;
    readonly length: number;
    readonly incomplete?: true;
  }[];
}> {
  const host = hostFor(link, { peer: from, option: "from", on: options.on });
  const order = { host, run: "list", title: `list ${from}`, options: { from } };
  const { result } = await runProgram(link, options, order);
  return { ...result, host } as Awaited<ReturnType<typeof listObjects>>;
}

/** Removes an object from a host's SCM. @throws Refusal, RackError */
export async function removeObject(
  link: RackLink,
  { from, object, ...options }: TransferOptions & {
    readonly from: string;
    readonly object: string;
  },
): Promise<{ readonly host: string; readonly from: string; readonly name: string }> {
  const host = hostFor(link, { peer: from, option: "from", on: options.on });
  checkName(object);
  const order = {
    host,
    run: "remove",
    title: `rm ${object} ${from}`,
    options: { from, name: object },
  };
  const { result } = await runProgram(link, options, order);
  return { ...result, host } as Awaited<ReturnType<typeof removeObject>>;
}

function checkName(name: string): void {
  if (isObjectName(name)) return;
  const found = `${JSON.stringify(name)} cannot name an object`;
  throw refusal("", { found, expected: OBJECT_NAME_EXPECTED });
}

function hostFor(
  { rack }: RackLink,
  { peer, option, on }: {
    readonly peer: string;
    readonly option: string;
    readonly on: string | undefined;
  },
): string {
  const { nodes, addresses } = rack.file.plan;
  const hosts = nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  const peers = Object.keys(addresses);
  if (!peers.includes(peer)) {
    throw refusal((named) => named(option), {
      found: `"${peer}"`,
      expected: oneOf(peers, peer),
    });
  }
  checkServed(nodes, { peer, option });
  const others = hosts.filter((host) => host !== machineOf(peer));
  const host = on ?? others[0];
  if (host !== undefined && others.includes(host)) return host;
  throw refusal((named) => named("on"), {
    found: `"${host ?? ""}"`,
    expected: oneOf(others, host),
  });
}

/** Each order asks the peer's service. A program of one's own may be in its place. */
function checkServed(
  nodes: readonly NodePlan[],
  { peer, option }: { readonly peer: string; readonly option: string },
): void {
  const without = nodes.filter((node) =>
    node.kind === "host" &&
    !node.config.programs.some(({ run }) => isService(run) || isOwnProgram(run))
  );
  const host = without.find(({ name }) => name === machineOf(peer));
  if (host?.kind !== "host") return;
  const isNative = host.config.programs.some(({ native }) => native !== undefined);
  throw refusal((named) => named(option), {
    found: `"${peer}"`,
    expected: serviceExpected(host.name, isNative ? ": it has native programs" : ""),
  });
}

function isService(run: string): boolean {
  return (SERVICES as readonly string[]).includes(run);
}

function checkNic({ rack }: RackLink, host: string, nic: number): void {
  const node = rack.file.plan.nodes.find(({ name }) => name === host);
  const count = node?.kind === "host" ? node.config.rnics.length : 0;
  if (nic <= count) return;
  const expected = count === 1 ? `1, as ${host} has one RNIC` : `1 to ${count}`;
  throw refusal((named) => named("nic"), { found: String(nic), expected });
}

interface Order {
  readonly host: string;
  readonly run: string;
  readonly title: string;
  readonly options: Readonly<Record<string, unknown>>;
}

type Result = Readonly<Record<string, unknown>>;

async function runProgram(
  link: RackLink,
  { timeoutSeconds, nic = 1, signal, onProgress, onHeld }: TransferOptions,
  order: Order,
): Promise<{ readonly number: number; readonly result: Result }> {
  const { host, run, title } = order;
  checkNic(link, host, nic);
  const deadline = performance.now() + 1_000 * timeoutSeconds;
  const reports = listen(link, host);
  let isHeld = false, missed = 0;
  const tellHeld = (status: ClockStatus, holds: boolean) => {
    if (holds && !isHeld) onHeld?.(run, status);
    isHeld ||= holds;
  };
  try {
    const before = await countFaults(link), first = await link.control.status();
    // A rack that is paused with nothing to do holds what it is ordered to do.
    tellHeld(first, !first.finished && (first.paused || isTimeHeld(first)));
    let number = await hand(link, { order, nic, deadline });
    for (let look = 1;; look++) {
      const { result, share } = reports.latest(number);
      const isLook = look % KEPT_EVERY === 0;
      const reported = result ?? (isLook ? await keptResult(link, { host, number }) : undefined);
      if (reported !== undefined) return { number, result: checked(reported, order) };
      if (isLook) {
        const status = await link.control.status();
        if (isDead(status, link, host) || await hasFailedSince(before, link, host)) {
          const lost = `${host} lost its power while ${run} was running on it`;
          throw new RackError(lost, EXIT.failed);
        }
        missed = await isForgotten(link, { host, number, status }) ? missed + 1 : 0;
        if (missed >= MISSED_MOST) {
          missed = 0;
          number = await hand(link, { order, nic, deadline });
        }
        tellHeld(status, isTimeHeld(status));
      }
      if (performance.now() > deadline) {
        const silent = `${run} on ${host} has no result after ${timeoutSeconds} s`;
        throw new RackError(silent);
      }
      onProgress?.(title, share);
      signal?.throwIfAborted();
      await sleep(RESULT_AGAIN_MS);
    }
  } finally {
    reports.close();
  }
}

/**
 * The order's timekeeper has ended before the order was on record. A host that has answered the
 * next timekeeper takes no grant of the earlier one any more.
 */
export async function isForgotten(
  { rack, control }: Pick<RackLink, "rack" | "control">,
  { host, number, status }: { host: string; number: number; status: ClockStatus },
): Promise<boolean> {
  if (number >= status.ordersFrom || status.recalled.includes(number)) return false;
  const name = partitionOf(rack, host)!;
  const row = status.why.find(({ partition }) => partition === name);
  if (row?.status !== "idle" && row?.status !== "running") return false;
  const final = await control.final(name, { forMs: 0 });
  return final !== undefined &&
    !final.reports.some(({ value }) => (value as Result | null)?.["order"] === number);
}

/** It may have power again, without the program. */
async function hasFailedSince(
  before: number,
  { rack, control }: RackLink,
  host: string,
): Promise<boolean> {
  const answer = await control.attempt<Faults>("faults", { from: before });
  const entry = entryOf(rack, host);
  return answer !== undefined && "ok" in answer && answer.ok.faults.some(isOf(entry, "kill"));
}

/** After so many polls without a report, an order is given again. */
const MISSED_MOST = 2;
const RESULT_AGAIN_MS = 20;
const KEPT_EVERY = 10;

interface Reported {
  readonly topic: string;
  readonly value: Result;
}

interface OrderReport {
  readonly result?: Reported;
  readonly share: number;
}

function listen({ rack, bus }: RackLink, host: string) {
  const latest = new Map<number, OrderReport>();
  const subject = patternOf({ kind: "report", run: rack.file.run, node: host });
  const subscription = bus.subscribe(subject, (payload) => {
    const { topic = "", value } = reportFromBytes(payload) ?? {};
    const { order, written = 0, messages } = Object(value) as Readonly<Record<string, number>>;
    if (order === undefined) return;
    if (topic === "progress") {
      latest.set(order, { share: written / (messages || 1) });
    } else if (FINAL_TOPICS.has(topic)) {
      latest.set(order, { share: 1, result: { topic, value: value as Result } });
    }
  });
  return {
    latest: (number: number): OrderReport => latest.get(number) ?? { share: 0 },
    close: () => subscription.close(),
  };
}

const FINAL_TOPICS: ReadonlySet<string> = new Set(["result", "program-failed"]);

async function hand(
  link: RackLink,
  { order: { host, run, options }, nic, deadline }: {
    readonly order: Order;
    readonly nic: number;
    readonly deadline: number;
  },
): Promise<number> {
  const { rack, bus, control } = link;
  const rnic = nic > 1 && { rnic: nic - 1 };
  const program = { run, at: 0, service: false, ...rnic, options };
  const size = encode(program).length, most = bus.maxPayload - ORDER_OVERHEAD_BYTES;
  if (size > most) {
    throw refusal("", {
      found: `A rack that is up takes files of at most ${most} B: this is one of ${size} B`,
      expected: "a smaller one (rack run SCENARIO --input FILE takes any size)",
    });
  }
  for (;;) {
    const status = await control.status();
    if (status.finished) {
      const ended = `${rack.id} has come to its end: no event is left`;
      throw new RackError(ended);
    }
    if (isDead(status, link, host)) {
      throw new RackError(`${host} has no power: rack start ${host}`, EXIT.failed);
    }
    const answer = await control.ask<{ readonly order: number }>("run", { host, program });
    if ("ok" in answer) return answer.ok.order;
    if (!answer.isBusy) throw refusal("", { found: `Cannot run: ${answer.refused}` });
    if (performance.now() > deadline) {
      throw new RackError(`${host} was not given ${run}: ${answer.refused}`);
    }
    await sleep(RESULT_AGAIN_MS);
  }
}

const ORDER_OVERHEAD_BYTES = 128 * 1024;

function isDead({ why }: ClockStatus, { rack }: RackLink, host: string): boolean {
  const name = partitionOf(rack, host);
  return why.some(({ partition, status }) => partition === name && status === "dead");
}

async function keptResult(
  { rack, control }: RackLink,
  { host, number }: { host: string; number: number },
): Promise<Reported | undefined> {
  const final = await control.final(partitionOf(rack, host)!, { forMs: 0 });
  // Reports of a program that has not ended say why it waits.
  return final?.reports.map(({ topic, value }) => ({ topic, value: value as Result })).find(
    ({ topic, value }) => FINAL_TOPICS.has(topic) && value?.["order"] === number,
  );
}

function checked(reported: Reported, order: Order): Result {
  const { order: _, ...value } = reported.value;
  if (reported.topic === "result" && value["status"] === "done") return value;
  const why = value["error"] ?? value["message"];
  const confirmed = typeof value["confirmedMessages"] === "number"
    ? `; ${value["confirmedMessages"]} of ${value["messages"]} messages were confirmed`
    : "";
  const hint = /not-found/.test(String(why))
    ? "; rack ls lists the objects"
    : /: incomplete$/.test(String(why))
    ? "; --partial reads what is there"
    : "";
  throw new RackError(
    `${order.run} on ${order.host} failed: ${why}${confirmed}${hint}`,
    EXIT.failed,
  );
}
