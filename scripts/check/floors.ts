/**
 * The floors inside a folder: which of its parts may import which. The layer check (`layers.ts`) holds
 * every production file to them; tests may look anywhere in their folder.
 */

/**
 * Parts of a folder, low to high: folders with their slash, and single files. A file imports its own part
 * and parts of lower floors; parts of one floor do not know each other.
 */
export type Floors = readonly (readonly string[])[];

/** Of nodes/host: a program is above all that it calls, and the host itself is given its programs. */
export const HOST_FLOORS: Floors = [
  ["memory/"],
  ["store/", "cpu/"],
  ["verbs/", "recovery/", "host_statistics.ts", "host_trace.ts"],
  ["cm/"],
  ["verbs.ts"],
  ["program_context.ts"],
  ["programs/common/", "host.ts"],
  ["programs/persist/"],
  ["programs/append/", "programs/log/", "programs/perftest/", "programs/bulk.ts", "programs/cm.ts"],
  ["programs/programs.ts"],
];

/** Of nodes/rnic: what has to be told upwards is a call of `Upcalls` (`upcalls.ts`, bound above all). */
export const RNIC_FLOORS: Floors = [
  ["state/"],
  ["trace/"],
  ["dma/"],
  ["queues/"],
  ["transmit/"],
  ["requester/"],
  ["answers/"],
  ["persistence/"],
  ["verify/"],
  ["responder/"],
  ["firmware/"],
  ["schedule.ts", "receive.ts"],
  ["upcalls.ts"],
  ["device.ts"],
  ["rnic.ts"],
];

/** The folders that have floors. */
const FLOORS: Readonly<Record<string, Floors>> = {
  "nodes/host/": HOST_FLOORS,
  "nodes/rnic/": RNIC_FLOORS,
};

/**
 * Circles of files that may stay: each inside one folder, of at most three files, with its reason at the
 * top of the file named first.
 */
export const CIRCLES: readonly (readonly string[])[] = [
  ["queue_pair.ts", "responder_state.ts", "tx_frame.ts"].map((file) => `nodes/rnic/state/${file}`),
  ["completer.ts", "qp_error.ts", "requester.ts"].map((file) => `nodes/rnic/requester/${file}`),
  ["write_verify.ts", "read_back.ts", "staged_data.ts"].map((file) => `nodes/rnic/verify/${file}`),
  ["receive_queue.ts", "shared_receive_queue.ts"].map((file) => `nodes/rnic/queues/${file}`),
];

/** Where in its folder a file stands; undefined where no floor has it. */
function placeOf(floors: Floors, path: string): { floor: number; part: string } | undefined {
  for (const [floor, parts] of floors.entries()) {
    const part = parts.find((each) => each.endsWith("/") ? path.startsWith(each) : path === each);
    if (part !== undefined) return { floor, part };
  }
  return undefined;
}

/**
 * Which parts `file` may import where `target` is none of them; null where it may import it, and where
 * they have no folder with floors in common.
 */
export function floorsBelow(file: string, target: string): string | null {
  for (const [folder, floors] of Object.entries(FLOORS)) {
    if (!file.startsWith(folder) || !target.startsWith(folder)) continue;
    const from = placeOf(floors, file.slice(folder.length));
    const to = placeOf(floors, target.slice(folder.length));
    if (from === undefined) return `nothing before ${file} has a floor in floors.ts`;
    if (to === undefined) return `nothing that has no floor in floors.ts, as ${target}`;
    if (to.floor < from.floor || to.part === from.part) return null;
    return [from.part, ...floors.slice(0, from.floor).flat()].join(" ");
  }
  return null;
}
