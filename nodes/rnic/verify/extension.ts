/** Verified writes as a feature of the card: their ends, and the room that they hold. */
import type { CardExtension } from "../state/card_extension.ts";
import { verifiedPersisted, verifiedUnproven } from "./write_verify.ts";

export const VERIFY = {
  isOf: () => true,
  upcalls: { verifiedPersisted, verifiedUnproven },
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
