/** Where the time of a coherent card goes, beside that of its ports. */
import type { Spent } from "../../../fabric/trace/access_modules.ts";
import type { StageSpent } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";

function add(device: Device, part: "lookUpPs" | "convertPs"): void {
  const ps = device.timing[part], spent = device.coherence?.spent;
  if (spent === undefined) {
    device.stageAt += ps;
    return;
  }
  beginStage(device, spent);
  device.stageAt += ps;
  spent[part] += ps;
  spent.stageAt = device.stageAt;
}

/** Each input of the card sets its stage anew. */
function beginStage({ now, stageAt }: Device, spent: StageSpent): void {
  if (spent.at === now && spent.stageAt === stageAt) return;
  Object.assign(spent, { at: now, stageAt, lookUpPs: 0, convertPs: 0 });
}

/** A message or access has come: it is looked up. What it causes departs later by that. */
export function spendLookUp(device: Device): void {
  add(device, "lookUpPs");
}

/** What has come from one side goes on to the other: the protocol conversion (C-01, C-02). */
export function spendConversion(device: Device): void {
  add(device, "convertPs");
}

/** What the card has spent on what leaves now. @param role which of its two ends looks up. */
export function spentOn(device: Device, role: "home" | "far"): Spent {
  const { now, stageAt, coherence } = device;
  const { spent } = coherence!;
  beginStage(device, spent);
  const { lookUpPs, convertPs } = spent;
  return {
    untilPs: stageAt,
    by: {
      conversion: convertPs,
      [role === "home" ? "directory" : "remote cache"]: lookUpPs,
      card: stageAt - now - lookUpPs - convertPs,
    },
  };
}
