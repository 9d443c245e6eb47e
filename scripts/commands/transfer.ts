/**
 * `rack get`, `put` and `ls` on a rack that is up: each starts a shipped program on a host and waits
 * for its result. What goes into the rack goes into the order, so that the run's digest covers it.
 */
import type { Command } from "commander";
import { decode, encode } from "../../fabric/bus/codec.ts";
import { patternOf } from "../../fabric/bus/subjects.ts";
import { EXIT, type FinalReply } from "../../fabric/rack/build/run_file.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { type MethodName, PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { formatTime, PS_PER_S } from "../../fabric/base/time.ts";
import { NAME_BYTES_MAX } from "../../nodes/host/programs/common/scm_directory.ts";
import { sha256 } from "../../console/reports/report.ts";
import { ExitError, UsageError } from "../../console/rack/failure.ts";
import { addRunOption, type RackLink, type RunFlag, sleep, withRack } from "./link.ts";
import { print, Progress, say, table } from "../../console/base/output.ts";
import { whole } from "./run.ts";
import { parseSize } from "../../fabric/rack/plan/units.ts";

interface TransferFlags extends RunFlag {
  readonly from?: string;
  readonly to?: string;
  readonly on?: string;
  readonly as?: string;
  readonly method?: string;
  readonly size?: string;
  readonly depth?: string;
  readonly timeout: string;
  readonly json?: boolean;
}

export function addTransfer(program: Command): void {
  transferCommand(program, "get <object> <file>", "read an object out of a host's SCM, by RDMA")
    .requiredOption("--from <host>", "whose SCM")
    .addHelpText("after", "\nExample:\n  rack get --from b data.bin ./copy.bin")
    .action(async (object: string, file: string, flags: TransferFlags) => {
      Deno.exitCode = await withRack(flags, (link) => get(link, { object, file, flags }));
    });
  transferCommand(program, "put <file>", "make a file persistent in a host's SCM, by RDMA")
    .requiredOption("--to <host>", "whose SCM")
    .option("--as <object>", "what it is called there; else as the file")
    .option("--method <name>", `one of ${PUT_METHODS.join(", ")}`, "persist-opcode")
    .addHelpText("after", "\nExample:\n  rack put --to b ./data.bin --method write-read")
    .action(async (file: string, flags: TransferFlags) => {
      Deno.exitCode = await withRack(flags, (link) => put(link, { file, flags }));
    });
  addRunOption(program.command("ls"))
    .description("objects in a host's SCM, as its service tells another host")
    .requiredOption("--from <host>", "whose SCM")
    .option("--on <host>", "who asks; else the first other host")
    .option("--timeout <seconds>", "how long to wait", "120")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack ls --from b")
    .action(async (flags: TransferFlags) => {
      Deno.exitCode = await withRack(flags, (link) => ls(link, flags));
    });
}

function transferCommand(program: Command, usage: string, description: string): Command {
  return addRunOption(program.command(usage)).description(description)
    .option("--on <host>", "on which host the program runs; else the first other one")
    .option("--size <bytes>", "bytes of a message, 64 to 1MiB")
    .option("--depth <n>", "messages outstanding, 1 to 256")
    .option("--timeout <seconds>", "how long to wait", "120")
    .option("--json", "one JSON document on stdout");
}

async function get(
  link: RackLink,
  what: { object: string; file: string; flags: TransferFlags },
): Promise<number> {
  const { object, file, flags } = what;
  const host = hostOf(link, { peer: flags.from!, option: "--from", flags });
  const result = await runProgram(link, {
    host,
    run: "get",
    options: { from: flags.from!, name: object, ...sizesOf(flags) },
    flags,
  });
  const path = `${link.rack.directory}/outputs/${object.replaceAll(/[^\w.-]/g, "_")}`;
  await copyWhole(path, file);
  const hash = await sha256(await Deno.readFile(file));
  const document = { ...result, host, file, sha256: hash };
  const { bytes, startPs, endPs } = result as Record<string, number>;
  return tell(
    flags,
    document,
    `${object}: ${bytes} B from ${flags.from} to ${file} in ${speed(bytes!, endPs! - startPs!)}`,
  );
}

/** All of it or nothing: what was there stays until the copy is complete. */
async function copyWhole(from: string, to: string): Promise<void> {
  const part = `${to}.part-${Deno.pid}`;
  try {
    await Deno.copyFile(from, part);
    await Deno.rename(part, to);
  } catch (cause) {
    await Deno.remove(part).catch(() => {});
    throw new ExitError(`Cannot write ${to}: ${(cause as Error).message}`, EXIT.unclear);
  }
}

async function put(
  link: RackLink,
  what: { file: string; flags: TransferFlags },
): Promise<number> {
  const { file, flags } = what;
  const method = flags.method as MethodName;
  if (!PUT_METHODS.includes(method)) {
    throw new UsageError(`--method is "${method}": expected one of ${PUT_METHODS.join(", ")}`);
  }
  const host = hostOf(link, { peer: flags.to!, option: "--to", flags });
  const content = await readInput(file);
  const name = objectName(flags.as ?? file.split("/").at(-1)!);
  const options = { to: flags.to!, file, name, method, content, ...sizesOf(flags) };
  const result = await runProgram(link, { host, run: "put", options, flags });
  const { startPs, endPs, promises, confirmedMessages, messages } = result as unknown as {
    startPs: number;
    endPs: number;
    promises: boolean;
    confirmedMessages: number;
    messages: number;
  };
  const said = promises
    ? `${confirmedMessages} of ${messages} messages persistent`
    : "nothing of it is promised to be persistent by this method here";
  const document = { ...result, host, sha256: await sha256(content) };
  const text = `${name}: ${content.length} B to ${flags.to} by ${method} in ${
    speed(content.length, endPs - startPs)
  }: ${said}`;
  return tell(flags, document, text);
}

async function readInput(file: string): Promise<Uint8Array<ArrayBuffer>> {
  const content = await Deno.readFile(file).catch((cause) => {
    throw new UsageError(`Cannot read ${file}: ${(cause as Error).message}`, { cause });
  });
  if (content.length > 0) return content;
  throw new UsageError(`${file} is empty: expected at least one byte`);
}

function objectName(name: string): string {
  const length = encode(name).length;
  if (name !== "" && length <= NAME_BYTES_MAX) return name;
  throw new UsageError(`"${name}" cannot name an object: expected 1 to ${NAME_BYTES_MAX} bytes`);
}

async function ls(link: RackLink, flags: TransferFlags): Promise<number> {
  const host = hostOf(link, { peer: flags.from!, option: "--from", flags });
  const options = { from: flags.from! };
  const result = await runProgram(link, { host, run: "list", options, flags });
  const objects = result["objects"] as { name: string; length: number }[];
  const text = objects.length === 0
    ? `${flags.from} has no objects`
    : table(["object", "bytes"], objects.map(({ name, length }) => [name, String(length)]));
  return tell(flags, { ...result, host }, text);
}

function sizesOf({ size, depth }: TransferFlags): Record<string, number> {
  const bytes = size === undefined ? undefined : parseSize(size) ?? NaN;
  if (bytes !== undefined && !(bytes >= 64 && bytes <= 2 ** 20)) {
    throw new UsageError(`--size is "${size}": expected 64 to 1MiB, such as 4096 or 4KiB`);
  }
  return {
    ...(bytes !== undefined && { size: bytes }),
    ...(depth !== undefined && { depth: whole("--depth", depth, { least: 1, most: 256 }) }),
  };
}

/** The host that the program runs on. @throws UsageError where one of the two is no host. */
function hostOf(
  link: RackLink,
  of: { peer: string; option: string; flags: TransferFlags },
): string {
  const { peer, option, flags } = of;
  const { nodes } = link.rack.file.plan;
  const hosts = nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  if (!hosts.includes(peer)) {
    throw new UsageError(`${option} is "${peer}": expected one of ${hosts.join(", ")}`);
  }
  const others = hosts.filter((host) => host !== peer);
  const host = flags.on ?? others[0];
  if (host !== undefined && others.includes(host)) return host;
  throw new UsageError(`--on is "${host ?? ""}": expected one of ${others.join(", ")}`);
}

interface Order {
  readonly host: string;
  readonly run: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly flags: TransferFlags;
}

type Result = Readonly<Record<string, unknown>>;

/** Starts a program and waits for its result. @throws ExitError where it fails or none comes. */
async function runProgram(link: RackLink, order: Order): Promise<Result> {
  const { host, run, options, flags } = order;
  const seconds = whole("--timeout", flags.timeout, { least: 1, most: 86_400 });
  const deadline = performance.now() + 1_000 * seconds;
  const progress = new Progress({ quiet: flags.json === true });
  const heard = listen(link, host);
  const note = standstillNote(run);
  const title = [run, options["name"], options["to"] ?? options["from"]].filter(Boolean).join(" ");
  try {
    const number = await hand(link, { order, deadline });
    for (let look = 1;; look++) {
      const { result, share } = heard.of(number);
      const kept = look % KEPT_EVERY === 0 ? await keptResult(link, { host, number }) : undefined;
      const reported = result ?? kept;
      if (reported !== undefined) return checked(reported, order);
      if (look % KEPT_EVERY === 0) note(await explainSilence(link, { host, run }));
      if (performance.now() > deadline) {
        throw new ExitError(`${run} on ${host} has no result after ${seconds} s`, EXIT.unclear);
      }
      progress.tell(title, share);
      await sleep(RESULT_AGAIN_MS);
    }
  } finally {
    progress.clear();
    heard.close();
  }
}

const RESULT_AGAIN_MS = 20;
/** What passes by on the bus may be lost, so the host is asked every so many looks. */
const KEPT_EVERY = 10;

/** What a program has reported for good. */
interface Reported {
  readonly topic: string;
  readonly value: Result;
}

interface Heard {
  readonly result?: Reported;
  /** Of the program's work that is done, in [0, 1]. */
  readonly share: number;
}

/** Listens to what the programs of a host report, by the number of their order. */
function listen(link: RackLink, host: string) {
  const heard = new Map<number, Heard>();
  const subject = patternOf({ kind: "report", run: link.rack.file.run, node: host });
  const subscription = link.bus.subscribe(subject, (payload) => {
    const [topic, value] = (decode(payload) ?? []) as [string?, Record<string, number>?];
    const order = value?.["order"];
    if (topic === undefined || typeof order !== "number") return;
    if (topic === "progress") {
      heard.set(order, { share: (value!["written"] ?? 0) / (value!["messages"] || 1) });
    } else if (FINAL_TOPICS.has(topic)) {
      heard.set(order, { share: 1, result: { topic, value: value! } });
    }
  });
  return {
    of: (number: number): Heard => heard.get(number) ?? { share: 0 },
    close: () => subscription.close(),
  };
}

const FINAL_TOPICS: ReadonlySet<string> = new Set(["result", "program-failed"]);

/** Hands the order to the clock; again while it has its hands full with another. */
async function hand(link: RackLink, what: { order: Order; deadline: number }): Promise<number> {
  const { host, run, options } = what.order;
  const program = { run, at: 0, service: false, options };
  const size = encode(program).length, most = link.bus.maxPayload - ORDER_OVERHEAD_BYTES;
  if (size > most) {
    throw new UsageError(
      `A rack that is up takes files of at most ${most} B: this is one of ${size} B. ` +
        "rack run SCENARIO --input FILE takes any size",
    );
  }
  for (;;) {
    const status = await link.status();
    if (status.finished) {
      throw new ExitError(
        `${link.rack.id} has come to its end: nothing happens any more`,
        EXIT.unclear,
      );
    }
    const dead = status.why.find(({ partition, status }) =>
      status === "dead" &&
      link.rack.file.partitions.some((each) => each.name === partition && each.nodes.includes(host))
    );
    if (dead !== undefined) {
      throw new ExitError(`${host} has no power: rack start ${host}`, EXIT.failed);
    }
    const answer = await link.ask("run", { host, program });
    if (answer["busy"] !== true) return answer["order"] as number;
    if (performance.now() > what.deadline) {
      throw new ExitError(`${host} was not given ${run}: ${answer["error"]}`, EXIT.unclear);
    }
    await sleep(RESULT_AGAIN_MS);
  }
}

/** What an order says besides the file. */
const ORDER_OVERHEAD_BYTES = 128 * 1024;

/** What the host has kept of the program's reports, if there is an end among them. */
async function keptResult(
  link: RackLink,
  of: { host: string; number: number },
): Promise<Reported | undefined> {
  const partition = link.rack.file.partitions.find(({ nodes }) => nodes.includes(of.host))!.name;
  const final = await link.ask(`final-${partition}`, {}, { repeats: true, forMs: 500 })
    .catch(() => undefined) as FinalReply | undefined;
  return final?.reports.map(({ topic, value }) => ({ topic, value: value as Result })).find(
    ({ value }) => value?.["order"] === of.number,
  );
}

function checked(of: Reported, order: Order): Result {
  const { order: _, ...value } = of.value;
  if (of.topic === "result" && value["status"] === "done") return value;
  const why = value["error"] ?? value["message"];
  const confirmed = typeof value["confirmedMessages"] === "number"
    ? `; ${value["confirmedMessages"]} of ${value["messages"]} messages were confirmed`
    : "";
  const hint = /not-found/.test(String(why)) ? "; rack ls says what is there" : "";
  throw new ExitError(
    `${order.run} on ${order.host} failed: ${why}${confirmed}${hint}`,
    EXIT.failed,
  );
}

/** There is no result yet. @throws ExitError where there will be none. */
async function explainSilence(
  link: RackLink,
  of: { host: string; run: string },
): Promise<ClockStatus> {
  const status = await link.status();
  const { host, run } = of;
  const name = link.rack.file.partitions.find(({ nodes }) => nodes.includes(host))!.name;
  if (status.why.find(({ partition }) => partition === name)?.status === "dead") {
    throw new ExitError(`${host} lost its power while ${run} was running on it`, EXIT.failed);
  }
  return status;
}

/** Says once that somebody holds time back: whoever did may want to step through this. */
function standstillNote(run: string): (status: ClockStatus) => void {
  let isSaid = false;
  return (status) => {
    const held = status.paused || status.next >= status.limit;
    if (isSaid || !held || status.next === Infinity) return;
    isSaid = true;
    say(`Time is held at ${formatTime(status.now)}: ${run} waits for rack resume, step or until`);
  };
}

function speed(bytes: number, ps: number): string {
  const rate = (bytes * 8 / (ps / PS_PER_S) / 1e9).toFixed(1);
  return `${formatTime(ps)} of virtual time (${rate} Gb/s)`;
}

function tell(flags: TransferFlags, document: unknown, text: string): number {
  print(flags.json ? JSON.stringify(document) : text);
  return EXIT.done;
}
