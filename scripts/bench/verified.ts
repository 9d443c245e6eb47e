/**
 * V-10: what a verified write takes by each level, message by message, against a WRITE and a READ that the
 * program compares: exact, as all of it is counted in virtual time. The README's table is made of it, and
 * a test makes it again and compares.
 */
import type { RackPlan } from "../../fabric/rack/plan.ts";
import { parseScenario } from "../../fabric/rack/scenario.ts";
import { makePlan } from "../../fabric/rack/topology.ts";
import { formatSize } from "../../fabric/rack/units.ts";
import { variants } from "../../fabric/rack/variants.ts";
import { PS_PER_NS, PS_PER_US } from "../../fabric/time/time.ts";
import { table } from "../commands/output.ts";
import { MESSAGES, METHOD_SIZES, type PerMessage, runPut } from "./methods.ts";

/** One way of it at one size. Figures are per message; times in ps. */
export interface VerifiedFigure extends PerMessage {
  readonly ddio: "off" | "on";
  /** As the table calls it. */
  readonly way: string;
  readonly size: number;
}

/** The baseline first. `history`: the receiver skips what a sender's past stands for (V-05). */
const WAYS = [
  { way: "WRITE, READ, compare", put: "method: write-compare" },
  { way: "none", put: "method: write-verify, level: none" },
  { way: "check", put: "method: write-verify, level: check" },
  { way: "verify", put: "method: write-verify, level: verify" },
  { way: "verify-crc", put: "method: write-verify, level: verify-crc" },
  {
    way: "verify-crc, history",
    put: "method: write-verify, level: verify-crc",
    host: "verifyHistory: { samples: 4, sample: 16 }",
  },
  { way: "verify-crc, persisted", put: "method: verify-persist, level: verify-crc" },
] as const;

/** Every way at every size, with DDIO off and on: one message after the other. */
export function measureVerified(seed: number): VerifiedFigure[] {
  return (["off", "on"] as const).flatMap((ddio) =>
    WAYS.flatMap(({ way, put, ...rest }) =>
      METHOD_SIZES.map((size): VerifiedFigure => {
        const host = "host" in rest ? `, ${rest.host}` : "";
        return { ddio, way, size, ...runPut(planOf({ ddio, put, host, size, seed }), way) };
      })
    )
  );
}

function planOf(
  of: {
    readonly ddio: "off" | "on";
    readonly put: string;
    readonly host: string;
    readonly size: number;
    readonly seed: number;
  },
): RackPlan {
  const { ddio, put, host, size, seed } = of;
  const text = [
    "name: verified",
    `seed: ${seed}`,
    "profile: clx-optane-cx5",
    `defaults: { ddio: ${ddio}, dram: 64MiB, scm: { size: 16MiB }${host} }`,
    "hosts: { a: {}, b: {} }",
    "programs:",
    `  - { on: a, run: put, to: b, ${put}, depth: 1, size: ${size}, bytes: ${size * MESSAGES} }`,
  ].join("\n") + "\n";
  return makePlan(variants(parseScenario(text, "verified.yaml"))[0]!);
}

/** The table between these lines of the README is made by `deno task bench --only m --write`. */
const BEGIN = "<!-- verified: made by deno task bench -->", END = "<!-- verified end -->";
const README = new URL("../../README.md", import.meta.url);

/** The README with this table in it. @throws Error where it has no place for one. */
export function withVerified(readme: string, figures: readonly VerifiedFigure[]): string {
  const from = readme.indexOf(BEGIN), to = readme.indexOf(END);
  if (from < 0 || to < from) throw new Error(`The README has no ${BEGIN} … ${END}`);
  const [header, ...rows] = rowsOf(figures);
  const lines = [header!, header!.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  return `${readme.slice(0, from)}${BEGIN}\n\n${lines.join("\n")}\n\n${readme.slice(to)}`;
}

/** Puts the table into the README. */
export async function writeVerified(figures: readonly VerifiedFigure[]): Promise<void> {
  await Deno.writeTextFile(README, withVerified(await Deno.readTextFile(README), figures));
}

/** The same table for a terminal. */
export function verifiedText(figures: readonly VerifiedFigure[]): string {
  const [header, ...rows] = rowsOf(figures);
  return table(header!, rows);
}

function rowsOf(figures: readonly VerifiedFigure[]): string[][] {
  const header = [
    "DDIO",
    "level",
    "size",
    "requests",
    "packets",
    "bytes",
    "latency",
    "of the baseline's",
    "CPU requester",
    "CPU responder",
  ];
  const rows = figures.map((figure) => {
    const { ddio, way, size, requests, packets, bytes, latencyPs } = figure;
    const baseline = figures.find((other) =>
      other.ddio === ddio && other.size === size && other.way === WAYS[0].way
    )!;
    return [
      ddio,
      way,
      formatSize(size),
      String(Number(requests.toFixed(2))),
      String(Number(packets.toFixed(2))),
      bytes.toFixed(0),
      `${(latencyPs / PS_PER_US).toFixed(2)} µs`,
      (latencyPs / baseline.latencyPs).toFixed(2),
      `${Math.round(figure.requesterPs / PS_PER_NS)} ns`,
      `${Math.round(figure.responderPs / PS_PER_NS)} ns`,
    ];
  });
  return [header, ...rows];
}
