/** Throughput over time and the distribution of latencies: from the replay, which knows every promise and operation. */
import type { Operations, Timeline } from "../../api/replay.ts";
import { PS_PER_S } from "../../../fabric/base/time.ts";
import { api } from "../data/api.ts";
import { bitRate, roughTime } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { Plot } from "./plot.tsx";

const BUCKETS = 120;

/** Promised bits per second in equal spans of the run: x in ps. */
function throughputOf(
  { promises, endPs }: Pick<Timeline, "promises" | "endPs">,
): [number[], number[]] {
  const span = Math.max(1, endPs / BUCKETS);
  const bits = new Array<number>(BUCKETS).fill(0);
  for (const { at, from, to, promised } of promises) {
    if (promised) bits[Math.min(BUCKETS - 1, Math.floor(at / span))]! += (to - from) * 8;
  }
  return [bits.map((_, i) => (i + 0.5) * span), bits.map((each) => each / span * PS_PER_S)];
}

/** Operations by latency, in equal steps from 0 to the longest: x in ps. */
function latenciesOf({ operations }: Pick<Operations, "operations">): [number[], number[]] {
  const latencies = operations.map(({ startPs, endPs }) => endPs - startPs);
  const step = Math.max(1, Math.max(0, ...latencies) / 60), counts = new Array<number>(61).fill(0);
  for (const latency of latencies) counts[Math.floor(latency / step)]!++;
  return [counts.map((_, i) => (i + 0.5) * step), counts];
}

export function Throughput(
  { run, variant }: { readonly run: string; readonly variant: string | undefined },
) {
  const timeline = useFetched(run, () => api.timeline(run, variant)).value;
  const operations = useFetched(run, () => api.operations(run, variant)).value;
  const trouble = timeline.trouble ?? operations.trouble;
  if (trouble !== undefined) {
    return (
      <p class="note quiet">There are no plots over time, as the run is not replayed: {trouble}</p>
    );
  }
  if (timeline.value === undefined || operations.value === undefined) {
    return <Loading what="the replay" />;
  }
  const hasPromises = timeline.value.promises.some(({ promised }) => promised);
  const of = variant === undefined ? "" : `, ${variant}`;
  return (
    <div class="charts">
      {hasPromises && (
        <Plot
          title={`Promised bytes over virtual time${of}`}
          columns={["ps", "throughput-bps"]}
          data={throughputOf(timeline.value)}
          x={roughTime}
          y={bitRate}
        />
      )}
      {operations.value.operations.length > 0 && (
        <Plot
          title={`Latency of ${operations.value.operations.length} operations${of}`}
          columns={["latency-ps", "operations"]}
          data={latenciesOf(operations.value)}
          x={roughTime}
          y={(value) => Number.isInteger(value) ? String(value) : ""}
        />
      )}
    </div>
  );
}
