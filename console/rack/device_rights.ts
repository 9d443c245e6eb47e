/**
 * What a device's process may do, as flags of Deno: natively and in a container. It gives most of it
 * up before it loads a user's program (`giveUpRights` of `nodes/files.ts`).
 */
import { DEVICE_WRITES } from "../../nodes/files.ts";
import { v8Flags } from "../base/v8_flags.ts";

const BUS_PORT = 4222;

/**
 * A process that runs one device allocates little: the small young generation saves 4 MB per
 * process.
 */
export const SMALL_HEAP = "--max-semi-space-size=1";

/**
 * @param url of the bus.
 * @param directory of the run; the process runs in it where it is absent.
 */
export function deviceRights(url: string, directory = "."): string[] {
  // A scheme that URL knows host and port of.
  const { hostname, port } = new URL(url.replace(/^\w+:/, "http:"));
  return [
    v8Flags(SMALL_HEAP),
    "--cached-only",
    "--deny-import",
    `--allow-net=${hostname}:${port || BUS_PORT}`,
    "--allow-read",
    `--allow-write=${DEVICE_WRITES.map((part) => `${directory}/${part}`).join(",")}`,
    "--allow-env",
    "--allow-sys",
  ];
}
