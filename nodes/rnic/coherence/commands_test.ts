/** Commands about shared regions that come while others are under way. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { createDevice } from "../device.ts";
import type { Device } from "../state/device.ts";
import { REGION_AT, regionPlan } from "../testing/region_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { deregisterRegion, registerRegion } from "./commands.ts";
import { COHERENCE } from "./extension.ts";
import type { FarEnd, HomeEnd } from "./state/coherence_state.ts";

const REGIONS = [regionPlan(), regionPlan({ id: 1, name: "t", address: 2 * REGION_AT })];

function card(name: "a" | "b"): { device: Device; far: FarEnd; home: HomeEnd } {
  const device = createDevice(name, rnicPlan(name, { shared: REGIONS }), { seed: 1 });
  COHERENCE.start(device);
  const { fars, home } = device.coherence!;
  return { device, far: [...fars.values()][0]!, home: home! };
}

const said = (reply: RnicReply | "later") =>
  reply === "later" ? reply : reply.status === "error" ? reply.errno : "ok";
const register = (device: Device, region = 0) =>
  said(registerRegion(device, { op: "register-region", region }, 7));
const deregister = (device: Device, region = 0) =>
  said(deregisterRegion(device, { op: "deregister-region", region }, 8));

describe("commands about shared regions", () => {
  it("decision 21: of a far card: one at a time for a region, which stays as it was asked for", () => {
    for (const op of ["register", "deregister"] as const) {
      const { device, far } = card("b");
      far.asked.set(0, { id: 3, op });
      same([register(device), deregister(device)], ["EBUSY", "EBUSY"], op);
      same([...far.asked], [[0, { id: 3, op }]]);
    }
  });

  it("decision 21: of a far card: registers once, and deregisters what is registered alone", () => {
    const { device, far } = card("b");
    same([register(device, 9), deregister(device, 9)], ["ENOENT", "ENOENT"], "there is none");
    same(deregister(device), "EINVAL", "it is not registered");
    same(register(device), "later");
    same([...far.asked], [[0, { id: 7, op: "register" }]]);
    far.asked.clear();
    far.registered.set(0, 0);
    same(register(device), "EBUSY");
    same([...far.asked], []);
  });

  it("decision 13: a far card greets home once for all that wait for it", () => {
    const { device, far } = card("b");
    const lives = [far.card.life];
    for (const region of [0, 1]) {
      same(register(device, region), "later");
      lives.push(far.card.life);
    }
    same(lives.map((life) => life - lives[1]!), [lives[0]! - lives[1]!, 0, 0]);
    same([far.greeting !== undefined, [...far.asked.keys()]], [true, [0, 1]]);
  });

  it("decision 21: of home: exposes once, and not while it takes it back", () => {
    const { device, home } = card("a");
    same([register(device), register(device)], ["ok", "EBUSY"]);
    home.exposed.delete(0);
    home.closing.set(8, { region: 0, waits: new Set([1]), endsAt: 1 });
    same(register(device), "EBUSY");
    home.closing.clear();
    home.withdrawn.add(0);
    same([register(device), home.withdrawn.size, home.exposed.size], ["ok", 0, 1]);
  });
});
