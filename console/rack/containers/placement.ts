/** What an engine that places containers is told of each partition of a rack. */
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import type { NodePlan, RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { machineOf } from "../../../fabric/rack/plan/names.ts";
import { OWN_SERVICES } from "./compose_file.ts";

/** Of a rack, for the files of an engine that places its containers. */
export interface EngineOptions {
  readonly runFile: RunFile;
  readonly label: string;
  readonly image: string;
  readonly natsImage: string;
  /** With what is too large for a config of the engine; absent: nothing is. */
  readonly layerImage?: string;
  readonly consolePort: number;
  /** In the timekeeper's container. */
  readonly runFilePath: string;
  /** Of the folder, by path in the timekeeper's container: what it takes from those configs. */
  readonly files: Readonly<Record<string, string>>;
}

export interface Place {
  readonly partition: string;
  /** A DNS label (RFC 1123), unlike that of any other partition. */
  readonly name: string;
  readonly kind: NodePlan["kind"];
  /** The switch to which its machine's first cable leads, or which it is. */
  readonly leaf: string;
  /** A host and its RNICs are one. */
  readonly machine: string;
  /** Its hosts' SCM; absent: nothing of it has to outlive its container, as it has no host and no trace. */
  readonly keptBytes?: number;
  /** By the scenario: one of its nodes is killed and does not return. */
  readonly staysDead: boolean;
}

/** @param options.nameLength of {@link Place.name}, at most. */
export function placesOf(
  { plan, partitions, trace }: Pick<RunFile, "plan" | "partitions" | "trace">,
  { nameLength }: { readonly nameLength: number },
): Place[] {
  const nodes = new Map(plan.nodes.map((node) => [node.name, node]));
  const leaves = leavesOf(plan);
  const names = dnsLabels(partitions.map(({ name }) => name), nameLength);
  return partitions.map(({ name: partition, nodes: own }, i) => {
    const its = own.map((name) => nodes.get(name)!);
    const hosts = its.flatMap((node) => node.kind === "host" ? [node.config] : []);
    const first = its.find(({ kind }) => kind === "host") ?? its[0]!;
    const machine = machineOf(first.name);
    return {
      partition,
      name: names[i]!,
      kind: first.kind,
      leaf: leaves.get(machine) ?? first.name,
      machine,
      ...((hosts.length > 0 || trace) && {
        keptBytes: hosts.reduce((sum, { scmBytes }) => sum + scmBytes, 0),
      }),
      staysDead: own.some((node) =>
        plan.faults.findLast((fault) => fault.node === node)?.action === "kill"
      ),
    };
  });
}

/** The switch of each machine with a cable to one. */
function leavesOf({ nodes, cables }: RackPlan): Map<string, string> {
  const switches = new Set(nodes.flatMap(({ kind, name }) => kind === "switch" ? [name] : []));
  const leaves = new Map<string, string>();
  for (const { a, b } of cables) {
    for (const [near, far] of [[a.node, b.node], [b.node, a.node]] as const) {
      const machine = machineOf(near);
      if (switches.has(near) || !switches.has(far) || leaves.has(machine)) continue;
      leaves.set(machine, far);
    }
  }
  return leaves;
}

/** A name that is none, is too long or is taken in lower case gets a number at its end. */
function dnsLabels(names: readonly string[], length: number): string[] {
  const fits = (name: string) =>
    name.length <= length && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(name);
  const taken = new Set([...OWN_SERVICES, ...names.filter(fits)]);
  return names.map((name) => {
    if (fits(name)) return name;
    const begin = name.toLowerCase();
    for (let number = 1;; number++) {
      const end = `-${number}`;
      const label = begin.slice(0, length - end.length).replace(/-+$/, "") + end;
      if (taken.has(label)) continue;
      taken.add(label);
      return label;
    }
  });
}

/**
 * What processes are given at least, in MiB and thousandths of a core. Measured: a device with its parent
 * is 45 to 65 MiB and takes 0.4 s of a core for a run of 51 s (100 hosts); a grant with its report takes
 * the timekeeper 60 to 120 µs, a server of NATS 70 µs and three of them 150 (`docker/CLUSTER.md`).
 */
export function needsOf(
  role: "device" | "timekeeper" | "nats" | "report" | "console",
  partitions: number,
): { readonly memoryMiB: number; readonly milliCores: number } {
  switch (role) {
    case "device":
      return { memoryMiB: 64, milliCores: 20 };
    case "timekeeper":
      return { memoryMiB: 128, milliCores: partitions > 64 ? 1_000 : 250 };
    case "nats":
      return { memoryMiB: 64, milliCores: partitions > 64 ? 500 : 100 };
    case "report":
    case "console":
      return { memoryMiB: 128, milliCores: 100 };
  }
}
