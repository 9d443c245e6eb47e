/** Names of the rack's devices. A host has its name from the scenario. */

export const RNIC_SUFFIX = "-rnic";

/** The switch of a star. */
export const SWITCH_NAME = "tor";

export function rnicName(host: string): string {
  return `${host}${RNIC_SUFFIX}`;
}

/** The host of the RNIC with this name; undefined where the name is no RNIC's. */
export function hostOfRnic(node: string): string | undefined {
  return node.endsWith(RNIC_SUFFIX) ? node.slice(0, -RNIC_SUFFIX.length) : undefined;
}

/** Switches of a leaf–spine network, numbered from 0 in the plan and from 1 in their names. */
export function leafName(leaf: number): string {
  return `leaf${leaf + 1}`;
}

export function spineName(spine: number): string {
  return `spine${spine + 1}`;
}
