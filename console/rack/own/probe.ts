/**
 * Tries a user's program in a process (`probe_main.ts`), which is ended where the program's top
 * level does not end.
 */
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { fromFileUrl, projectFile } from "../../base/paths.ts";
import { isAsleep, processorMs } from "../../base/process_stat.ts";
import { RackError } from "../../base/rack_error.ts";
import { v8Flags } from "../../base/v8_flags.ts";
import { killerOf } from "./confined.ts";
import { PROBE_BEGINS } from "./frames.ts";

/** Processor time. */
const TOP_LEVEL_MS = 10_000;
/**
 * Processor time in s after which the kernel ends the process, if it lost its parent to SIGKILL,
 * and would compute for ever. A top level and Deno's own start take far less.
 */
const ORPHAN_S = 30;
const LOOK_MS = 100;

export interface Probed {
  readonly why?: string;
  readonly isHooked: boolean;
  /** It is rows of the coherent cards' protocol, no program. */
  readonly isProtocol: boolean;
}

interface Limits {
  readonly processorMs: number;
  readonly patienceMs: number;
}

/**
 * Makes one instance of a bundled program.
 * @throws Refusal where that fails, the top level has used too much of a processor, or it waits:
 * when the patience ends, half of the looks at its process, or more, have found it asleep.
 * RackError where the process does not answer though it is ready to go on: the machine holds it up,
 * not the program. The signal's reason.
 */
export async function probeProgram(
  text: string,
  { path, processorMs = TOP_LEVEL_MS, patienceMs = PATIENCE_MS, onStart, signal }:
    & Partial<Limits>
    & {
      readonly path: string;
      /** For a test, which stops the process. */
      readonly onStart?: (pid: number) => void;
      readonly signal?: AbortSignal | undefined;
    },
): Promise<Probed> {
  signal?.throwIfAborted();
  const limits: Limits = { processorMs, patienceMs };
  const child = startProbe(), kill = killerOf(child);
  signal?.addEventListener("abort", kill);
  onStart?.(child.pid);
  const input = new Blob([text]).stream().pipeTo(child.stdin).catch(() => {});
  const errors = new Response(child.stderr).text();
  const watch = watchProbe(child.pid, limits, kill);
  let said = "";
  try {
    for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
      said += part;
      if (said.startsWith(PROBE_BEGINS)) watch.begin();
    }
  } finally {
    watch.end();
    signal?.removeEventListener("abort", kill);
  }
  const { success, code } = await child.status;
  await input;
  const printed = (await errors).trim();
  // Ctrl-C in a terminal ends the child too.
  if (!success) signal?.throwIfAborted();
  if (watch.late === "held up") {
    const found = `Found that the process that loads ${path} has not answered for ` +
      `${patienceMs / 1_000} s, in which its program used no more of a processor than it may`;
    throw new RackError(`${found}: expected an answer; the machine is stopped or overloaded`);
  }
  const probed: Probed = success && watch.late === undefined
    ? JSON.parse(said.slice(PROBE_BEGINS.length))
    : {
      why: lateText(watch.late, limits) ?? `its process ends with code ${code}: ${printed}`,
      isHooked: false,
      isProtocol: false,
    };
  const { why } = probed;
  if (why !== undefined) throw refusal("", { found: `Cannot load ${path}: ${why}` });
  return probed;
}

function startProbe() {
  return new Deno.Command("sh", {
    args: [
      ...["-c", `ulimit -t ${ORPHAN_S}; exec "$@"`, "sh", Deno.execPath()],
      ...["run", "--quiet", "--no-prompt", "--cached-only", "--deny-import"],
      v8Flags(),
      ...["--config", fromFileUrl(projectFile("deno.json"))],
      fromFileUrl(projectFile("console/rack/own/probe_main.ts")),
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

type Late = "busy" | "asleep" | "held up";

function watchProbe(pid: number, limits: Limits, kill: () => void) {
  let begunAtMs: number | undefined, late: Late | undefined;
  // Since its top level has begun; on a busy machine some looks find it waiting for a thread of its
  // own.
  let looks = 0, sleptLooks = 0;
  let deadline = performance.now() + limits.patienceMs;
  const look = (): Late | undefined => {
    const usedMs = processorMs(pid);
    if (begunAtMs !== undefined) {
      looks++;
      if (isAsleep(pid)) sleptLooks++;
      if (usedMs !== undefined && usedMs - begunAtMs > limits.processorMs) return "busy";
    }
    if (performance.now() <= deadline) return undefined;
    // One that computes between its waits is ready to go on at some looks, whatever the machine does.
    return sleptLooks > 0 && 2 * sleptLooks >= looks ? "asleep" : "held up";
  };
  const timer = setInterval(() => {
    late = look();
    if (late === undefined) return;
    clearInterval(timer);
    kill();
  }, LOOK_MS);
  return {
    begin() {
      if (begunAtMs !== undefined) return;
      begunAtMs = processorMs(pid);
      deadline = performance.now() + limits.patienceMs;
    },
    end: () => clearInterval(timer),
    get late() {
      return late;
    },
  };
}

function lateText(late: Late | undefined, limits: Limits): string | undefined {
  switch (late) {
    case "busy":
      return `its top level has not ended after ${limits.processorMs / 1_000} s of processor time`;
    case "asleep":
      return `its top level waits: it has not ended after ${
        limits.patienceMs / 1_000
      } s, most of which it slept`;
    default:
      return undefined;
  }
}
