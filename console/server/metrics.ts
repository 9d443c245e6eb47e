/**
 * For Prometheus: names by its guide (base units, `_total` for counters). Counters begin anew with
 * a device's power, as Prometheus expects of a restart.
 */
import { Counter, Gauge, type Metric, Registry } from "prom-client";
import {
  LATENCY_BOUNDS_PS,
  type OperationFigures,
  PERFTEST_OPERATION,
} from "../../fabric/inspection.ts";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import { type Counters, countersOf, trafficOf } from "../rack/live/counters.ts";
import { inspectDevice } from "../rack/live/inspect.ts";
import { findUp, linkedTo, type RackLink } from "../rack/live/racks.ts";
import { listRuns } from "../rack/run_directory.ts";
import type { Console } from "./context.ts";

const PS = 1e12;
const CONNECT_MS = 1_000;

export async function metricsText({ jobs, watchers }: Console) {
  const registry = new Registry();
  const metrics = metricsIn(registry);
  metrics.jobs.set(jobs.running);
  metrics.watched.set(watchers.size);
  const rows = (await listRuns()).filter(({ up }) => up);
  await Promise.all(rows.map(async ({ id }) => {
    const options = { timeoutMs: CONNECT_MS, as: "viewer" } as const;
    const isUp = await findUp(id)
      .then((rack) => linkedTo(rack, (link) => collect(link, metrics), options))
      .then(() => true, () => false);
    metrics.up.set({ run: id }, isUp ? 1 : 0);
  }));
  return { type: registry.contentType, text: await registry.metrics() };
}

function metricsIn(registry: Registry) {
  const registers = [registry];
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `rackmesh_${name}`, help, labelNames, registers });
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name: `rackmesh_${name}`, help, labelNames, registers });
  const link = ["run", "cable", "from"], node = ["run", "node"];
  return {
    up: gauge("up", "Whether the rack answers.", ["run"]),
    jobs: gauge("console_jobs", "Jobs of the console that run."),
    watched: gauge("console_watched_racks", "Racks that a page looks at."),
    virtual: counter("virtual_seconds_total", "Virtual time that has passed.", ["run"]),
    events: counter("events_total", "Events of the rack.", ["run"]),
    grants: gauge("grants_waited_for", "Grants whose end the clock waits for.", ["run"]),
    power: gauge("device_power", "Whether the device's process has power.", node),
    waited: gauge(
      "partition_running_seconds",
      "For how long the clock has waited for the partition to come to the end of its grant.",
      ["run", "partition"],
    ),
    linkBytes: counter("link_bytes_total", "Bytes on a cable, by the end that sent them.", link),
    linkFrames: counter("link_frames_total", "Frames on a cable, by the end that sent them.", link),
    drops: counter("dropped_frames_total", "Frames that a device dropped.", [...node, "reason"]),
    pauses: counter("pause_frames_total", "Pause frames that a device sent.", node),
    paused: counter(
      "paused_seconds_total",
      "Virtual time for which pauses held frames back.",
      node,
    ),
    retransmissions: counter("retransmissions_total", "Packets that an RNIC sent again.", node),
    queuePairs: gauge("queue_pairs", "Queue pairs of an RNIC.", node),
    queued: gauge("switch_queue_bytes", "Bytes that wait for an output port of a switch.", link),
    queuePeak: gauge(
      "switch_queue_peak_bytes",
      "The fullest that an output queue of a switch has been.",
      node,
    ),
    llcMisses: counter("llc_misses_total", "Accesses that missed a host's last-level cache.", node),
    scmIn: counter("scm_received_bytes_total", "Bytes that a host's SCM controller took.", node),
    scmOut: counter("scm_written_bytes_total", "Bytes written to a host's SCM medium.", node),
    dirty: gauge(
      "scm_volatile_bytes",
      "Bytes of SCM whose newest copy is at a place that a power failure now would lose.",
      [...node, "place"],
    ),
    promised: counter(
      "promised_bytes_total",
      "Bytes of which a program was told that they persist, by a confirmation that promises it.",
      [...node, "operation", "method", "bytes"],
    ),
    latency: histogram(registry, {
      name: "rackmesh_operation_latency_seconds",
      help: "Virtual time from an operation's post to its last completion.",
    }),
    perftest: histogram(registry, {
      name: "rackmesh_perftest_latency_seconds",
      help: "Virtual time of a message of perftest: in a ping-pong, half of its round trip.",
    }),
  };
}

function histogram(
  registry: Registry,
  { name, help }: { readonly name: string; readonly help: string },
) {
  const values: {
    readonly metricName: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[] = [];
  const metric = { name, help, get: () => ({ name, help, type: "histogram", values }) };
  registry.registerMetric(metric as unknown as Metric<string>);
  return {
    add(labels: Readonly<Record<string, string>>, { buckets, sumPs, count }: OperationFigures) {
      let upTo = 0;
      for (const [i, inBucket] of buckets.entries()) {
        upTo += inBucket;
        const bound = LATENCY_BOUNDS_PS[i];
        const le = bound === undefined ? "+Inf" : bound / PS;
        values.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: upTo });
      }
      values.push({ metricName: `${name}_sum`, labels, value: sumPs / PS });
      values.push({ metricName: `${name}_count`, labels, value: count });
    },
  };
}

async function collect(
  link: RackLink,
  metrics: ReturnType<typeof metricsIn>,
): Promise<void> {
  const { rack: { id: run, file: { plan, partitions } }, control } = link;
  const [status, { nodes }] = await Promise.all([
    control.status({ forMs: CONNECT_MS }),
    countersOf(link),
  ]);
  metrics.virtual.inc({ run }, status.now / PS);
  metrics.events.inc({ run }, status.events);
  const dead = new Set(
    status.why.filter((row) => row.status === "dead").map(({ partition }) => partition),
  );
  for (const { name, nodes } of partitions) {
    for (const node of nodes) metrics.power.set({ run, node }, dead.has(name) ? 0 : 1);
  }
  const running = status.why.filter((row) => row.status === "running");
  metrics.grants.set({ run }, running.length);
  for (const { partition, status: state, sinceMs } of status.why) {
    metrics.waited.set({ run, partition }, state === "running" ? Math.max(0, sinceMs) / 1_000 : 0);
  }
  for (const { cable, from, frames, bytes } of trafficOf(plan, nodes)) {
    const labels = { run, cable: targetName(plan, { cable, direction: "both" }), from };
    metrics.linkFrames.inc(labels, frames);
    metrics.linkBytes.inc(labels, bytes);
  }
  for (const { cable, from, bytes } of queuesOf(plan, nodes)) {
    const labels = { run, cable: targetName(plan, { cable, direction: "both" }), from };
    metrics.queued.set(labels, bytes);
  }
  for (const [node, all] of Object.entries(nodes)) {
    const labels = { run, node };
    for (const [name, count] of Object.entries(all)) {
      const reason = reasonOf(name);
      if (reason !== undefined) metrics.drops.inc({ ...labels, reason }, count);
    }
    const { pausesOut, pausedPs, retransmissions, queuePairs, queuePeakBytes } = all;
    if (pausesOut !== undefined) metrics.pauses.inc(labels, pausesOut);
    if (pausedPs !== undefined) metrics.paused.inc(labels, pausedPs / PS);
    if (queuePeakBytes !== undefined) metrics.queuePeak.set(labels, queuePeakBytes);
    if (hostOfRnic(node) !== undefined) {
      metrics.retransmissions.inc(labels, retransmissions ?? 0);
      metrics.queuePairs.set(labels, queuePairs ?? 0);
    }
    const { llcMisses, scmBytesIn, scmBytesOut } = all;
    if (scmBytesIn === undefined) continue;
    metrics.llcMisses.inc(labels, llcMisses ?? 0);
    metrics.scmIn.inc(labels, scmBytesIn);
    metrics.scmOut.inc(labels, scmBytesOut ?? 0);
    // A host that loses its power meanwhile has nothing to lose.
    const device = await inspectDevice(link, node, { loss: true }).catch(() => undefined);
    for (const [place, bytes] of Object.entries(device?.loss?.bytes ?? {})) {
      metrics.dirty.set({ ...labels, place }, bytes);
    }
    for (const each of device?.operations ?? []) {
      const { operation, method, promisedBytes } = each;
      const size = each.bytes === undefined ? {} : { bytes: `${each.bytes}` };
      if (operation === PERFTEST_OPERATION) {
        metrics.perftest.add({ ...labels, test: method, ...size }, each);
        continue;
      }
      metrics.latency.add({ ...labels, operation, method, ...size }, each);
      metrics.promised.inc({ ...labels, operation, method, ...size }, promisedBytes);
    }
  }
}

function queuesOf({ cables }: RackPlan, nodes: Counters) {
  return cables.flatMap(({ a, b }, cable) =>
    [a, b].flatMap(({ node, port }) => {
      const bytes = nodes[node]?.[`port${port}.queuedBytes`];
      return bytes === undefined ? [] : [{ cable, from: node, bytes }];
    })
  );
}

function reasonOf(name: string): string | undefined {
  if (name.startsWith("drop-")) return name.slice("drop-".length);
  const word = /^dropped([A-Z]\w*)$/.exec(name)?.[1];
  return word?.replaceAll(/(?!^)([A-Z])/g, "-$1").toLowerCase();
}
