/**
 * Dynamic imports of a device's process: Deno holds the source of static ones in memory from the
 * start, 4 MiB of a process.
 */
import type { Program } from "./host/program_context.ts";

export async function loadModule<Module>(path: string): Promise<Module> {
  return await import(new URL(path, import.meta.url).href);
}

/** A program's name as in `programs.ts` → its file there, and its export. */
export const PROGRAM_MODULES: Readonly<Record<string, readonly [file: string, name: string]>> = {
  cm: ["../cm/cm.ts", "cm"],
  persistd: ["persist/persistd.ts", "persistd"],
  put: ["persist/put.ts", "put"],
  append: ["append/append.ts", "append"],
  get: ["persist/get.ts", "get"],
  list: ["persist/list.ts", "list"],
  remove: ["persist/remove.ts", "remove"],
  log: ["log/log.ts", "log"],
  "log-read": ["log/log_read.ts", "logRead"],
  bulk: ["bulk.ts", "bulk"],
  sink: ["bulk.ts", "sink"],
  "many-queues": ["many_queues.ts", "manyQueues"],
  "many-queues-server": ["many_queues.ts", "manyQueuesServer"],
  perftest: ["perftest/client.ts", "perftest"],
  "perftest-server": ["perftest/server.ts", "perftestServer"],
  fio: ["fio/fio.ts", "fio"],
};

export async function loadPrograms(
  names: Iterable<string>,
  programs: Record<string, Program>,
): Promise<void> {
  for (const name of names) {
    const place = Object.hasOwn(PROGRAM_MODULES, name) ? PROGRAM_MODULES[name] : undefined;
    if (place === undefined || Object.hasOwn(programs, name)) continue;
    const [file, exported] = place;
    const module = await loadModule<Record<string, Program>>(`./host/programs/${file}`);
    programs[name] = module[exported]!;
  }
}
