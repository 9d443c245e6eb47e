/**
 * Makes a host of the plan, with the driver, the shipped programs and the user's own on it. Apart from
 * `factory.ts`, so that the process of a card or a switch need not load it.
 */
import type { DurableWrite, Node } from "../fabric/node.ts";
import type { HostPlan } from "../fabric/rack/plan.ts";
import type { FactoryOptions } from "./factory.ts";
import { createHost } from "./host/host.ts";
import { PROGRAMS } from "./host/programs/programs.ts";
import { overlay } from "./host/scm_store.ts";
import type { ImageReader } from "./host/sparse_bytes.ts";
import { handleEvent, openDevice, reopenDevice } from "./host/verbs.ts";

/** A host that is about to get power, and what its earlier life left unsaved. */
export interface HostLife {
  readonly name: string;
  readonly life: number;
  readonly unsaved: readonly DurableWrite[];
  readonly config: HostPlan;
}

export function makeHost(host: HostLife, options: FactoryOptions): Node {
  const { name, life, unsaved, config } = host;
  const saved = options.image(name);
  const image = unsaved.length === 0 ? saved : overlaid(saved, unsaved);
  return createHost(name, config, {
    seed: options.plan.seed,
    firstBoot: life === 0,
    life,
    ...(image && { image }),
    addresses: options.plan.addresses,
    inputs: options.inputs(name),
    programs: { ...PROGRAMS, ...options.programs },
    services: ["cm"],
    boot: (cpu) => openDevice(cpu, config),
    reopen: (_cpu, device) => reopenDevice(device, config),
    onEvent: handleEvent,
  });
}

/** What was saved, with what was not yet saved on top. */
function overlaid(saved: ImageReader | undefined, writes: readonly DurableWrite[]): ImageReader {
  return (offset, length) => {
    const bytes = saved === undefined ? new Uint8Array(length) : saved(offset, length).slice();
    overlay(bytes, offset, { writes });
    return bytes;
  };
}
