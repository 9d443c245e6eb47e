/** Options that only the replicated log's programs have. */
import { ProgramError } from "../../device.ts";
import type { Options } from "../options.ts";

/** A list of hosts' names, each once. @throws ProgramError */
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
