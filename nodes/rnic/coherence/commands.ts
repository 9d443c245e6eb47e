/** Commands about shared regions (C-03, C-04, decision 21): to home's card and to far ones. */
import { move } from "../../../fabric/coherence/home_card.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { askHome, leaveRegions, wantLife } from "./far.ts";
import { actAtHome, closeRegion, isClosing, openHome } from "./home.ts";
import type { Coherence, FarEnd, HomeEnd } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { DONE, noSuch, refusal } from "../state/reply.ts";

interface Part {
  readonly coherence: Coherence;
  readonly region: SharedRegion;
  /** Exactly one of them is defined: the card is home, or far. */
  readonly home: HomeEnd | undefined;
  readonly far: FarEnd | undefined;
}

function partOf({ coherence, plan }: Device, id: number): Part | undefined {
  const region = coherence?.regions.find((each) => each.id === id);
  if (coherence === undefined || region === undefined) return undefined;
  const isHome = region.home.address === plan.address;
  const far = coherence.fars.get(region.home.address);
  return { coherence, region, home: isHome ? coherence.home : undefined, far };
}

/** At home: far cards may register it from now on. On a far card: asks home. */
export function registerRegion(
  device: Device,
  { region: id }: CommandOf<"register-region">,
  command: number,
): RnicReply | "later" {
  const part = partOf(device, id);
  if (part === undefined) return noSuch("shared region", id);
  const { coherence, region, home, far } = part;
  if (home !== undefined) {
    if (home.exposed.has(id)) return refusal("EBUSY", `Region ${id} is exposed already`);
    if (isClosing(home, id)) return refusal("EBUSY", `Region ${id} is being deregistered`);
    home.withdrawn.delete(id);
    home.exposed.set(id, region);
    if (device.now >= home.opensAt) openHome(device, home);
    return DONE;
  }
  const refused = refuseFar(far, id);
  if (far === undefined || refused !== undefined) return refused ?? noSuch("shared region", id);
  if (far.registered.has(id)) return refusal("EBUSY", `Region ${id} is registered already`);
  far.asked.set(id, { id: command, op: "register" });
  if (far.card.isUp) askHome(device, far, { region: id, op: "register" });
  else wantLife(device, coherence, far);
  return "later";
}

function refuseFar(far: FarEnd | undefined, id: number): RnicReply | undefined {
  const asked = far?.asked.get(id);
  return asked && refusal("EBUSY", `A command to ${asked.op} region ${id} is under way`);
}

/** Has all copies written back: those of this card, and at home those of all cards, which leave the region. */
export function deregisterRegion(
  device: Device,
  { region: id }: CommandOf<"deregister-region">,
  command: number,
): RnicReply | "later" {
  const part = partOf(device, id);
  if (part === undefined) return noSuch("shared region", id);
  const { coherence, home, far } = part;
  if (home !== undefined) {
    if (!home.exposed.delete(id)) return refusal("EINVAL", `Region ${id} is not exposed`);
    closeRegion(device, { coherence, home, region: id }, command);
    return "later";
  }
  const refused = refuseFar(far, id);
  if (far === undefined || refused !== undefined) return refused ?? noSuch("shared region", id);
  if (!far.registered.has(id)) return refusal("EINVAL", `Region ${id} is not registered`);
  far.asked.set(id, { id: command, op: "deregister" });
  leaveRegions(device, coherence, far);
  return "later";
}

/** Home's card, or software, moves the copies (C-04, decision 18). */
export function moveRegion(
  device: Device,
  { region: id, place }: CommandOf<"move-region">,
): RnicReply {
  const part = partOf(device, id);
  if (part === undefined) return noSuch("shared region", id);
  const { coherence, home } = part;
  if (home === undefined) {
    return refusal("EPERM", `Region ${id} is moved by home's card: this one is far`);
  }
  actAtHome(
    device,
    { coherence, home, from: "bus" },
    (card, out) => move(card, { region: id, place }, out),
  );
  return DONE;
}
