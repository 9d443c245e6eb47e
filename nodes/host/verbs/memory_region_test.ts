import {
  IBV_ACCESS_FLUSH_GLOBAL,
  IBV_ACCESS_FLUSH_PERSISTENT,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_RELAXED_ORDERING,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_ACCESS_ZERO_BASED,
  RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE,
} from "./flags.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { failed, must } from "./device.ts";
import { allocPd, deallocPd, deregMr, regMr, reregMr } from "./memory_region.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Device, Pd, VerbError } from "./objects.ts";

let rig: VerbsRig, device: Device, pd: Pd;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
});

function errnoOf(answer: unknown): string | undefined {
  return failed(answer as VerbError) ? (answer as VerbError).errno : undefined;
}

describe("regMr with objects", () => {
  it("H-01: the card is told where they are; EINVAL for one outside of the region", () => {
    const buffer = rig.allocate(4096), access = IBV_ACCESS_LOCAL_WRITE;
    const mr = must(rig.run(regMr(pd, buffer, {
      access,
      objects: [{ identity: (1n << 48n) + 7n, offset: 64, length: 128 }],
    })));
    const command = rig.commands.findLast(({ op }) => op === "register-mr");
    ok(command?.op === "register-mr");
    same(command.region.objects, [
      { nameHigh: 0x1_0000, nameLow: 7, va: mr.address + 64, length: 128 },
    ]);
    for (const [offset, length] of [[-1, 8], [0, 0], [4090, 8]] as const) {
      const objects = [{ identity: 7n, offset, length }];
      equal(errnoOf(rig.run(regMr(pd, buffer, { access, objects }))), "EINVAL");
    }
    const objects = [{ identity: 1n << 64n, offset: 0, length: 8 }];
    equal(errnoOf(rig.run(regMr(pd, buffer, { access, objects }))), "EINVAL");
  });
});

describe("regMr", () => {
  it("P-22: sends the page table, first VA, length and access flags", () => {
    const buffer = rig.allocate(3 * 4096);
    const mr = must(rig.run(regMr(pd, buffer, {
      access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
      offset: 4000,
      length: 200,
    })));
    const { region } = rig.sent("register-mr").at(-1)!;
    same(region, {
      pd: pd.handle,
      va: buffer.address + 4000,
      length: 200,
      access: ACCESS.localWrite | ACCESS.remoteRead,
      pageBytes: 4096,
      pages: buffer.pages.slice(0, 2),
      persistent: false,
    });
    equal(mr.address, buffer.address + 4000);
  });

  it("P-05 (in part): says of each region, and of its new place, whether it is storage class memory", () => {
    const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const part = { offset: 65536, length: 256 };
    const mr = must(rig.run(regMr(pd, rig.scm, { access, ...part })));
    equal(rig.sent("register-mr").at(-1)!.region.persistent, true);
    equal(rig.run(reregMr(mr, { place: { buffer: rig.allocate(64) } })), undefined);
    equal(rig.sent("reregister-mr").at(-1)!.change.place!.persistent, false);
    equal(rig.run(reregMr(mr, { place: { buffer: rig.scm, ...part } })), undefined);
    equal(rig.sent("reregister-mr").at(-1)!.change.place!.persistent, true);
  });

  it("§7 #31: refuses remote write or atomic access without local write", () => {
    const buffer = rig.allocate(64);
    const lists = [
      IBV_ACCESS_REMOTE_WRITE,
      IBV_ACCESS_REMOTE_ATOMIC,
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    ];
    const sent = rig.commands.length;
    for (const access of lists) equal(errnoOf(rig.run(regMr(pd, buffer, { access }))), "EINVAL");
    equal(rig.commands.length, sent);
  });

  it("P-22: grants remote write persistence on SCM only, and with remote write only", () => {
    const all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
      RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE;
    equal(errnoOf(rig.run(regMr(pd, rig.allocate(64), { access: all }))), "EINVAL");
    const scm = { offset: 65536, length: 256 };
    ok(!failed(rig.run(regMr(pd, rig.scm, { access: all, ...scm }))));
    const access = IBV_ACCESS_LOCAL_WRITE | RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE;
    equal(errnoOf(rig.run(regMr(pd, rig.scm, { access, ...scm }))), "EINVAL");
  });

  it("§4.5: grants FLUSH to persistence on SCM only, to visibility anywhere", () => {
    const persistent = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
      IBV_ACCESS_FLUSH_PERSISTENT;
    equal(errnoOf(rig.run(regMr(pd, rig.allocate(64), { access: persistent }))), "EINVAL");
    const visible = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL;
    const mr = must(rig.run(regMr(pd, rig.allocate(64), { access: visible })));
    equal(errnoOf(rig.run(reregMr(mr, { access: persistent }))), "EINVAL");
    const scm = { offset: 65536, length: 256 };
    ok(!failed(rig.run(regMr(pd, rig.scm, { access: persistent, ...scm }))));
  });

  for (
    const [name, flag] of [
      ["IBV_ACCESS_RELAXED_ORDERING", IBV_ACCESS_RELAXED_ORDERING],
      ["IBV_ACCESS_ZERO_BASED", IBV_ACCESS_ZERO_BASED],
    ] as const
  ) {
    it(`§7 #86: refuses ${name}, anew too, as nothing honours it`, () => {
      const wrong = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | flag;
      const mr = must(rig.run(regMr(pd, rig.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE })));
      const sent = rig.commands.length;
      const made = rig.run(regMr(pd, rig.allocate(64), { access: wrong }));
      const place = { buffer: rig.allocate(64) };
      const changed = [{ access: wrong }, { access: wrong, place }]
        .map((change) => rig.run(reregMr(mr, change)));
      for (const answer of [made, ...changed]) {
        equal(errnoOf(answer), "EINVAL");
        ok((answer as VerbError).reason.startsWith(name));
      }
      equal(rig.commands.length, sent);
      equal(mr.access, ACCESS.localWrite);
    });
  }

  it("ibv_rereg_mr(3): a change of nothing is EINVAL, and asks the firmware nothing", () => {
    const mr = must(rig.run(regMr(pd, rig.allocate(64), { access: 0 })));
    const sent = rig.commands.length;
    equal(errnoOf(rig.run(reregMr(mr, {}))), "EINVAL");
    equal(rig.commands.length, sent);
  });

  it("refuses what does not lie in the buffer", () => {
    const buffer = rig.allocate(64);
    const parts = [{ offset: 1 }, { length: 0 }, { offset: -1, length: 8 }, { length: Number.NaN }];
    for (const part of [{ offset: 60, length: 5 }, ...parts.slice(1)]) {
      equal(errnoOf(rig.run(regMr(pd, buffer, { access: 0, ...part }))), "EINVAL");
    }
    equal(must(rig.run(regMr(pd, buffer, { access: 0, ...parts[0]! }))).length, 63);
  });
});

describe("deallocPd", () => {
  it("§7 #16: EBUSY while a region lives in it, EINVAL the second time", () => {
    const mr = must(rig.run(regMr(pd, rig.allocate(64), { access: 0 })));
    equal(errnoOf(deallocPd(pd)), "EBUSY");
    equal(rig.run(deregMr(mr)), undefined);
    equal(deallocPd(pd), undefined);
    equal(errnoOf(deallocPd(pd)), "EINVAL");
  });
});
