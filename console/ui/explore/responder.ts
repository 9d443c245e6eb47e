/** From what a host has lost to the row of the matrix that is about machines like it. */
import type { MatrixCell } from "../../api/jobs.ts";
import { topology } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { go, place } from "../state.ts";
import { isRunning, jobsOf, startJob } from "./jobs.ts";

/** What decides where the newest copy of a byte is. */
export interface Responder {
  readonly host: string;
  readonly domain: string;
  readonly arch: string;
  readonly ddio: string;
}

/** Goes to the matrix, and begins one where there is none. */
export function askWhichKeeps(host: string): void {
  const config = topology.value?.nodes.find(({ name }) => name === host)?.config ?? {};
  const { domain, architecture, ddio } = config;
  const known = jobsOf(["matrix"]).find((job) => isRunning(job) || job.state === "done");
  go({
    view: "explore",
    more: {
      ...{ host, domain: String(domain), arch: String(architecture), ddio: ddio ? "on" : "off" },
      ...(known !== undefined && { job: known.id }),
    },
  });
  if (known === undefined && isOperator.value) void startJob({ kind: "matrix" });
}

/** Whom the matrix is asked for. */
export function responderAsked(): Responder | undefined {
  const { host, domain, arch, ddio } = place.value.more;
  return host === undefined || domain === undefined || arch === undefined || ddio === undefined
    ? undefined
    : { host, domain, arch, ddio };
}

export function isLike(
  cell: Pick<MatrixCell, "domain" | "arch" | "ddio">,
  { domain, arch, ddio }: Responder,
): boolean {
  return cell.domain === domain && cell.arch === arch && cell.ddio === ddio;
}

export interface Verdicts {
  readonly safe: readonly string[];
  readonly unsafe: readonly string[];
}

/** By method: safe where it is so in every cell of such a machine that is known. */
export function methodsOf(
  cells: readonly Pick<MatrixCell, "method" | "domain" | "arch" | "ddio" | "safe">[],
  responder: Responder,
): Verdicts {
  const own = cells.filter((cell) => isLike(cell, responder));
  const unsafe = [...new Set(own.filter(({ safe }) => !safe).map(({ method }) => method))];
  const safe = [...new Set(own.map(({ method }) => method))].filter((each) =>
    !unsafe.includes(each)
  );
  return { safe, unsafe };
}
