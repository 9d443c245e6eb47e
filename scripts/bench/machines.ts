/**
 * Several machines as network namespaces of this one, at a switch that delays frames
 * (`delay_switch.c`). They reach each other and nothing else.
 */
import { fromFileUrl } from "../../console/base/paths.ts";

const SWITCH = new URL("delay_switch.c", import.meta.url);

export class Machines {
  readonly #names: readonly string[];
  readonly #wiring: string;
  #switch: Deno.ChildProcess | undefined;

  private constructor(count: number) {
    const own = `rm${Deno.pid}`;
    this.#names = Array.from({ length: count }, (_, i) => `${own}-${i}`);
    this.#wiring = `${own}-sw`;
  }

  /** @param folder for the compiled switch. @param options.delayUs one way. */
  static async open(
    folder: string,
    { count, delayUs }: { readonly count: number; readonly delayUs: number },
  ): Promise<Machines> {
    const machines = new Machines(count);
    try {
      const program = `${folder}/delay_switch`;
      await must("cc", ["-O2", "-Wall", "-Werror", "-o", program, fromFileUrl(SWITCH)]);
      await machines.#wire();
      machines.#start(program, delayUs);
      return machines;
    } catch (error) {
      await machines.close();
      throw error;
    }
  }

  address(i: number): string {
    return `10.77.0.${i + 1}`;
  }

  /** Before a command's words: it runs on that machine. */
  on(i: number): readonly string[] {
    return ["ip", "netns", "exec", this.#names[i]!];
  }

  cut(i: number): Promise<void> {
    return ip(["-n", this.#wiring, "link", "set", `p${i}`, "down"]);
  }

  heal(i: number): Promise<void> {
    return ip(["-n", this.#wiring, "link", "set", `p${i}`, "up"]);
  }

  async close(): Promise<void> {
    if (this.#switch !== undefined) {
      await this.#switch.stdin.close();
      await this.#switch.status;
    }
    for (const name of [...this.#names, this.#wiring]) {
      await ip(["netns", "del", name]).catch(() => {});
    }
  }

  async #wire(): Promise<void> {
    await ip(["netns", "add", this.#wiring]);
    for (const [i, name] of this.#names.entries()) {
      await ip(["netns", "add", name]);
      const peer = ["peer", "name", "eth0", "netns", name];
      await ip(["-n", this.#wiring, "link", "add", `p${i}`, "type", "veth", ...peer]);
      await ip(["-n", this.#wiring, "link", "set", `p${i}`, "up"]);
      await ip(["-n", name, "addr", "add", `${this.address(i)}/24`, "dev", "eth0"]);
      for (const link of ["lo", "eth0"]) await ip(["-n", name, "link", "set", link, "up"]);
      // The switch takes frames of the wire's size, with the checksums that a wire's have.
      for (const offload of ["tso", "gso", "gro", "tx"]) {
        await must("ip", ["netns", "exec", name, "ethtool", "-K", "eth0", offload, "off"]);
      }
    }
  }

  #start(program: string, delayUs: number): void {
    const ports = this.#names.map((_, i) => `p${i}`);
    this.#switch = new Deno.Command("ip", {
      args: ["netns", "exec", this.#wiring, program, String(delayUs), ...ports],
      stdin: "piped",
    }).spawn();
  }
}

/** Why this machine can make no others; undefined: it can. */
export async function machinesMissing(): Promise<string | undefined> {
  const probe = `rm${Deno.pid}-probe`;
  for (const [program, args] of [["cc", ["--version"]], ["ethtool", ["--version"]]] as const) {
    if (!await runs(program, args)) return `there is no ${program} here`;
  }
  if (!await runs("ip", ["netns", "add", probe])) return "this user makes no network namespace";
  const wires = await runs("ip", ["-n", probe, "link", "add", "v0", "type", "veth"]);
  await ip(["netns", "del", probe]);
  return wires ? undefined : "this kernel has no veth";
}

async function runs(program: string, args: readonly string[]): Promise<boolean> {
  try {
    return (await output(program, args)).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function ip(args: readonly string[]): Promise<void> {
  return must("ip", args);
}

async function must(program: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await output(program, args);
  if (!success) {
    throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  }
}

function output(program: string, args: readonly string[]): Promise<Deno.CommandOutput> {
  return new Deno.Command(program, { args: [...args], stdout: "null", stderr: "piped" }).output();
}
