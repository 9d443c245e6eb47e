/** When the receive buffer asks for pauses and takes them back, to the ps. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { pauseTime } from "../../../fabric/link/pause.ts";
import type { Frame } from "../../../fabric/node.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { decodePfc, PAUSE_QUANTA_MAX } from "../../../fabric/wire/roce/pfc.ts";
import type { Device } from "../state/device.ts";
import { isOverrun, servePauses } from "./flow_control.ts";
import { BUS_BACKLOG_PS, BUS_RESUME_PS } from "../state/limits.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { createDevice } from "../device.ts";

const LINE = 100e9;
const PRIORITY = 3;
const HEADROOM_PS = 5 * PS_PER_US;

let device: Device, asked: (number | undefined)[];

function deviceWith(pfc: { lossless: number; headroomPs: number } | null): Device {
  const congestion = { dscp: 26, cnpDscp: 48, bitsPerSecond: LINE, pfc, dcqcn: null };
  const made = createDevice("a-rnic", rnicPlan("a", { congestion }), { seed: 1 });
  made.now = PS_PER_US;
  made.out = {
    ...made.out,
    send(_port, message, departAt) {
      asked.push(decodePfc((message as Frame).bytes)?.quanta[PRIORITY]);
      return departAt;
    },
  };
  return made;
}

/** The bus is busy for so long with what has arrived. */
function backlog(ps: number): void {
  device.dma.busFreeAt = device.now + ps;
}

beforeEach(() => {
  asked = [];
  device = deviceWith({ lossless: 1 << PRIORITY, headroomPs: HEADROOM_PS });
});

describe("isOverrun", () => {
  it("asks for a pause from the first ps above the limit on, once", () => {
    backlog(BUS_BACKLOG_PS);
    assert.equal(isOverrun(device), false);
    assert.deepEqual(asked, [], "at the limit");
    backlog(BUS_BACKLOG_PS + 1);
    assert.equal(isOverrun(device), false);
    assert.equal(isOverrun(device), false);
    assert.deepEqual(asked, [PAUSE_QUANTA_MAX]);
  });

  it("takes what still comes up to the headroom, to the last ps of it", () => {
    backlog(BUS_BACKLOG_PS + HEADROOM_PS);
    assert.equal(isOverrun(device), false);
    backlog(BUS_BACKLOG_PS + HEADROOM_PS + 1);
    assert.equal(isOverrun(device), true);
  });

  it("has no headroom without PFC, and asks for nothing", () => {
    device = deviceWith(null);
    backlog(BUS_BACKLOG_PS);
    assert.equal(isOverrun(device), false);
    backlog(BUS_BACKLOG_PS + 1);
    assert.equal(isOverrun(device), true);
    assert.deepEqual(asked, []);
  });
});

describe("servePauses", () => {
  function serve(): void {
    servePauses(device, device.congestion!.flow!);
  }

  it("takes the pause back where the bus has caught up, not one ps before, and once", () => {
    backlog(BUS_BACKLOG_PS + 1);
    isOverrun(device);
    backlog(BUS_RESUME_PS + 1);
    serve();
    assert.deepEqual(asked, [PAUSE_QUANTA_MAX]);
    backlog(BUS_RESUME_PS);
    serve();
    serve();
    assert.deepEqual(asked, [PAUSE_QUANTA_MAX, 0]);
  });

  it("asks again at half of the pause", () => {
    backlog(BUS_BACKLOG_PS + 1);
    isOverrun(device);
    const half = Math.floor(pauseTime(PAUSE_QUANTA_MAX, LINE) / 2);
    device.now += half - 1;
    backlog(BUS_BACKLOG_PS);
    serve();
    assert.deepEqual(asked, [PAUSE_QUANTA_MAX]);
    device.now += 1;
    backlog(BUS_BACKLOG_PS);
    serve();
    assert.deepEqual(asked, [PAUSE_QUANTA_MAX, PAUSE_QUANTA_MAX]);
  });

  it("says nothing where no pause was asked for", () => {
    backlog(0);
    serve();
    assert.deepEqual(asked, []);
  });
});
