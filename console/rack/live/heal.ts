import { targetName } from "../../../fabric/rack/plan/cable_names.ts";
import { Refusal } from "../../../fabric/rack/plan/problem.ts";
import { ScmFileError } from "../../../nodes/host/store/scm_file.ts";
import { RackError } from "../../base/rack_error.ts";
import { orderedLinkFaults, orderLinkFault } from "./cables.ts";
import { entryOf, startDevice } from "./power.ts";
import type { RackLink } from "./racks.ts";

export interface Healed {
  readonly healed: readonly string[];
  readonly started: readonly string[];
  readonly problems: readonly string[];
}

export interface HealOptions {
  /** Default: all. */
  readonly cables?: ReadonlySet<number>;
}

/** Heals each cable with a fault, then starts each process without power. */
export async function healAll(link: RackLink, only: HealOptions = {}): Promise<Healed> {
  const { rack: { file: { plan } }, control } = link;
  const faults = [...plan.linkFaults ?? [], ...await orderedLinkFaults(control)];
  const cables = new Set(
    faults.filter(({ action, cable }) => action !== "heal" && only.cables?.has(cable) !== false)
      .map((each) => each.cable),
  );
  const healed: string[] = [], started: string[] = [], problems: string[] = [];
  for (const cable of [...cables].sort((x, y) => x - y)) {
    const target = { cable, direction: "both" as const };
    const answer = await orderLinkFault(
      (verb, body) => control.ask(verb, body, { repeats: true }),
      { action: "heal", ...target },
    );
    const name = targetName(plan, target);
    if (answer !== undefined && "ok" in answer) healed.push(name);
    // Its faults have ended by themselves, or were healed before.
    else if (!/without a fault/.test(answer?.refused ?? "")) {
      problems.push(`${name}: ${answer?.refused ?? "no answer"}`);
    }
  }
  const { why } = await control.status();
  for (const { partition, status } of why) {
    if (status !== "dead") continue;
    const { nodes } = entryOf(link.rack, partition);
    // A card comes back with its host.
    if (nodes.every((node) => started.includes(node))) continue;
    try {
      started.push(...(await startDevice(link, partition)).nodes);
    } catch (error) {
      const isKnown = error instanceof Refusal || error instanceof RackError ||
        error instanceof ScmFileError;
      if (!isKnown) throw error;
      // With its host, and on its way up.
      if (/has power$/.test(error.message)) continue;
      problems.push(`${partition}: ${error.message}`);
    }
  }
  return { healed, started: [...new Set(started)].sort(), problems };
}
