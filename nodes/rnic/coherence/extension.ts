/** Shared regions as a feature of the card: its host messages, its steps and its report. */
import { NEVER } from "../../../fabric/base/time.ts";
import { type FarCard, STABLE } from "../../../fabric/coherence/far_card.ts";
import { type HomeLine, NONE } from "../../../fabric/coherence/home_card_table.ts";
import { LOCAL_CACHE } from "../../../fabric/wire/roce/coherence_messages.ts";
import type { CardExtension, Count, HeldCounts } from "../state/card_extension.ts";
import type { Device } from "../state/device.ts";
import { auditReset } from "./audit.ts";
import { deregisterRegion, moveRegion, registerRegion } from "./commands.ts";
import { takeFarAccess } from "./far.ts";
import { takeLineMessage } from "./home.ts";
import { keepLocalCache } from "./kept_lines.ts";
import { takeGreeting } from "./receive_message.ts";
import {
  cardQueuePairFailed,
  coherenceSlots,
  coherenceWakeAt,
  createCoherence,
  serveCoherence,
} from "./serve.ts";
import type { Coherence, FarEnd, HomeEnd } from "./state/coherence_state.ts";
import { accessLine } from "./verbs.ts";

export const COHERENCE = {
  isOf: ({ shared }) => shared !== undefined,
  commands: {
    "register-region": registerRegion,
    "deregister-region": deregisterRegion,
    "move-region": moveRegion,
  },
  messages: {
    "far-access": (device, message) => {
      if (device.coherence !== undefined) takeFarAccess(device, device.coherence, message);
    },
    "line": (device, message) => {
      if (device.coherence !== undefined) takeLineMessage(device, device.coherence, message);
    },
  },
  upcalls: { cardQueuePairFailed, takeGreeting, accessLine },
  slots: coherenceSlots,
  start: (device) => device.coherence = createCoherence(device),
  step: (device) => {
    if (device.coherence !== undefined) serveCoherence(device, device.coherence);
  },
  wakeAt: ({ coherence }) => coherence === undefined ? NEVER : coherenceWakeAt(coherence),
  reset: (device, { up, out }) => {
    auditReset(device, out);
    if (!up) keepLocalCache(device);
  },
  statistics,
  held,
} as const satisfies CardExtension;

function held({ coherence }: Device): HeldCounts {
  if (coherence === undefined) return { leaked: [] };
  const { home, fars } = coherence;
  const ends = home === undefined ? [] : ofHome(home);
  for (const far of fars.values()) ends.push(...ofFar(far));
  return { leaked: [...ends, ...ofLinks(coherence)] };
}

function ofHome({ card, inbox, closing, greetings, opensAt, ...home }: HomeEnd): Count[] {
  const lines = [...card.lines.values()];
  const isComplete = home.exposed.size + home.withdrawn.size === home.regions.length;
  return [
    ["requests at the directory", card.requests.length + inbox.length],
    ["transactions of the directory", lines.filter(isUnderWay).length],
    // A lease without a message ends, and the lines with it.
    ["lines lent to far cards", lines.filter(isLentFar).length],
    ["leases of far cards", card.leases.size],
    ["lines to be purged", card.purges.size],
    ["accesses of the local cache", card.local.waiting.length + card.local.active.size],
    ["lines of the local cache under way", linesUnderWay(card.local)],
    ["deregistrations under way", closing.size],
    // The host may never expose a region.
    ["greetings not answered", isComplete && card.now >= opensAt ? greetings.size : 0],
  ];
}

function isUnderWay({ phase, snoop }: HomeLine): boolean {
  return phase !== "idle" || snoop !== null;
}

function isLentFar({ sharers, owner }: HomeLine): boolean {
  const own = 1 << LOCAL_CACHE;
  return (sharers & ~own) !== 0 || (owner !== NONE && owner !== LOCAL_CACHE);
}

function ofFar({ card, outbox, accesses, credits, asked, greeting }: FarEnd): Count[] {
  return [
    ["accesses of the remote cache", card.waiting.length + card.active.size],
    ["accesses of cores to shared regions", accesses.size],
    // A card that holds one renews its lease, or gives it back.
    ["lines of the remote cache", card.lines.size],
    ["requests without a credit", outbox.length],
    ["credits of home taken", credits],
    ["registrations not answered", asked.size],
    ["greetings without an answer", Number(greeting !== undefined)],
  ];
}

function linesUnderWay({ lines }: FarCard): number {
  return [...lines.values()].filter(({ state }) => !STABLE.has(state)).length;
}

/** Queue pairs are made and ended with their link. */
function ofLinks({ home, fars, links }: Coherence): Count[] {
  const all = [...home?.links.values() ?? [], ...[...fars.values()].map(({ link }) => link)];
  const used = all.reduce((sum, link) => sum + (link?.queuePairs.length ?? 0), 0);
  const good = [...links].filter(([, { isFailed }]) => !isFailed);
  const work = good.reduce((sum, [{ requester }]) => sum + requester.work.length, 0);
  return [
    ["queue pairs of links that are over", links.size - used],
    ["messages of links without an acknowledgement", work],
  ];
}

/** C-11. */
function statistics({ coherence }: Device): Record<string, number> {
  if (coherence === undefined) return {};
  const { counters: { sent, received, busSent, busReceived, ...numbers }, home, fars } = coherence;
  const all: Record<string, number> = {};
  for (
    const [prefix, counts] of [
      ["coherenceSent", sent],
      ["coherenceReceived", received],
      ["lineSent", busSent],
      ["lineReceived", busReceived],
    ] as const
  ) {
    for (const [kind, count] of [...counts].sort(([x], [y]) => (x < y ? -1 : 1))) {
      all[`${prefix}${kind}`] = count;
    }
  }
  let remoteLines = 0;
  for (const { card } of fars.values()) remoteLines += card.lines.size;
  return {
    ...all,
    remoteCacheHits: numbers.remoteHits,
    remoteCacheMisses: numbers.remoteMisses,
    remoteCacheLines: remoteLines,
    remoteCacheLinesMost: numbers.remoteLinesMost,
    localCacheHits: numbers.localHits,
    localCacheMisses: numbers.localMisses,
    localCacheLines: home?.card.local.lines.size ?? 0,
    localCacheLinesMost: numbers.localLinesMost,
    directoryLines: home?.card.lines.size ?? 0,
    directoryLinesMost: numbers.directoryMost,
    coherenceRecalls: numbers.recalls,
    coherenceEvictions: numbers.evictions,
    linesLost: numbers.linesLost,
    leasesEnded: numbers.leasesEnded,
    coherenceMalformed: numbers.malformed,
  };
}
