/** Native programs on two hosts in this process, once in each of several ways that may not differ. */
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { NEVER, PS_PER_S, type Time } from "../../fabric/base/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import {
  LEASE_VARIABLE,
  type NativePort,
  type NativeProcess,
} from "../../nodes/host/native/port.ts";
import { REPLY, REQUEST_NAMES } from "../../nodes/host/native/requests.ts";
import { createNativePort } from "../../nodes/native_process.ts";
import { executableInPath } from "../../console/base/executables.ts";
import { nativeLibrary } from "../../console/rack/native/library.ts";

/** A program, or a client and its server, as the table has them. */
export interface NativeJob {
  /** The file's name, and that of Debian's package in which it is. */
  readonly binary: string;
  readonly packaged: string;
  readonly options: readonly string[];
  /** What the client has besides: the server's name, as a rule. None: it runs alone on one host. */
  readonly client?: readonly string[];
  /** The client's whole command, where it is not the server's with more words. */
  readonly clientCommand?: readonly string[];
  /** Both ends on one host. */
  readonly isOneHost?: true;
  /** A line of the scenario besides. */
  readonly rack?: string;
  /** The environment of both ends. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs that may not take longer are given up: in virtual time. */
const LONGEST_PS = 60 * PS_PER_S;
/** The client's start in the scenario: the server listens by then. */
const CLIENT_AT = "1ms";

export interface NativeRun {
  /** By host and program, in the order of their ends; null: it has not ended. */
  readonly codes: readonly (number | null)[];
  /** Lines of the output, by host. */
  readonly lines: Readonly<Record<string, readonly string[]>>;
  /** All that may not differ: lines with their instants, ends, digest. */
  readonly transcript: readonly string[];
  readonly endPs: Time;
  readonly requests: Readonly<Record<string, number>>;
  readonly requestCount: number;
  readonly events: number;
  readonly wallMs: number;
}

const decoder = new TextDecoder();

/** The version of an installed package of Debian. */
export function versionOf(packaged: string): string | undefined {
  try {
    const args = ["-W", "-f", "${Version}", packaged];
    const { success, stdout } = new Deno.Command("dpkg-query", { args, stderr: "null" })
      .outputSync();
    return success ? decoder.decode(stdout) : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** A job's programs in a scenario's syntax. */
export function scenarioOf(job: NativeJob): string {
  const { binary, options, isOneHost, rack, env } = job;
  const more = env === undefined ? "" : `, env: ${JSON.stringify(env)}`;
  const server = [binary, ...options], client = clientOf(job);
  const one = isOneHost || client === undefined;
  return [
    "name: native",
    ...(rack === undefined ? [] : [rack]),
    `hosts: { ${one ? "b: { services: none }" : "a: { services: none }, b: { services: none }"} }`,
    "programs:",
    `  - { on: b, native: ${JSON.stringify(server)}${more} }`,
    ...(client === undefined ? [] : [
      `  - { on: ${one ? "b" : "a"}, native: ${JSON.stringify(client)}, at: ${CLIENT_AT}${more} }`,
    ]),
  ].join("\n") + "\n";
}

/** The command of a job's client; undefined where it has none. */
export function clientOf({ binary, options, client, clientCommand }: NativeJob) {
  return clientCommand ?? (client && [binary, ...options, ...client]);
}

/** A port whose threads' requests are counted, by name. @param longerPs of each lease. */
function counted(
  port: NativePort,
  requests: Record<string, number>,
  longerPs: Time,
): NativePort {
  const count = (bytes: Uint8Array | undefined) => {
    if (bytes === undefined) return;
    const { buffer, byteOffset } = bytes;
    const name = REQUEST_NAMES[new DataView(buffer, byteOffset).getUint32(8, true)]!;
    requests[name] = (requests[name] ?? 0) + 1;
  };
  const counting = (process: NativeProcess): NativeProcess => {
    const { main } = process;
    count(process.first);
    return {
      first: process.first,
      main: {
        resume(reply, thread) {
          const bytes = main.resume(longerPs > 0 ? withLonger(reply, longerPs) : reply, thread);
          count(bytes);
          return bytes;
        },
        awaitEnd: (real) => main.awaitEnd(real),
        read: (address, length) => main.read(address, length),
        write: (address, bytes) => main.write(address, bytes),
      },
      output: (stream, bytes) => process.output(stream, bytes),
      fork: (pid) => counting(process.fork!(pid)),
      end: () => process.end(),
      kill: () => process.kill(),
    };
  };
  return { start: (options) => counting(port.start(options)) };
}

/** A reply whose lease promises more than the host can know. */
function withLonger(reply: Uint8Array, longerPs: Time): Uint8Array {
  const longer = reply.slice(), view = new DataView(longer.buffer);
  const at = REPLY.indexOf("leasePs") * BigInt64Array.BYTES_PER_ELEMENT;
  const leasePs = view.getBigInt64(at, true);
  if (leasePs < NEVER) view.setBigInt64(at, leasePs + BigInt(longerPs), true);
  return longer;
}

/** What the library answers itself: see {@link isLease}. */
export type Lease = "on" | "off" | `${number}`;

/** Runs a scenario with native programs. */
export async function runNative(
  text: string,
  { lease = "on", untilPs = LONGEST_PS, longerPs = 0 }: {
    readonly lease?: Lease;
    readonly untilPs?: Time;
    /** Breaks the rule of leases: each is so much too long. */
    readonly longerPs?: Time;
  } = {},
): Promise<NativeRun> {
  const library = await nativeLibrary();
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-native-" });
  const plan = withFiles(makePlan(variants(parseScenario(text, "native.yaml"))[0]!), lease);
  const requests: Record<string, number> = {}, lines: Record<string, string[]> = {};
  const codes: (number | null)[] = [], transcript: string[] = [];
  const began = performance.now();
  const simulator = new Simulator({
    plan,
    create: nodeFactory({
      plan,
      image: () => undefined,
      inputs: () => ({}),
      native: (host) =>
        counted(
          createNativePort({ library, directory: `${directory}/${host}` }),
          requests,
          longerPs,
        ),
    }),
    onReport(time, node, topic, value) {
      const { program, text, code, message } = value as Record<string, unknown>;
      if (topic === "log") (lines[node] ??= []).push(String(text));
      if (topic === "native-ended") codes.push(code as number);
      const said = topic === "log" ? text : code ?? message ?? "";
      transcript.push(`${time} ${node} ${topic} ${program ?? ""} ${said}`);
    },
  });
  simulator.run(untilPs);
  for (const { node, value } of simulator.unfinished()) {
    const { program, waitsFor, serves } = value;
    if (serves) continue;
    codes.push(null);
    transcript.push(`${node} ${program} has not ended: ${waitsFor}`);
  }
  const wallMs = performance.now() - began;
  transcript.push(`end ${simulator.now} digest ${simulator.digest}`);
  await Deno.remove(directory, { recursive: true });
  const requestCount = Object.values(requests).reduce((sum, each) => sum + each, 0);
  const { now: endPs, events } = simulator;
  return { codes, lines, transcript, endPs, requests, requestCount, events, wallMs };
}

function withFiles<Plan extends RackPlan>(plan: Plan, lease: Lease): Plan {
  const env = lease === "on" ? {} : { [LEASE_VARIABLE]: lease };
  const nodes = plan.nodes.map((node) => {
    if (node.kind !== "host") return node;
    const programs = node.config.programs.map((program) => {
      const { native } = program;
      if (native === undefined) return program;
      const file = executableInPath(native.argv[0]!);
      if (file === undefined) throw new Error(`${native.argv[0]} is not installed`);
      return { ...program, native: { ...native, env: { ...native.env, ...env }, file } };
    });
    return { ...node, config: { ...node.config, programs } };
  });
  return { ...plan, nodes };
}

/** The first line in which two transcripts differ; undefined where they are equal. */
export function differenceOf(
  one: readonly string[],
  other: readonly string[],
): string | undefined {
  const count = Math.max(one.length, other.length);
  for (let i = 0; i < count; i++) {
    if (one[i] !== other[i]) return `line ${i + 1}: ${one[i] ?? "none"}, ${other[i] ?? "none"}`;
  }
  return undefined;
}
