/** A card that has just got power. */
import { UPCALLS } from "./upcalls.ts";
import type { Outputs } from "../../fabric/node.ts";
import type { RnicPlan } from "../../fabric/rack/plan/plan.ts";
import { QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import { layOut } from "../../fabric/wire/host_bus/queue_placement.ts";
import type { Device } from "./state/device.ts";
import type { HeldLog } from "./state/dma_state.ts";
import { createCounters } from "./state/counters.ts";
import { createCoherentPort } from "./state/coherent_port_state.ts";
import { RUN_LINES } from "../../fabric/wire/host_bus/coherent.ts";
import { createDma } from "./dma/dma.ts";
import { createRegionTable } from "./dma/memory_region.ts";
import { createHints } from "./hints/state/hint_state.ts";
import { createPaging } from "./state/paging_state.ts";
import { Fifo } from "../../fabric/base/fifo.ts";
import { QueueCache } from "./state/queue_cache.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { createVerifyState } from "./state/verify_state.ts";
import { createCongestion } from "./transmit/congestion.ts";
import { createFlips } from "./state/flips.ts";
import { Deadlines } from "../../fabric/base/deadlines.ts";

const NOWHERE: Outputs = {
  send: (_port, _message, departAt) => departAt,
  tracing: false,
  trace() {},
  report() {},
};

/** QP numbers 0 and 1 are reserved. */
const FIRST_QPN = 17;

/** It is odd, so 256 neighbours have different keys. */
const KEY_STEP = 0x35;

export interface DeviceOptions {
  readonly seed: number;
  readonly tables?: Device["tables"];
  readonly heldLog?: HeldLog | undefined;
}

export function createDevice(name: string, plan: RnicPlan, options: DeviceOptions): Device {
  const { queuePlan = QUEUE_PLAN } = plan;
  return {
    up: UPCALLS,
    name,
    plan,
    timing: plan.timing,
    now: 0,
    out: NOWHERE,
    stageAt: 0,
    spaces: undefined,
    store: layOut(queuePlan.placement, queuePlan.layout),
    scheme: queuePlan.scheme,
    readPointer: queuePlan.readPointer,
    persistence: { flow: 1, flush: "read", noSnoop: false },
    journal: undefined,
    heldLog: options.heldLog,
    memory: undefined,
    counters: createCounters(),
    drops: new Map(),
    lossesNoted: new Set(),
    dma: createDma({ responder: plan.timing.dmaReadsMax, gather: plan.timing.gatherReadsMax }),
    port: createCoherentPort(plan, RUN_LINES),
    transmitter: {
      control: new Fifo(),
      data: new Fifo(),
      bufferedBytes: 0,
      freeAt: 0,
      looped: new Fifo(),
      loopedUntil: 0,
    },
    regions: createRegionTable(plan.address * KEY_STEP & 0xff),
    paging: createPaging(plan),
    pageEvents: new Fifo(),
    coherence: undefined,
    tables: options.tables,
    startedAt: 0,
    isPortUp: true,
    warnings: [],
    hints: createHints(plan.hints),
    queuePairs: new Map(),
    multicast: new Map(),
    completionQueues: new Map(),
    eventQueue: undefined,
    sharedReceiveQueues: new Map(),
    owners: [],
    doorbells: new Fifo(),
    doorbellPlan: queuePlan.doorbell,
    doorbellRng: rngFor(options.seed, `${name}/doorbells`),
    blueFlame: new Map(),
    cache: new QueueCache(plan.queueCache, rngFor(options.seed, `${name}/queue-cache`)),
    loads: new Map(),
    contextWaits: new Map(),
    contextsHeld: new Map(),
    pauses: new Map(),
    moved: new Map(),
    atomicWords: new Map(),
    verify: createVerifyState({ name, seed: options.seed }),
    roundRobin: new Fifo(),
    turn: { of: undefined, isWanted: false },
    congestion: createCongestion(plan),
    flips: createFlips(plan, { name, seed: options.seed }),
    deadlines: new Deadlines(0),
    slots: [],
    lowestFree: { queue: 0, slot: 0 },
    nextQpn: FIRST_QPN,
    identification: 0,
  };
}
