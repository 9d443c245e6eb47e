/** The connection manager as a program: a service of every host. */
import { runCm } from "../cm/cm.ts";
import type { Steps } from "../cpu/program.ts";
import type { ProgramContext } from "../program_context.ts";

export function cm({ device }: ProgramContext): Steps<void> {
  return runCm(device);
}
