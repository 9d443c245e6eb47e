/** All shipped programs by their names in a scenario, for a rack in one process. */
import { append } from "./append/append.ts";
import { bulk, sink } from "./bulk.ts";
import { manyQueues, manyQueuesServer } from "./many_queues.ts";
import { cm } from "../cm/cm.ts";
import { fio } from "./fio/fio.ts";
import { get } from "./persist/get.ts";
import { list } from "./persist/list.ts";
import { log } from "./log/log.ts";
import { logRead } from "./log/log_read.ts";
import { perftest } from "./perftest/client.ts";
import { perftestServer } from "./perftest/server.ts";
import { persistd } from "./persist/persistd.ts";
import { put } from "./persist/put.ts";
import { remove } from "./persist/remove.ts";
import type { Program } from "../program_context.ts";

export const PROGRAMS: Readonly<Record<string, Program>> = {
  cm,
  persistd,
  put,
  append,
  get,
  list,
  remove,
  log,
  "log-read": logRead,
  bulk,
  sink,
  "many-queues": manyQueues,
  "many-queues-server": manyQueuesServer,
  perftest,
  "perftest-server": perftestServer,
  fio,
};
