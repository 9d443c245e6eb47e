/** Where a region's copies are kept, as a program at home chooses it (C-03, C-04, decision 18). */
import {
  MOVED_TOPIC,
  partIn,
  type RegionMoved,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { RegionRefused } from "../cpu/region.ts";

/**
 * Returns when home's card uses the new place: it then sends back requests for the old one. @throws
 * RegionRefused
 */
export function* choosePlace(
  region: SharedRegion,
  place: "local" | "remote",
  cpu: Cpu,
): Steps<void> {
  const why = refusalOf(region, place, cpu.host);
  if (why !== undefined) throw refused(region, why);
  const reply = yield* cpu.command({ op: "move-region", region: region.id, place });
  if (reply.status !== "ok") throw refused(region, reply.reason);
  const moved: RegionMoved = { region: region.name, place };
  cpu.report(MOVED_TOPIC, moved);
}

function refusalOf(region: SharedRegion, place: unknown, host: string): string | undefined {
  if (place !== "local" && place !== "remote") {
    return `found the place ${JSON.stringify(place)}, expected "local" or "remote"`;
  }
  if (partIn(region, host) !== "home") {
    return `${host} is a far host, expected a program on ${region.home.host}, the region's home`;
  }
  if (region.placement !== "auto") return undefined;
  return "home's judge moves them (placement: auto), expected placement: local or remote in the scenario";
}

function refused({ name }: SharedRegion, why: string): RegionRefused {
  return new RegionRefused(`Cannot move the copies of region ${name}: ${why}`);
}
