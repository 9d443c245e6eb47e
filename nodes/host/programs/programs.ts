/** Programs by the names that a scenario uses. */
import { runCm } from "../cm.ts";
import type { Program, ProgramContext, Steps } from "../program.ts";
import { append } from "./append.ts";
import { bulk, sink } from "./bulk.ts";
import { get } from "./get.ts";
import { list } from "./list.ts";
import { log } from "./log/log.ts";
import { logRead } from "./log/log_read.ts";
import { perftest } from "./perftest/client.ts";
import { perftestServer } from "./perftest/server.ts";
import { persistd } from "./persistd.ts";
import { put } from "./put.ts";

function cm({ device }: ProgramContext): Steps<void> {
  return runCm(device);
}

export const PROGRAMS: Readonly<Record<string, Program>> = {
  cm,
  persistd,
  put,
  append,
  get,
  list,
  log,
  "log-read": logRead,
  bulk,
  sink,
  perftest,
  "perftest-server": perftestServer,
};

/** What every host runs from boot on, in this order, before the programs of the scenario. */
export const SERVICES: readonly string[] = ["cm", "persistd"];
