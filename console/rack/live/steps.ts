/** Steps of operations of a running rack, as they happen, while somebody reads them. */
import type { TraceLine } from "../../../fabric/trace/trace.ts";
import type { RackLink } from "./racks.ts";

/** Steps of one device from one span of its partition, in their order. */
export interface StepBlock {
  readonly node: string;
  /** Number of the span: a kill with a lower `settledSpan` says that these did not happen. */
  readonly span: number;
  readonly lines: readonly TraceLine[];
  /** Steps of this span behind these, for which a block has no room. */
  readonly dropped: number;
}

/** Until the signal is aborted; `nodes`: only of these devices. */
export type WatchSteps = (
  link: RackLink,
  options: { readonly nodes?: readonly string[]; readonly signal: AbortSignal },
) => AsyncGenerator<StepBlock, void>;
