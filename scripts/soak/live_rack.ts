import { USERS } from "../../fabric/bus/access.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { PATIENCE_MS } from "../../fabric/base/patience.ts";
import { after } from "../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { ControlClient } from "../../console/rack/live/control.ts";
import { findUp, type RackLink } from "../../console/rack/live/racks.ts";
import { findProcesses, readProcesses } from "../../console/rack/process_table.ts";

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly isHung: boolean;
}

/** The machine may be busy with other work. */
export const ORDER_S = PATIENCE_MS / 1_000;
/**
 * A command that has not ended by then hangs. An order to a process that does not answer may take
 * its patience and the command's.
 */
export const HANGS_MS = 4 * PATIENCE_MS;

export const RACK = fromFileUrl(projectFile("scripts/rack"));

export function rackEnv(cache: string): Record<string, string> {
  return {
    RACKMESH_CACHE: cache,
    NO_COLOR: "1",
    PATH: `${Deno.execPath().replace(/\/[^/]*$/, "")}:${Deno.env.get("PATH") ?? ""}`,
  };
}

export interface CommandOptions {
  readonly cache: string;
  readonly limitMs?: number;
  readonly signal?: AbortSignal;
}

export function rackCommand(args: readonly string[], options: CommandOptions): Promise<Ended> {
  return endedOf(RACK, args, options);
}

export async function endedOf(
  program: string,
  args: readonly string[],
  { cache, limitMs = HANGS_MS, signal }: CommandOptions,
): Promise<Ended> {
  const child = new Deno.Command(program, {
    args: [...args],
    env: rackEnv(cache),
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let isHung = false;
  const cancel = after(limitMs, () => {
    isHung = true;
    child.kill("SIGKILL");
  });
  const interrupt = () => child.kill("SIGTERM");
  signal?.addEventListener("abort", interrupt);
  const { code, stdout, stderr } = await child.output();
  signal?.removeEventListener("abort", interrupt);
  cancel();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, stdout: out!, stderr: err!, isHung };
}

export class LiveRack {
  readonly cache: string;
  readonly link: RackLink;
  readonly #bus: Bus;

  private constructor(cache: string, link: RackLink) {
    this.cache = cache;
    this.link = link;
    this.#bus = link.bus;
  }

  /** In an empty cache, which the process's own `RACKMESH_CACHE` has to name. */
  static async up(cache: string, scenario: string): Promise<LiveRack> {
    const { code, stderr } = await rackCommand(["up", scenario], { cache });
    if (code !== 0) throw new Error(`rack up ended with code ${code}: ${stderr}`);
    const rack = await findUp();
    const { run } = rack.file;
    const bus = await connectNats({
      ...rack.supervisor,
      run,
      name: USERS.supervisor,
      connectTimeoutMs: PATIENCE_MS,
      onError: () => {},
    });
    return new LiveRack(cache, { rack, bus, control: new ControlClient(bus, run) });
  }

  rack(...args: readonly string[]): Promise<Ended> {
    return rackCommand(args, this);
  }

  pidOf(name: string): number | undefined {
    return readProcesses(this.link.rack.directory).find((each) => each.name === name)?.pid ??
      undefined;
  }

  /** @returns the error, if any. */
  async down(): Promise<string | undefined> {
    await this.#bus.close();
    const { code, stderr } = await rackCommand(["down", "--all"], this);
    const left = findProcesses(`${this.cache}/runs`);
    for (const { pid } of left) Deno.kill(pid, "SIGKILL");
    if (code !== 0) return `rack down ended with code ${code}: ${stderr}`;
    if (left.length === 0) return undefined;
    return `rack down left ${left.length} processes: ${left.map(({ kind }) => kind).join(", ")}`;
  }
}
