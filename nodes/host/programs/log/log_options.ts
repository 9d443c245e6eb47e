/** Options of the replicated log's programs. */
import { ProgramError } from "../../verbs/device.ts";
import {
  completionOption,
  countOption,
  microsecondsOption,
  type Options,
  textOption,
  wordOption,
} from "../common/options.ts";
import { METHODS } from "../common/persist_protocol.ts";
import type { LogOptions } from "./log_job.ts";
import type { ProgramContext } from "../../program_context.ts";

/** Name of generated data in reports. */
export const MADE_UP = "made-up";

/** The client's options. @throws ProgramError with the option, its valid values and its value. */
export function readLogOptions({ device, options: given }: ProgramContext): LogOptions {
  const to = hostsOption(given, "to");
  return {
    to,
    quorum: quorumOption(given, to.length),
    name: textOption(given, "name", "log"),
    recordBytes: recordOption(given),
    anew: given.anew === true,
    file: textOption(given, "file", MADE_UP),
    method: wordOption(given, "method", { of: METHODS, otherwise: "persist-opcode" }),
    depth: countOption(given, "depth", { least: 1, otherwise: 16 }),
    mode: completionOption(given, device),
    pausePs: microsecondsOption(given, "pauseUs", 200),
    idlePs: microsecondsOption(given, "idleUs", 5_000),
    patiencePs: microsecondsOption(given, "patienceUs", 100_000),
    lingerPs: microsecondsOption(given, "lingerUs", 20_000),
  };
}

/** A list of different hosts' names. @throws ProgramError */
export function hostsOption(options: Options, name: string): string[] {
  const found = options[name];
  const hosts = Array.isArray(found) ? found : typeof found === "string" ? [found] : [];
  const isRight = hosts.length > 0 && hosts.every((host) => typeof host === "string") &&
    new Set(hosts).size === hosts.length;
  if (isRight) return hosts;
  throw new ProgramError(
    `Option ${name} must be a list of different hosts: it is ${JSON.stringify(found)}`,
  );
}

/** Number of replicas that make a record durable; default: a majority. @throws ProgramError */
export function quorumOption(options: Options, replicas: number): number {
  const least = Math.floor(replicas / 2) + 1;
  const quorum = countOption(options, "quorum", { least: 1, otherwise: least });
  if (quorum >= least && quorum <= replicas) return quorum;
  throw new ProgramError(
    `Option quorum must be ${least} to ${replicas}, more than half of ${replicas} hosts: it is ${quorum}`,
  );
}

/** Maximum record size, if given. @throws ProgramError */
export function recordOption(options: Options): number | undefined {
  if (options.record === undefined) return undefined;
  return countOption(options, "record", { least: 1, otherwise: 1 });
}
