/** The first placement of a region's copies (C-04): both cards know it without a message. */
import type { Placement } from "../../../fabric/wire/roce/coherence_messages.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";

/** Decision 17: a fresh region follows the plain rule, in which a tie goes to `remote`. */
export function startingPlacement({ placement }: SharedRegion): Placement {
  return { place: placement === "local" ? "local" : "remote", version: 0 };
}
