/** The connection manager as a program: the service that every host runs. */
import { runCm } from "../cm/cm.ts";
import type { ProgramContext, Steps } from "../cpu/program.ts";

export function cm({ device }: ProgramContext): Steps<void> {
  return runCm(device);
}
