/**
 * The work that hints cause (001_ [0114]): its pieces, the places in which each may be done, and
 * its cost there. Without a place in the scenario, the RNIC's hardware does the work in no time
 * beyond the receiving and sending modules, its firmware and the driver request pages, and the OS
 * brings them.
 *
 *   [table]   a published measurement
 *   [derived] arithmetic on such measurements or on the profile's constants, shown
 *   [choice]  no measurement available: the chosen value and its reason
 *
 * Sources: SplitX = Landau et al., SplitX: Split Guest/Hypervisor Execution on Multi-Core, of which
 * the beginning could be opened; profile = `profile.ts`, whose `pageFaultPs` is the RNIC's share of
 * a measured page fault.
 */
import type { HINT_JOBS } from "../../wire/host_bus/rnic_command.ts";
import { PS_PER_NS, type Time } from "../../base/time.ts";

export const WORK_PLACES = [
  "hardware",
  "firmware",
  "iommu",
  "driver",
  "os",
  "hypervisor",
] as const;
export type WorkPlace = typeof WORK_PLACES[number];

/** The card notifies a core by an event, the core answers by a command. */
const ON_CORES = ["driver", "os", "hypervisor"] as const satisfies readonly WorkPlace[];
export type CorePlace = typeof ON_CORES[number];

export const WORK_JOBS = {
  /** Responder: parses a hint, and decides on its preparation (H-20). */
  prepare: ["parse", "check", "decide"],
  /** Responder: reports that it is prepared (H-22). */
  answer: ["answer"],
  /** Requester: makes a hint of the waiting work (H-02, H-03). */
  announce: ["look", "build", "send"],
} as const satisfies Readonly<Record<WorkJob, readonly string[]>>;
export type WorkJob = typeof HINT_JOBS[number];

/** Pieces of a job, the RNIC's pre-emptive actions (H-21), and work for a page. */
export const WORK_PIECES = [
  ...WORK_JOBS.prepare,
  "context",
  "atomic",
  "receive",
  ...WORK_JOBS.answer,
  "request",
  "map",
  "iommu",
  "translate",
  ...WORK_JOBS.announce,
] as const;
export type WorkPiece = typeof WORK_PIECES[number];

/** Absent pieces are done as without the table. */
export type HintWork = Readonly<Partial<Record<WorkPiece, WorkPlace>>>;

export interface WorkCost {
  readonly oncePs: Time;
  readonly elementPs: Time;
  readonly crossings: number;
  readonly source: string;
}

const NS = PS_PER_NS;

/**
 * [choice] A step of the scheduling module, 30 ns in the profile; further elements follow at 5 ns,
 * two cycles of a chip at some 400 MHz.
 */
const STEP = {
  oncePs: 30 * NS,
  elementPs: 5 * NS,
  crossings: 0,
  source:
    "[choice] a step of the profile's scheduling module; two cycles of the chip for each element",
} as const satisfies WorkCost;

/**
 * [choice] A fifth of the firmware's 1 us for a command (profile, NSDI'20): no mailbox is parsed
 * and no reply written.
 */
function ofFirmware(once: number, element: number): WorkCost {
  return {
    oncePs: once * NS,
    elementPs: element * NS,
    crossings: 0,
    source: "[choice] a part of the profile's 1 us for a command, done by the same processor",
  };
}

/** [choice] Loads of a structure in memory: of the LLC at 20 ns, of DRAM at 81 ns (profile). */
function ofCore(element: number, source: string): WorkCost {
  return { oncePs: 0, elementPs: element * NS, crossings: 2, source: `[choice] ${source}` };
}

/**
 * [table] SplitX: an exit's direct cost is 2 000 cycles at 2.93 GHz, so 683 ns; its cost in caches
 * depends on the program, and is not modelled.
 */
export const EXIT_PS: Time = 683 * NS;
/**
 * Exits of a guest. [choice] Two for an interrupt, as it arrives and as the guest ends it; one for
 * the command's doorbell.
 */
export const EXITS = { event: 2, command: 1 } as const;

/** [derived] A look at the table, 81 ns (MLC), and a flushed store, 62 ns (FAST'20). */
const ENTRY_PS: Time = 143 * NS;

const NO_CORE_READS_CARD = "the chip's cache is out of a core's reach";
const NO_PAGES = "pages are the kernel's, or the hypervisor's behind it";
const NO_IOMMU_WORK = "an IOMMU translates, and asks for pages: it knows no hints";

/** [choice]s of an element's time, the same in a driver, the kernel or a guest's driver. */
function onCores(element: number, source: string): Record<CorePlace, WorkCost> {
  const cost = ofCore(element, source);
  return {
    driver: cost,
    os: cost,
    hypervisor: { ...cost, source: `${cost.source}; exits besides: [table] SplitX` },
  };
}

export const WORK: Readonly<Record<WorkPiece, Readonly<Record<WorkPlace, WorkCost | string>>>> = {
  parse: {
    hardware: STEP,
    firmware: ofFirmware(100, 50),
    iommu: NO_IOMMU_WORK,
    ...onCores(20, "one load of the LLC for an entry of 32 B"),
  },
  check: {
    hardware: STEP,
    firmware: ofFirmware(100, 100),
    iommu: NO_IOMMU_WORK,
    ...onCores(101, "a key looked up: its index in the LLC, its region in DRAM"),
  },
  decide: {
    hardware: STEP,
    firmware: ofFirmware(100, 100),
    iommu: NO_IOMMU_WORK,
    ...onCores(101, "a page looked up: the table's root in the LLC, its leaf in DRAM"),
  },
  context: {
    hardware: STEP,
    firmware: ofFirmware(200, 0),
    iommu: NO_IOMMU_WORK,
    driver: NO_CORE_READS_CARD,
    os: NO_CORE_READS_CARD,
    hypervisor: NO_CORE_READS_CARD,
  },
  atomic: {
    hardware: STEP,
    firmware: ofFirmware(200, 0),
    iommu: NO_IOMMU_WORK,
    driver: NO_CORE_READS_CARD,
    os: NO_CORE_READS_CARD,
    hypervisor: NO_CORE_READS_CARD,
  },
  receive: {
    hardware: STEP,
    firmware: ofFirmware(200, 0),
    iommu: NO_IOMMU_WORK,
    driver: "receive WQEs are the RNIC's from their posting on",
    os: "receive WQEs are the RNIC's from their posting on",
    hypervisor: "receive WQEs are the RNIC's from their posting on",
  },
  answer: {
    hardware: STEP,
    firmware: ofFirmware(200, 50),
    iommu: NO_IOMMU_WORK,
    ...onCores(20, "one load of the LLC for what became of an element"),
  },
  request: {
    hardware: { ...STEP, crossings: 1 },
    firmware: {
      oncePs: 0,
      elementPs: 0,
      crossings: 1,
      source: "[derived] NSDI'20: pageFaultPs of the profile, 463.5 us, as without the table",
    },
    iommu: {
      oncePs: 260 * NS,
      elementPs: 0,
      crossings: 1,
      source:
        "[table] Neugebauer: the walk that finds no page, 227 to 294 ns; PRI needs no firmware",
    },
    driver: {
      oncePs: 0,
      elementPs: 0,
      crossings: 0,
      source: "[derived] who decides on a core knows the page: nothing is asked over the bus",
    },
    os: "the kernel is asked: it asks for no pages itself",
    hypervisor: "the hypervisor is asked: it asks for no pages itself",
  },
  map: {
    hardware: NO_PAGES,
    firmware: NO_PAGES,
    iommu: NO_PAGES,
    driver: NO_PAGES,
    os: {
      oncePs: 0,
      elementPs: 0,
      crossings: 0,
      source: "[choice] minorFaultPs or majorFaultPs of the profile, as without the table",
    },
    hypervisor: {
      oncePs: 0,
      elementPs: EXIT_PS + 1000 * NS,
      crossings: 0,
      source: "[table] SplitX: an exit; [choice] then a minor fault, 1 us, in the hypervisor, too",
    },
  },
  iommu: {
    hardware: "an RNIC must not change what it is kept in by",
    firmware: "an RNIC must not change what it is kept in by",
    iommu: "an IOMMU reads its table, software writes it",
    driver: "the kernel alone writes the IOMMU's table",
    os: {
      oncePs: 0,
      elementPs: ENTRY_PS,
      crossings: 0,
      source: "[derived] a load of DRAM, 81 ns (MLC), and a store that is flushed, 62 ns (FAST'20)",
    },
    hypervisor: {
      oncePs: 0,
      elementPs: EXIT_PS + ENTRY_PS,
      crossings: 0,
      source: "[table] SplitX: an exit for each entry that the guest writes; then as the OS",
    },
  },
  translate: {
    hardware: "an RNIC knows a page's address only when it is told",
    firmware: "an RNIC knows a page's address only when it is told",
    iommu: {
      oncePs: 260 * NS,
      elementPs: 33 * NS,
      crossings: 3,
      source:
        "[table] Neugebauer: a walk, 227 to 294 ns; [choice] one more for every 8 entries, a line",
    },
    driver: {
      oncePs: 0,
      elementPs: 0,
      crossings: 2,
      source: "[derived] NSDI'20: commandPs of host and RNIC, 4 + 1 us, as without the table",
    },
    os: "the kernel has the driver do it",
    hypervisor: {
      oncePs: EXITS.command * EXIT_PS,
      elementPs: 0,
      crossings: 2,
      source: "[table] SplitX: an exit; then as the driver",
    },
  },
  look: {
    hardware: STEP,
    firmware: ofFirmware(100, 100),
    iommu: NO_IOMMU_WORK,
    ...onCores(81, "a WQE that the RNIC has, which a core reads from DRAM"),
  },
  build: {
    hardware: STEP,
    firmware: ofFirmware(100, 100),
    iommu: NO_IOMMU_WORK,
    ...onCores(20, "one entry of 32 B is written"),
  },
  send: {
    hardware: STEP,
    firmware: ofFirmware(200, 0),
    iommu: NO_IOMMU_WORK,
    ...onCores(0, "the command that ends the job carries the hint"),
  },
};

const CARD_WORK = ["parse", "check", "decide", "context", "atomic", "receive", "answer"] as const;

function all(pieces: readonly WorkPiece[], place: WorkPlace): HintWork {
  return Object.fromEntries(pieces.map((piece) => [piece, place]));
}

/** H-09: presets for whole scenarios. The OS maps pages, except in a guest. */
export const WORK_PRESETS = {
  /** A chip's maximum; it notifies the driver itself of missing pages. */
  hardware: { ...all([...CARD_WORK, ...WORK_JOBS.announce], "hardware"), request: "hardware" },
  firmware: { ...all([...CARD_WORK, ...WORK_JOBS.announce], "firmware"), request: "firmware" },
  /**
   * As `hardware`, but pages and translations by ATS and PRI, past the driver. The IOMMU walks the
   * kernel's own table (SVA), so no page is mapped twice.
   */
  iommu: {
    ...all([...CARD_WORK, ...WORK_JOBS.announce], "hardware"),
    request: "iommu",
    translate: "iommu",
  },
  /** The driver parses hints at the responder, and maps at once the pages that it decides on. */
  driver: {
    ...all(CARD_WORK, "hardware"),
    ...all(WORK_JOBS.prepare, "driver"),
    request: "driver",
    translate: "driver",
  },
  hypervisor: {
    ...all(CARD_WORK, "hardware"),
    ...all(WORK_JOBS.prepare, "hypervisor"),
    request: "driver",
    map: "hypervisor",
    translate: "hypervisor",
  },
} as const satisfies Readonly<Record<string, HintWork>>;
export type WorkPreset = keyof typeof WORK_PRESETS;
export const WORK_PRESET_NAMES = Object.keys(WORK_PRESETS) as WorkPreset[];

export function isOnCore(place: WorkPlace): place is CorePlace {
  return (ON_CORES as readonly WorkPlace[]).includes(place);
}

/** The cost in the plan's place; undefined where it is as without the table. */
export function costOf(work: HintWork, piece: WorkPiece): WorkCost | undefined {
  const place = work[piece];
  const cost = place && WORK[piece][place];
  return typeof cost === "object" ? cost : undefined;
}

/** In ps; 0 where it is as without the table. */
export function workPs(work: HintWork, piece: WorkPiece, elements: number): Time {
  const cost = costOf(work, piece);
  return cost === undefined ? 0 : cost.oncePs + elements * cost.elementPs;
}

/** The first piece that cannot be in its place; undefined if all can. */
export function refuseWork(
  work: HintWork,
  host: { readonly hasIommu: boolean; readonly isInPackets: boolean },
): { readonly piece: WorkPiece; readonly reason: string } | undefined {
  for (const piece of WORK_PIECES) {
    const place = work[piece];
    if (place === undefined) continue;
    const cost = WORK[piece][place];
    if (typeof cost === "string") return { piece, reason: cost };
  }
  return refuseOrder(work) ?? refusePages(work, host.hasIommu) ?? refuseRide(work, host);
}

/**
 * A hint that has gone up to a core does not return to the card for its next piece: that would
 * cross the bus twice more.
 */
function refuseOrder(work: HintWork): { piece: WorkPiece; reason: string } | undefined {
  for (const pieces of Object.values(WORK_JOBS)) {
    let before: WorkPlace = "hardware";
    for (const piece of pieces) {
      const place: WorkPlace = work[piece] ?? "hardware";
      if (WORK_PLACES.indexOf(place) < WORK_PLACES.indexOf(before)) {
        return {
          piece,
          reason: `the ${before} has done what comes before it, and passes it on upwards`,
        };
      }
      before = place;
    }
  }
  return undefined;
}

function refusePages(
  work: HintWork,
  hasIommu: boolean,
): { piece: WorkPiece; reason: string } | undefined {
  const { request = "firmware", translate = "driver", iommu, decide = "hardware" } = work;
  if (!hasIommu) {
    if (request === "iommu") return { piece: "request", reason: "the host has no IOMMU" };
    if (translate === "iommu") return { piece: "translate", reason: "the host has no IOMMU" };
    if (iommu !== undefined) return { piece: "iommu", reason: "the host has no IOMMU" };
  }
  if (request === "iommu" && translate !== "iommu") {
    return { piece: "translate", reason: "who asks for pages by PRI has them translated by ATS" };
  }
  if (translate === "iommu" && request !== "iommu") {
    return { piece: "request", reason: "the answer to PRI alone tells an RNIC to ask by ATS" };
  }
  if (request === "driver" && !isOnCore(decide)) {
    return { piece: "request", reason: "no driver knows what the RNIC decides" };
  }
  return undefined;
}

function refuseRide(
  work: HintWork,
  { isInPackets }: { readonly isInPackets: boolean },
): { piece: WorkPiece; reason: string } | undefined {
  const piece = WORK_JOBS.announce.find((each) => (work[each] ?? "hardware") !== "hardware");
  if (!isInPackets || piece === undefined) return undefined;
  return { piece, reason: "a hint within another packet is made as that is, by the hardware" };
}
