/** The times of a coherent card beside those of its ports. */
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

function beginStage({ now, stageAt }: Device, spent: StageSpent): void {
  if (spent.at === now && spent.stageAt === stageAt) return;
  Object.assign(spent, { at: now, stageAt, lookUpPs: 0, convertPs: 0 });
}

/** The look-up of a message or access: its outputs depart later by that. */
export function spendLookUp(device: Device): void {
  add(device, "lookUpPs");
}

/** The protocol conversion of an input that goes on to the other side (C-01, C-02). */
export function spendConversion(device: Device): void {
  add(device, "convertPs");
}

/** The parts of the present step's time. @param role of the end that looks up. */
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
