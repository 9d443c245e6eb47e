/** From the replay, which knows every promise and operation. */
import type { Operations, Timeline } from "../../api/replay.ts";
import { PS_PER_S } from "../../../fabric/base/time.ts";
import { api } from "../data/api.ts";
import { bitRate, roughTime } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { Histogram, type HistogramProps } from "./plot.tsx";

const BUCKETS = 120;

type Bars = Pick<HistogramProps, "values" | "step">;

/** Promised bits per second in equal spans of the run, in ps. */
function throughputOf({ promises, endPs }: Pick<Timeline, "promises" | "endPs">): Bars {
  const step = Math.max(1, endPs / BUCKETS), bits = new Array<number>(BUCKETS).fill(0);
  for (const { at, from, to, promised } of promises) {
    if (promised) bits[Math.min(BUCKETS - 1, Math.floor(at / step))]! += (to - from) * 8;
  }
  return { step, values: bits.map((each) => each / step * PS_PER_S) };
}

/** Operations in equal steps from 0 to the longest latency, in ps. */
function latenciesOf({ operations }: Pick<Operations, "operations">): Bars {
  const latencies = operations.map(({ startPs, endPs }) => endPs - startPs);
  const step = Math.max(1, Math.max(0, ...latencies) / 60), values = new Array<number>(61).fill(0);
  for (const latency of latencies) values[Math.floor(latency / step)]!++;
  return { step, values };
}

export function Throughput(
  { run, variant }: { readonly run: string; readonly variant: string | undefined },
) {
  const timeline = useFetched(run, () => api.timeline(run, variant)).value;
  const operations = useFetched(run, () => api.operations(run, { variant })).value;
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
        <Histogram
          title={`Promised bytes over virtual time${of}`}
          columns={["ps", "throughput-bps"]}
          {...throughputOf(timeline.value)}
          x={roughTime}
          y={bitRate}
        />
      )}
      {operations.value.operations.length > 0 && (
        <Histogram
          title={`Latency of ${operations.value.operations.length} operations${of}`}
          columns={["latency-ps", "operations"]}
          {...latenciesOf(operations.value)}
          x={roughTime}
          y={(value) => Number.isInteger(value) ? String(value) : ""}
        />
      )}
    </div>
  );
}
