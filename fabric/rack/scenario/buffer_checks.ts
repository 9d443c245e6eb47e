import { portLimits, switchCongestion, type Transmitter } from "../assembly/congestion.ts";
import { shapeOf } from "../assembly/network.ts";
import { rnicNames } from "../plan/names.ts";
import type { CablePlan } from "../plan/plan.ts";
import { type BufferParts, bufferParts } from "../plan/switch_buffer.ts";
import { formatSize } from "../plan/units.ts";
import { priorityOfDscp } from "../../wire/roce/pfc.ts";
import { longestFrame } from "./congestion.ts";
import { type Report, valueAt } from "./reading.ts";
import type { Draft } from "./scenario.ts";

interface Divided extends BufferParts {
  readonly name: string;
}

export function checkBuffers(draft: Draft, report: Report): void {
  const { fabric: { congestion, mtu, switch: own } } = draft;
  const least = leastShared(draft);
  if (least === undefined) return;
  const { name, totalBytes, sharedBytes, headroomBytes, reservedBytes } = least;
  const frame = longestFrame(mtu);
  if (own.bufferBytes !== undefined && sharedBytes < frame) {
    const parts = `headroom ${formatSize(headroomBytes)}, reserved ${formatSize(reservedBytes)}`;
    const expected = `at least ${headroomBytes + reservedBytes + frame} B in ${name}: ${parts}, ` +
      "and a frame";
    report(["fabric", "switch", "buffer"], { found: formatSize(own.bufferBytes), expected });
    return;
  }
  if (congestion === undefined) return;
  const { ecn, pfc, dscp, lossless } = congestion;
  const mostOfGroup = (own.reservedBytes ?? 0) + sharedBytes;
  if (pfc?.threshold.kind === "static" && pfc.threshold.xoffBytes > mostOfGroup) {
    const expected = `at most ${mostOfGroup} B: ${name} shares ${sharedBytes} B of its ` +
      `${totalBytes} B, as ${headroomBytes} B are headroom and ${reservedBytes} B reserved`;
    report(["fabric", "pfc", "xoff"], { found: formatSize(pfc.threshold.xoffBytes), expected });
  }
  const isLossless = pfc !== null && lossless.includes(priorityOfDscp(dscp));
  const mostOfQueue = isLossless ? totalBytes : Math.min(own.queueBytes, mostOfGroup);
  if (ecn !== null && ecn.kminBytes >= mostOfQueue) {
    if (valueAt(draft.data, ["fabric", "ecn", "kmin"]) !== undefined) {
      const expected = `less than ${mostOfQueue} B, the most that waits at a port of ${name}`;
      report(["fabric", "ecn", "kmin"], { found: formatSize(ecn.kminBytes), expected });
    } else {
      const found = `at most ${mostOfQueue} B for a port of ${name}`;
      const expected = `more than ${formatSize(ecn.kminBytes)}, the default of ` +
        "fabric.ecn.kmin, or a lower kmin";
      const key = own.bufferBytes === undefined ? "queue" : "buffer";
      report(["fabric", "switch", key], { found, expected });
    }
  }
}

function leastShared({ fabric, hosts }: Draft): Divided | undefined {
  if (hosts.length === 0) return undefined;
  const { switches, cables: joined } = shapeOf(fabric, hosts);
  const { congestion, mtu } = fabric;
  const cables = joined.map((each): CablePlan => ({ kind: "network", ...each }));
  const byName = new Map<string, Transmitter>([
    ...hosts.flatMap(({ name, nics = 1, timing }) =>
      rnicNames(name, nics).map((rnic): [string, Transmitter] => [
        rnic,
        { kind: "rnic", config: { timing: timing.rnic } },
      ])
    ),
    ...switches.map(({ name }): [string, Transmitter] => [
      name,
      { kind: "switch", config: fabric.switch },
    ]),
  ]);
  const divided = switches.map(({ name, ports }): Divided => {
    if (congestion === undefined) return { name, ...bufferParts({ ports, ...fabric.switch }) };
    const limits = portLimits(name, { ports, cables, byName, mtu }, congestion);
    const its = switchCongestion(congestion, { index: 0, limits });
    return { name, ...bufferParts({ ports, ...fabric.switch, congestion: its }) };
  });
  return divided.reduce<Divided | undefined>(
    (least, each) => least !== undefined && least.sharedBytes <= each.sharedBytes ? least : each,
    undefined,
  );
}
