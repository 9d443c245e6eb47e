/** The permitted imports between parts of a folder; tests may import any part of theirs. */

/**
 * Low to high: folders with their slash, and single files. A file may import its own part and parts
 * of lower floors, but no other part of its own floor.
 */
export type Floors = readonly (readonly string[])[];

/** A program is above everything that it calls; the host receives its programs as arguments. */
export const HOST_FLOORS: Floors = [
  ["memory/"],
  ["store/", "cpu/"],
  ["paging/", "coherence/"],
  ["verbs/", "recovery/", "host_trace.ts"],
  ["cm/", "host_card.ts"],
  ["open_device.ts", "serving.ts", "host_statistics.ts", "at_rest.ts", "host_sight.ts"],
  ["take_back.ts", "take_back_thread.ts", "shutdown.ts"],
  ["program_context.ts"],
  ["native/"],
  ["calls/"],
  ["own_programs.ts", "host_programs.ts"],
  ["programs/common/", "host.ts"],
  ["programs/persist/"],
  [
    "programs/append/",
    "programs/log/",
    "programs/perftest/",
    "programs/fio/",
    "programs/bulk.ts",
    "programs/many_queues.ts",
  ],
  ["programs/programs.ts"],
];

/**
 * A notification of a higher floor is a call of `Upcalls` (`upcalls.ts`, bound above all floors). A
 * feature's `state/` stands in its room, on the floor of the card's own.
 */
export const RNIC_FLOORS: Floors = [
  ["state/"],
  ["trace/"],
  ["dma/"],
  ["paging/"],
  ["queues/"],
  ["transmit/"],
  ["hints/"],
  ["requester/"],
  ["answers/"],
  ["persistence/"],
  ["verify/"],
  ["coherence/"],
  ["responder/"],
  ["extensions.ts"],
  ["firmware/"],
  ["turns.ts"],
  ["schedule.ts", "receive.ts"],
  ["completed_reads.ts"],
  ["upcalls.ts"],
  ["device.ts"],
  ["rnic.ts"],
];

const FLOORS: Readonly<Record<string, Floors>> = {
  "nodes/host/": HOST_FLOORS,
  "nodes/rnic/": RNIC_FLOORS,
};

/**
 * Permitted: each in one folder, with at most three files, and with its reason at the top of the
 * first file.
 */
export const CIRCLES: readonly (readonly string[])[] = [
  ["queue_pair.ts", "responder_state.ts", "tx_frame.ts"].map((file) => `nodes/rnic/state/${file}`),
  ["completer.ts", "qp_error.ts", "requester.ts"].map((file) => `nodes/rnic/requester/${file}`),
  ["write_verify.ts", "read_back.ts", "staged_data.ts"].map((file) => `nodes/rnic/verify/${file}`),
  ["receive_queue.ts", "shared_receive_queue.ts"].map((file) => `nodes/rnic/queues/${file}`),
];

/** Undefined where the file is on no floor. */
function placeOf(floors: Floors, inRoom: string): { floor: number; part: string } | undefined {
  const path = inRoom.replace(/^[^/]+\/(?=state\/)/, "");
  for (const [floor, parts] of floors.entries()) {
    const part = parts.find((each) => each.endsWith("/") ? path.startsWith(each) : path === each);
    if (part !== undefined) return { floor, part };
  }
  return undefined;
}

/**
 * The parts that `file` may import, where `target` is none of them; null where the import is
 * permitted, and where the files share no folder with floors.
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
