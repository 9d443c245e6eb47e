/** Rings as drivers lay them out. */
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";

/** What is wrong with a ring of the driver's; undefined where nothing is. */
export function ringFault(name: string, ring: RingPlace, most: number): string | undefined {
  const { units } = ring;
  const isPower = Number.isInteger(units) && units >= 2 && units <= most &&
    (units & (units - 1)) === 0;
  return isPower
    ? undefined
    : `${name} units must be a power of two from 2 to ${most}: they are ${units}`;
}
