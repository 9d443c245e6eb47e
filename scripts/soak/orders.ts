/**
 * Orders to a rack under soak, each checked against the ledger. An order that was disturbed may
 * fail with a sentence; one that was not has to succeed. None may hang ({@link HANGS_MS}).
 */
import { after } from "../../fabric/bus/wall_time.ts";
import type { Rng } from "../../fabric/base/rng.ts";
import type { MethodName } from "../../fabric/rack/plan/vocabulary.ts";
import { explain } from "../../console/rack/failure.ts";
import { getObject, listObjects, putObject } from "../../console/rack/live/transfer.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import type { Ledger, Place } from "./ledger.ts";
import { type Ended, HANGS_MS, type LiveRack, ORDER_S } from "./live_rack.ts";

export interface Findings {
  readonly counts: Record<string, number>;
  readonly failures: string[];
}

export interface SoakRun {
  readonly seed: number;
  readonly directory: string;
  readonly findings: Findings;
  readonly signal: AbortSignal;
}

export interface Orders {
  readonly rack: LiveRack;
  readonly ledger: Ledger;
  readonly findings: Findings;
  readonly directory: string;
}

export interface Put extends Place {
  readonly content: Uint8Array<ArrayBuffer>;
  readonly method: MethodName;
}

export type Manner = {
  /** The `rack` command instead of the connection of this process. */
  readonly byCommand?: boolean;
  readonly isDisturbed?: boolean;
};

/** Their puts promise persistence on the soak's hosts. */
const PROMISING: readonly MethodName[] = [
  "write-read",
  "send-flush",
  "write-send",
  "write-flush",
  "persist-opcode",
  "persist-address",
  "verify-persist",
  "persist-compare",
];
const NAMES = 6, BYTES_MOST = 48 * 1024;

export function count({ counts }: Findings, what: string, by = 1): void {
  counts[what] = (counts[what] ?? 0) + by;
}

export function drawPut(rng: Rng, host = rng.below(2) === 0 ? "a" : "b", lane = 0): Put {
  const content = new Uint8Array(1 + rng.below(rng.below(4) === 0 ? BYTES_MOST : 4096));
  for (let at = 0; at < content.length; at++) content[at] = rng.below(256);
  const method = PROMISING[rng.below(PROMISING.length)]!;
  return { host, name: `${laneName(lane)}${rng.below(NAMES)}`, content, method };
}

/** Orders of several lanes are under way at once, each with objects of its own. */
export function laneName(lane: number): string {
  return `object-${lane}-`;
}

export async function put(orders: Orders, draft: Put, manner: Manner = {}): Promise<void> {
  const { rack, ledger, findings, directory } = orders;
  const { host, name, content, method } = draft;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", content)).toHex();
  ledger.sent(draft, hash);
  const what = `put of ${name} to ${host} by ${method}`;
  const outcome = manner.byCommand
    ? await byCommand(async () => {
      const file = `${directory}/sent-${crypto.randomUUID()}`;
      await Deno.writeFile(file, content);
      const words = ["--to", host, "--as", name, "--method", method, ...TIMEOUT];
      return await rack.rack("put", file, ...words, "--json").finally(() => Deno.remove(file));
    })
    : await bounded(() =>
      putObject(rack.link, {
        ...{ to: host, file: name, content, name, method, timeoutSeconds: ORDER_S },
      })
    );
  count(findings, "puts");
  if (!judge(orders, { what, outcome, manner })) {
    if (outcome.code !== EXIT.failed && outcome.code !== EXIT.usage) ledger.abandoned(draft, hash);
    return;
  }
  const { promises } = outcome.value as { promises: boolean };
  if (promises) ledger.confirmed(draft, hash);
  else findings.failures.push(`${what} promised nothing`);
}

const TIMEOUT = ["--timeout", String(ORDER_S)];

export async function get(orders: Orders, place: Place, manner: Manner = {}): Promise<void> {
  const { rack, ledger, findings, directory } = orders;
  const { host, name } = place;
  const file = `${directory}/got-${crypto.randomUUID()}`;
  const what = `get of ${name} from ${host}`;
  const words = ["get", name, file, "--from", host, ...TIMEOUT, "--json"];
  const outcome = manner.byCommand ? await byCommand(() => rack.rack(...words)) : await bounded(
    () =>
      getObject(rack.link, {
        ...{ from: host, object: name, file, partial: false, timeoutSeconds: ORDER_S },
      }),
  );
  count(findings, "gets");
  const isMissing = /not-found/.test(outcome.message);
  if (isMissing || /: incomplete/.test(outcome.message)) {
    const found = isMissing ? "missing" : "incomplete";
    const wrong = ledger.judge(place, found);
    if (wrong !== undefined) findings.failures.push(wrong);
    return;
  }
  if (!judge(orders, { what, outcome, manner })) return;
  const got = await Deno.readFile(file);
  await Deno.remove(file);
  const sha256 = new Uint8Array(await crypto.subtle.digest("SHA-256", got)).toHex();
  const wrong = ledger.judge(place, { sha256 });
  if (wrong !== undefined) findings.failures.push(wrong);
}

export async function list(orders: Orders, host: string, manner: Manner = {}): Promise<void> {
  const { rack, ledger, findings } = orders;
  const what = `ls of ${host}`;
  const outcome = manner.byCommand
    ? await byCommand(() => rack.rack("ls", "--from", host, ...TIMEOUT, "--json"))
    : await bounded(() => listObjects(rack.link, { from: host, timeoutSeconds: ORDER_S }));
  count(findings, "lists");
  if (!judge(orders, { what, outcome, manner })) return;
  const { objects } = outcome.value as Awaited<ReturnType<typeof listObjects>>;
  for (const name of ledger.names(host)) {
    const found = objects.find((each) => each.name === name);
    if (found === undefined) findings.failures.push(`${what} lacks ${name}, which was confirmed`);
    else if (found.incomplete) findings.failures.push(`${what} has ${name} as incomplete`);
  }
}

export async function getAll(orders: Orders, hosts = ["a", "b"]): Promise<void> {
  for (const host of hosts) {
    for (const name of orders.ledger.names(host)) await get(orders, { host, name });
  }
}

/** It has to end with one of these codes and at most one sentence for each line. */
export async function command(
  { rack, findings }: Orders,
  args: readonly string[],
  codes: readonly number[] = [EXIT.done],
): Promise<Ended> {
  const ended = await rack.rack(...args);
  count(findings, "commands");
  const what = `rack ${args.join(" ")}`;
  if (ended.isHung) findings.failures.push(`${what} did not end`);
  else if (!codes.includes(ended.code) || hasStack(ended.stderr)) {
    findings.failures.push(`${what} ended with code ${ended.code}: ${ended.stderr.trim()}`);
  }
  return ended;
}

interface Outcome {
  /** Undefined where the order failed. */
  readonly value?: unknown;
  /** Undefined where it did not end. */
  readonly code?: number;
  readonly message: string;
}

async function bounded(order: () => Promise<unknown>): Promise<Outcome> {
  const late = Promise.withResolvers<Outcome>();
  const hung = { message: `no end after ${HANGS_MS / 1_000} s` };
  const cancel = after(HANGS_MS, () => late.resolve(hung));
  const done = order().then(
    (value): Outcome => ({ value, code: EXIT.done, message: "" }),
    (error): Outcome => explain(error),
  );
  return await Promise.race([done, late.promise]).finally(cancel);
}

async function byCommand(run: () => Promise<Ended>): Promise<Outcome> {
  const { code, stdout, stderr, isHung } = await run();
  if (isHung) return { message: "the command did not end" };
  if (code !== EXIT.done) return { code, message: stderr.trim() };
  return { value: JSON.parse(stdout), code, message: "" };
}

function judge(
  { findings }: Orders,
  { what, outcome, manner }: { what: string; outcome: Outcome; manner: Manner },
): boolean {
  const { code, message } = outcome;
  if (code === EXIT.done) return true;
  const isSilent = /has no result after|was not given/.test(message);
  if (code === undefined || isSilent) findings.failures.push(`${what} hangs: ${message}`);
  else if (code === EXIT.internal || hasStack(message)) {
    findings.failures.push(`${what} ended as a bug of ours: ${message}`);
  } else if (manner.isDisturbed) count(findings, "disturbed orders that failed");
  else findings.failures.push(`${what} failed undisturbed: ${message}`);
  return false;
}

function hasStack(text: string): boolean {
  return /\n\s+at /.test(text);
}
