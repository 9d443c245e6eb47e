import { formatSize } from "../../fabric/rack/plan/units.ts";
import { PS_PER_NS, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { tableText } from "../../console/reports/table.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";

export const SIZES = [64, 256, 1024, 4096, 65_536] as const;
export const DDIOS = ["off", "on"] as const;

export interface PerMessage {
  readonly ddio: typeof DDIOS[number];
  readonly size: number;
  readonly requests: number;
  readonly packets: number;
  readonly bytes: number;
  /** Median, from the post to the completion that the method treats as persistence. */
  readonly latencyPs: Time;
  readonly requesterPs: Time;
  readonly responderPs: Time;
  /** That completion guarantees persistence here. */
  readonly promises: boolean;
}

export interface PutAsked {
  readonly ddio: typeof DDIOS[number];
  readonly size: number;
  readonly seed: number;
  /**
   * Its options besides size and depth; `hosts`: both hosts' besides DDIO; `fabric`: the network's
   * and the buses'. All in a scenario's syntax.
   */
  readonly put: string;
  readonly hosts?: string;
  readonly fabric?: string;
}

const MESSAGES = 16;

/** @throws Error where the put fails. */
export function runPut(asked: PutAsked): PerMessage {
  const { ddio, size, seed, put, hosts = "receive: dram", fabric = "" } = asked;
  const text = [
    "name: methods",
    `seed: ${seed}`,
    "profile: clx-optane-cx5",
    `fabric: { ${fabric} }`,
    `defaults: { ddio: ${ddio}, dram: 64MiB, scm: { size: 16MiB }, ${hosts} }`,
    "hosts: { a: {}, b: {} }",
    "programs:",
    `  - { on: a, run: put, to: b, ${put}, depth: 1, size: ${size}, bytes: ${size * MESSAGES} }`,
  ].join("\n") + "\n";
  let result: PutResult | undefined;
  let responderPs = 0;
  simulatorOf(planOf(text), (_time, _node, topic, value) => {
    if (topic === "result" && isPutResult(value)) result = value;
    if (topic === "served") responderPs = (value as { cpuPs: Time }).cpuPs;
  }).run();
  if (result?.status !== "done") throw new Error(`put, ${put}, ended: ${result?.error}`);
  const { requests: { recv: _recv, ...sent }, wire, latencyPs, cpuPs, promises } = result;
  return {
    ddio,
    size,
    requests: Object.values(sent).reduce((sum, count) => sum + count, 0) / MESSAGES,
    packets: (wire?.frames ?? 0) / MESSAGES,
    bytes: (wire?.bytes ?? 0) / MESSAGES,
    latencyPs: latencyPs?.median ?? 0,
    requesterPs: cpuPs / MESSAGES,
    responderPs: responderPs / MESSAGES,
    promises,
  };
}

export function putHeader(title: string): string[] {
  const counted = ["requests", "packets", "bytes", "latency", "of the baseline's"];
  return ["DDIO", title, "size", ...counted, "CPU requester", "CPU responder"];
}

export function putCells(figure: PerMessage, way: string, baseline: PerMessage): string[] {
  const { ddio, size, requests, packets, bytes, latencyPs, requesterPs, responderPs } = figure;
  return [
    ddio,
    way,
    formatSize(size),
    String(Number(requests.toFixed(2))),
    String(Number(packets.toFixed(2))),
    bytes.toFixed(0),
    `${(latencyPs / PS_PER_US).toFixed(2)} µs`,
    (latencyPs / baseline.latencyPs).toFixed(2),
    `${Math.round(requesterPs / PS_PER_NS)} ns`,
    `${Math.round(responderPs / PS_PER_NS)} ns`,
  ];
}

export interface PutTable {
  readonly name:
    | "methods"
    | "verified"
    | "log"
    | "log-failure"
    | "cliffs"
    | "queues"
    | "shared-costs"
    | "shared-accesses"
    | "shared-crossover"
    | "shared-queue"
    | "shared-lock"
    | "published"
    | "constants";
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Said below the table. */
  readonly below?: string;
}

export function putText({ header, rows, below }: PutTable): string {
  const columns = header.map((title, i) => ({
    title,
    value: (row: readonly string[]) => row[i],
  }));
  const table = tableText(columns, rows);
  return below === undefined ? table : `${table}\n\n${below}`;
}

/** @throws Error where the document has no place for the table. */
export function withTable(document: string, { name, header, rows, below }: PutTable): string {
  const begin = `<!-- ${name}: made by deno task bench -->`, end = `<!-- ${name} end -->`;
  const from = document.indexOf(begin), to = document.indexOf(end);
  if (from < 0 || to < from) {
    throw new Error(`Cannot place the table ${name} as its document has no ${begin} … ${end}`);
  }
  const lines = [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  const text = below === undefined ? lines : [...lines, "", below];
  return `${document.slice(0, from)}${begin}\n\n${text.join("\n")}\n\n${document.slice(to)}`;
}

export const RESULTS = new URL("./RESULTS.md", import.meta.url);
export const FIDELITY = new URL("../../nodes/host/memory/FIDELITY.md", import.meta.url);

/** Each into the document that has its place. */
export async function writeTables(tables: readonly PutTable[]): Promise<void> {
  for (const document of [RESULTS, FIDELITY]) {
    const its = tables.filter(({ name }) => (name === "constants") === (document === FIDELITY));
    if (its.length === 0) continue;
    await Deno.writeTextFile(document, its.reduce(withTable, await Deno.readTextFile(document)));
  }
}
