/**
 * `/metrics` for Prometheus, of all racks of this user that are up: names by its guide (base units, `_total`
 * for counters). Counters begin anew with a device's power, as Prometheus expects of a restart.
 */
import { Counter, Gauge, Registry } from "prom-client";
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import { countersOf, trafficOf } from "../rack/live/counters.ts";
import { inspectDevice } from "../rack/live/inspect.ts";
import { findUp, linkedTo, type RackLink } from "../rack/live/racks.ts";
import { listRuns } from "../rack/run_directory.ts";
import type { Console } from "./context.ts";

const PS = 1e12;
/** A rack that does not answer holds up a scrape no longer. */
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
    queued: gauge("switch_queue_peak_bytes", "The fullest that an output queue has been.", node),
    llcMisses: counter("llc_misses_total", "Accesses that missed a host's last-level cache.", node),
    scmIn: counter("scm_received_bytes_total", "Bytes that a host's SCM controller took.", node),
    scmOut: counter("scm_written_bytes_total", "Bytes written to a host's SCM medium.", node),
    dirty: gauge(
      "scm_volatile_bytes",
      "Bytes of SCM whose newest copy is at a place that a power failure now would lose.",
      [...node, "place"],
    ),
  };
}

async function collect(
  link: RackLink,
  metrics: ReturnType<typeof metricsIn>,
): Promise<void> {
  const { rack: { id: run, file: { plan, partitions } }, control } = link;
  const [status, { nodes }] = await Promise.all([control.status(CONNECT_MS), countersOf(link)]);
  metrics.virtual.inc({ run }, status.now / PS);
  metrics.events.inc({ run }, status.events);
  const dead = new Set(
    status.why.filter((row) => row.status === "dead").map(({ partition }) => partition),
  );
  for (const { name, nodes } of partitions) {
    for (const node of nodes) metrics.power.set({ run, node }, dead.has(name) ? 0 : 1);
  }
  for (const { partition, status: state, sinceMs } of status.why) {
    metrics.waited.set({ run, partition }, state === "running" ? Math.max(0, sinceMs) / 1_000 : 0);
  }
  for (const { cable, from, frames, bytes } of trafficOf(plan, nodes)) {
    const { a, b } = plan.cables[cable]!;
    const labels = { run, cable: `${a.node}/${b.node}`, from };
    metrics.linkFrames.inc(labels, frames);
    metrics.linkBytes.inc(labels, bytes);
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
    if (queuePeakBytes !== undefined) metrics.queued.set(labels, queuePeakBytes);
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
  }
}

/** `drop-receive-overrun` of a card, `droppedQueueFull` of a switch. */
function reasonOf(name: string): string | undefined {
  if (name.startsWith("drop-")) return name.slice("drop-".length);
  const word = /^dropped([A-Z]\w*)$/.exec(name)?.[1];
  return word?.replaceAll(/(?!^)([A-Z])/g, "-$1").toLowerCase();
}
