import { textIfThere } from "./files.ts";

/**
 * A choice: a process that explores `persist_pair.yaml` has taken 175 to 215 MiB
 * (`console/explore/README.md`), and racks may be larger.
 */
export const WORKER_BYTES = 512 * 2 ** 20;

/**
 * At least one, and no more than memory has room for beside this one.
 * @param options.jobs as many as this at most; default: the cores.
 */
export function workersFor(
  { jobs = navigator.hardwareConcurrency, bytes = availableBytes(), onFewer }: {
    readonly jobs?: number | undefined;
    readonly bytes?: number;
    readonly onFewer?: (text: string) => void;
  },
): number {
  const workers = Math.max(1, Math.min(jobs, Math.floor(bytes / WORKER_BYTES)));
  if (workers < jobs) onFewer?.(`memory has room for ${workers} of ${jobs} processes at a time`);
  return workers;
}

function availableBytes(): number {
  return Math.min(Deno.systemMemoryInfo().available, groupBytes());
}

function groupBytes(): number {
  const root = "/sys/fs/cgroup";
  const groups = [
    { folder: root, limit: "memory.max", usage: "memory.current" },
    { folder: `${root}/memory`, limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes" },
  ];
  for (const { folder, limit, usage } of groups) {
    const most = Number(textIfThere(`${folder}/${limit}`) ?? NaN);
    const used = Number(textIfThere(`${folder}/${usage}`) ?? NaN);
    if (!(most > 0 && used >= 0)) continue;
    // Pages of files make room for others.
    const files = (textIfThere(`${folder}/memory.stat`) ?? "").split("\n")
      .filter((line) => /^(in)?active_file /.test(line))
      .reduce((sum, line) => sum + Number(line.split(" ")[1]), 0);
    return most - used + files;
  }
  return Infinity;
}
