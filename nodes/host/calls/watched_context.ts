/**
 * The context of an own program: its functions' calls are checked, and watched until they begin.
 */
import type { CallWatch } from "../cpu/forgotten_calls.ts";
import type { Cpu, Region, Steps } from "../cpu/program.ts";
import type { ThreadContext } from "../program_context.ts";
import { coreChecks, REGION_CHECKS } from "./core_calls.ts";
import { VERB_CHECKS } from "./verb_calls.ts";

export function watchedContext(watch: CallWatch, { cpu, device }: ThreadContext): ThreadContext {
  const verbs = watch.watched(device.verbs, VERB_CHECKS);
  // A region's functions are watched like those of its core.
  const opened = { region: (name: string) => watchedRegion(watch, cpu, name) };
  const checks = coreChecks(cpu.addresses);
  const core = Object.assign(watch.watched(cpu, checks), watch.watched(opened, checks));
  return { cpu: core, device: { ...device, verbs } };
}

function* watchedRegion(watch: CallWatch, cpu: Cpu, name: string): Steps<Region> {
  return watch.watched(yield* cpu.region(name), REGION_CHECKS);
}
