/** Steps of operations of a running rack, as they happen, while somebody reads them. */
import { STEPS_VERB } from "../../fabric/bus/access.ts";
import { decode, encode } from "../../fabric/bus/codec.ts";
import { ANY, parseSubject, patternOf, subjectOf } from "../../fabric/bus/subjects.ts";
import type { StepBlockRow } from "../../fabric/runner/step_feed.ts";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import type { RackLink } from "../../console/rack/live/racks.ts";

/** Steps of one device from one span of its partition, in their order. */
export interface StepBlock {
  readonly node: string;
  /** Number of the span: a kill with a lower `settledSpan` says that these did not happen. */
  readonly span: number;
  readonly lines: readonly TraceLine[];
  /**
   * Steps of this device between the last block and this one's end that are not here: a block has
   * limited room, and the oldest blocks go where the reader does not keep up.
   */
  readonly dropped: number;
  /** Blocks of this device that the bus has lost before this one. */
  readonly missed: number;
}

/** The lease, and how often it is renewed, in wall ms. */
const LEASE_MS = 3_000, RENEW_MS = 1_000;
/** Blocks that wait for a slow reader. */
const WAITING_MAX = 2_000;

/**
 * Until the signal is aborted, or the loop is left. Blocks of one device come in order; those of
 * several do not, so their lines have to be sorted by time.
 * @param options.nodes only of these devices; absent: of all.
 */
export async function* watchSteps(
  { rack, bus }: RackLink,
  { nodes, signal }: { readonly nodes?: readonly string[]; readonly signal: AbortSignal },
): AsyncGenerator<StepBlock, void> {
  const { run } = rack.file;
  const waiting: StepBlock[] = [];
  const dropped = new Map<string, number>();
  const last = new Map<string, { readonly life: number; readonly number: number }>();
  let wake = () => {};
  const subscription = bus.subscribe(
    patternOf({ kind: "trace", run, node: ANY }),
    (payload, at) => {
      const name = parseSubject(at);
      const row = decode(payload);
      if (name?.kind !== "trace" || !isBlock(row)) return;
      const { node } = name;
      if (nodes !== undefined && !nodes.includes(node)) return;
      const [span, number, left, steps] = row;
      const life = Math.floor(span / 2 ** 32), before = last.get(node);
      last.set(node, { life, number });
      const missed = before?.life === life ? Math.max(0, number - before.number - 1) : 0;
      const lines = steps.map(([time, step]): TraceLine => ({ ...step, time, node }));
      waiting.push({ node, span, lines, dropped: left, missed });
      if (waiting.length > WAITING_MAX) {
        const oldest = waiting.shift()!;
        const lost = (dropped.get(oldest.node) ?? 0) + oldest.lines.length + oldest.dropped;
        dropped.set(oldest.node, lost);
      }
      wake();
    },
  );
  const subject = subjectOf({ kind: "control", run, verb: STEPS_VERB });
  const lease = encode({ forMs: LEASE_MS, ...(nodes !== undefined && { nodes }) });
  const renew = () => bus.publish(subject, lease);
  const timer = setInterval(renew, RENEW_MS);
  const stop = () => wake();
  signal.addEventListener("abort", stop);
  renew();
  try {
    while (!signal.aborted) {
      const block = waiting.shift();
      if (block === undefined) await new Promise<void>((resolve) => wake = resolve);
      else {
        const lost = dropped.get(block.node) ?? 0;
        dropped.delete(block.node);
        yield { ...block, dropped: block.dropped + lost };
      }
    }
  } finally {
    clearInterval(timer);
    subscription.close();
    signal.removeEventListener("abort", stop);
  }
}

function isBlock(value: unknown): value is StepBlockRow {
  if (!Array.isArray(value) || value.length !== 4) return false;
  const [span, number, dropped, steps] = value;
  return [span, number, dropped].every(Number.isSafeInteger) && Array.isArray(steps) &&
    steps.every((row) =>
      Array.isArray(row) && Number.isSafeInteger(row[0]) && Object(row[1]) === row[1]
    );
}
