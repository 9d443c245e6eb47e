/**
 * Verified writes as a feature of the card. Where staged data goes to memory within a step (`runStaged`) the order of
 * `rnic.ts` says: behind data reads that are over.
 */
import type { CardExtension } from "../state/card_extension.ts";
import { runReadBacks } from "./read_back.ts";
import { stagedWakeAt } from "./staged_data.ts";

export const VERIFY = {
  isOf: () => true,
  settle: runReadBacks,
  wakeAt: stagedWakeAt,
  held: ({ queuePairs, verify }) => {
    const { stagedBytes, staged, readBacks, looking, requestsOut } = verify;
    const ofQueuePairs = queuePairs.values().reduce(
      (sum, { responder }) => sum + responder.stagedBytes,
      0,
    );
    return {
      leaked: [
        ["bytes staged for no queue pair", stagedBytes - ofQueuePairs],
        ["data staged for a look", staged.length],
        ["read-backs", readBacks.size + looking.length],
        ["requests of read-backs", requestsOut],
      ],
    };
  },
} as const satisfies CardExtension;
