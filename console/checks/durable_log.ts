import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";
import type { Life } from "./lives.ts";
import type { RunRecord } from "./run_record.ts";

type DurableAt = NonNullable<RunRecord["durable"]> extends Iterable<infer At> ? At : never;

export interface DurableLog {
  readonly durable: readonly DurableAt[];
  /** Undefined for a host that keeps its power. */
  readonly memoryLog: (host: string) => MemoryLog | undefined;
}

export function durableLog(lives: ReadonlyMap<string, readonly Life[]>): DurableLog {
  const durable: DurableAt[] = [];
  return {
    durable,
    memoryLog: (host) =>
      lives.get(host)?.[0]?.to === Infinity ? undefined : watchMemory(host, durable),
  };
}

function watchMemory(node: string, durable: DurableAt[]): MemoryLog {
  let last = -1;
  return {
    durable(time) {
      if (time === last) return;
      last = time;
      durable.push({ time, node });
    },
    dirty() {},
    clean() {},
  };
}
