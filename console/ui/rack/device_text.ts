import type { Node } from "../../api/rack.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { bytes, count, plural, roughTime } from "../figures.ts";

type Counters = Readonly<Record<string, number>>;

export function kindText(kind: Node["kind"]): string {
  return kind === "rnic" ? "RNIC" : kind;
}

/** The host's card is on the processor's coherent bus. */
export function isCoherent({ config }: Node): boolean {
  return config["attach"] === "coherent";
}

export function busText(host: Node): string {
  return isCoherent(host) ? "coherent bus" : "PCIe";
}

/** `DDIO on · ADR`, of a host. */
export function hostText({ config }: Node): string {
  const ddio = config["ddio"] === true ? "DDIO on" : "DDIO off";
  return `${ddio} · ${String(config["domain"] ?? "").toUpperCase()}`;
}

export function deviceText(node: Node, counters: Counters | undefined): string {
  if (counters === undefined) return "";
  if (node.kind === "rnic") {
    const { queuePairs = 0, framesIn = 0, framesOut = 0 } = counters;
    const { remoteCacheLines: remote, localCacheLines: local = 0 } = counters;
    // Lines in the two caches of a card with shared regions.
    if (remote !== undefined) {
      return `lines: ${count(remote)} remote, ${count(local)} local · ${count(framesOut)} ↑ ${
        count(framesIn)
      } ↓`;
    }
    return `${plural(queuePairs, "queue pair")} · ${count(framesOut)} ↑ ${count(framesIn)} ↓`;
  }
  const { queuePeakBytes = 0, pausedPs = 0 } = counters;
  const pauses = pausedPs === 0 ? "no pause" : `paused ${roughTime(pausedPs)}`;
  return `longest queue ${bytes(queuePeakBytes)} · ${pauses}`;
}

export interface Gauge {
  readonly name: string;
  /** 0 to 1; undefined: a figure without a bar. */
  readonly share?: number;
  readonly colour: "flight" | "volatile" | "durable" | "faint";
  readonly figure: string;
}

/** 0 to 1: how long a host's cores have worked since power-on. @param now in ps. */
export function busyShare({ config }: Node, counters: Counters | undefined, now: Time): number {
  const cores = Number(config["cores"] ?? 1);
  return now === 0 ? 0 : Math.min(1, (counters?.["cpuPs"] ?? 0) / (now * cores));
}

/** @param now in ps. */
export function gaugesOf(node: Node, counters: Counters | undefined, now: Time): Gauge[] {
  const of = counters ?? {};
  const cores = Number(node.config["cores"] ?? 1);
  const busy = busyShare(node, counters, now);
  const iio = of["iioBytes"] ?? 0, iioMost = of["iioBytesMax"] ?? 0;
  const scm = Number(node.config["scmBytes"] ?? 0), taken = of["scmBytesIn"] ?? 0;
  return [
    {
      name: plural(cores, "core"),
      share: busy,
      colour: "faint",
      figure: `${plural(of["programsRunning"] ?? 0, "program")}, ${Math.round(busy * 100)} %`,
    },
    {
      name: "IIO, bytes under way",
      share: iioMost === 0 ? 0 : iio / iioMost,
      colour: "volatile",
      figure: bytes(iio),
    },
    {
      name: `SCM, ${bytes(scm)}`,
      share: scm === 0 ? 0 : Math.min(1, taken / scm),
      colour: "durable",
      figure: `${bytes(taken)} taken in`,
    },
    { name: "from the network", colour: "flight", figure: bytes(of["dmaWriteBytes"] ?? 0) },
  ];
}
