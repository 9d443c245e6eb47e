/** The only map from failures of a command to messages and exit codes. */
import { BusError } from "../../fabric/bus/bus.ts";
import { DamagedFileError } from "../base/files.ts";
import { NatsServerError } from "./nats_server.ts";
import { RunEndingError } from "../../fabric/base/run_ending_error.ts";
import { RackError } from "../base/rack_error.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { ScmFileError } from "../../nodes/host/store/scm_file.ts";

/** `code`: the exit code. */
export function explain(error: unknown): { message: string; code: number } {
  if (error instanceof Refusal) return { message: error.message, code: EXIT.usage };
  if (error instanceof RackError) return { message: error.message, code: error.code };
  const isWorld = [
    NatsServerError,
    BusError,
    ScmFileError,
    DamagedFileError,
    RunEndingError,
    Deno.errors.NotFound,
    Deno.errors.PermissionDenied,
  ].some((kind) => error instanceof kind);
  if (isWorld) return { message: (error as Error).message, code: EXIT.unclear };
  const text = error instanceof Error ? error.stack ?? error.message : String(error);
  if (/Too many open files|os error 24/.test(text)) {
    const more = "more descriptors for this process (ulimit -n)";
    return { message: `${text.split("\n")[0]}: expected ${more}`, code: EXIT.unclear };
  }
  if (/No space left on device|os error 28/.test(text)) {
    return { message: `The disk is full: ${text.split("\n")[0]}`, code: EXIT.unclear };
  }
  return { message: text, code: EXIT.internal };
}
