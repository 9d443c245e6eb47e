/** Frames that lie on each other at ports, by the instants of their first and last bits. */
import type { Time } from "../../fabric/base/time.ts";
import type { FrameSeen } from "../../fabric/capture/observation.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { type Finding, FINDINGS_MAX } from "./finding.ts";
import { type Lives, unscriptedDeaths } from "./lives.ts";

export class RateLedger {
  readonly findings: Finding[] = [];
  /** Frames that were looked at. */
  frames = 0;
  readonly #plan: RackPlan;
  /** Nodes whose process was killed by no plan: what they received is dated anew. */
  readonly #undated: ReadonlySet<string>;
  /** By direction and port: when the frames so far have ended. */
  readonly #ends = new Map<string, Time>();

  constructor(plan: RackPlan, lives: Lives) {
    this.#plan = plan;
    const names = plan.nodes.map(({ name }) => name);
    this.#undated = new Set(names.filter((name) => unscriptedDeaths(plan, lives, name).length > 0));
  }

  see({ kind, node, port, startPs, endPs }: FrameSeen): void {
    const { name } = this.#plan.nodes[node]!;
    if (kind === "received" && this.#undated.has(name)) return;
    this.frames++;
    const place = `${kind} ${node}:${port}`;
    const before = this.#ends.get(place) ?? 0;
    this.#ends.set(place, Math.max(before, endPs));
    if (startPs >= before || this.findings.length >= FINDINGS_MAX) return;
    const verb = kind === "sent" ? "sends" : "receives";
    const text = `${name}:${port} ${verb} a frame from ${startPs} ps on, where the one before it ` +
      `ends at ${before} ps`;
    this.findings.push({ text, time: startPs });
  }
}
