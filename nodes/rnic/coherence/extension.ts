/** Shared regions as a feature of the card: its host messages, its steps and its report. */
import { NEVER } from "../../../fabric/base/time.ts";
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
  const leaked: Count[] = home === undefined ? [] : [
    ["requests at the directory", home.card.requests.length + home.inbox.length],
    ["lines to be purged", home.card.purges.size],
    ["deregistrations under way", home.closing.size],
  ];
  for (const { card, outbox, accesses } of fars.values()) {
    leaked.push(["accesses of the remote cache", card.waiting.length + card.active.size]);
    leaked.push(["accesses of cores to shared regions", accesses.size]);
    leaked.push(["requests without a credit", outbox.length]);
  }
  return { leaked };
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
