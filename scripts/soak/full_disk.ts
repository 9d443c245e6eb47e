/**
 * A rack on a small disk. A write that fails is refused, or the rack goes down in order with the
 * reason; with room again, a rack that goes on has every confirmed object.
 */
import type { Rng } from "../../fabric/base/rng.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { findProcesses } from "../../console/rack/process_table.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { endedOf, HANGS_MS, RACK } from "./live_rack.ts";
import { count, type Findings } from "./orders.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/soak/scenario.yaml"));
/** With the disk full: the rack survives some, others may end it. */
const ORDERS = [
  "kill b --at 1s",
  "link loss a 1% --at 1s",
  "put --to b FILE --as other",
  "kill b",
  "kill timekeeper",
];

/** @returns why it was left out, where it was. */
export async function soakFullDisk(
  directory: string,
  { findings, rng, round }: {
    readonly findings: Findings;
    readonly rng: Rng;
    readonly round: number;
  },
): Promise<string | undefined> {
  const { failures } = findings;
  const cache = `${directory}/disk`;
  await Deno.mkdir(cache, { recursive: true });
  if (!await canMount(cache)) return "full disks: this machine lets no user mount one";
  const file = `${directory}/disk-file`;
  await Deno.writeFile(file, Uint8Array.from({ length: 60_000 }, () => rng.below(256)));
  const order = ORDERS[round % ORDERS.length]!.replace("FILE", `'${file}'`);
  // The rack lives in the mount namespace of this shell, so all of its commands are given there.
  const script = `
    mount -t tmpfs -o size=12m none '${cache}' || exit 90
    rack() { '${RACK}' "$@" >>'${directory}/disk.log' 2>&1; }
    rack up '${SCENARIO}' || exit 91
    rack put --to b '${file}' --as first || exit 92
    cat /dev/zero >'${cache}/ballast' 2>/dev/null
    rack ${order}; code=$?
    rm '${cache}/ballast'
    if rack ps && rack get first '${directory}/disk-got' --from b; then
      cmp '${file}' '${directory}/disk-got' || exit 93
    else
      rack start b && rack get first '${directory}/disk-got' --from b && state=back
      [ "$state" = back ] || grep -q . '${cache}'/runs/*/ended.json || exit 94
    fi
    rack down --all || [ $? = 64 ] || exit 95
    exit $code`;
  const { code, isHung, stderr } = await endedOf("unshare", ["-rm", "bash", "-c", script], {
    cache,
  });
  count(findings, "full disks");
  const left = findProcesses(`${cache}/runs`);
  for (const { pid } of left) Deno.kill(pid, "SIGKILL");
  const log = await Deno.readTextFile(`${directory}/disk.log`).catch(() => "");
  const where = `full disk, rack ${order}`;
  if (isHung) failures.push(`${where}: no end after ${HANGS_MS / 1_000} s: ${log}`);
  else if (left.length > 0) failures.push(`${where}: ${left.length} processes were left`);
  else if (code >= 90) failures.push(`${where}: ${WRONG[code] ?? "ended"}: ${stderr}${log}`);
  else if (code === EXIT.internal || /\n\s+at /.test(log)) {
    failures.push(`${where} ended as a bug of ours: ${log}`);
  }
  for (const name of ["disk.log", "disk-got"]) {
    await Deno.remove(`${directory}/${name}`).catch(() => {});
  }
  return undefined;
}

const WRONG: Readonly<Record<number, string>> = {
  91: "the rack did not come up",
  92: "the first put failed with room on the disk",
  93: "the confirmed object has another content",
  94: "the confirmed object is gone, and the rack does not say why it went down",
  95: "rack down failed",
};

async function canMount(directory: string): Promise<boolean> {
  try {
    const args = ["-rm", "mount", "-t", "tmpfs", "none", directory];
    return (await new Deno.Command("unshare", { args, stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}
