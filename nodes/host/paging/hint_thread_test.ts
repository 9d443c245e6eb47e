import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { EXIT_PS, WORK_PRESETS } from "../../../fabric/rack/plan/hint_work.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { Ats } from "./ats.ts";
import { hostWorkPs } from "./hint_thread.ts";
import type { Pager } from "./pager.ts";

const NS = 1000;

describe("hostWorkPs", () => {
  it("H-20: is what the core's pieces take, with a worker's wake in the kernel and a guest's exits", () => {
    const timing = { interruptPs: 3_500 * NS };
    const job = { job: "prepare", elements: 4, timing } as const;
    const pieces = 4 * (20 + 101 + 101) * NS;
    equal(hostWorkPs(WORK_PRESETS.driver, job), pieces);
    equal(hostWorkPs(WORK_PRESETS.hypervisor, job), pieces + 3 * EXIT_PS);
    const kernel = { parse: "firmware", check: "driver", decide: "os" } as const;
    equal(hostWorkPs(kernel, job), 4 * 202 * NS + timing.interruptPs);
    equal(hostWorkPs(WORK_PRESETS.driver, { ...job, job: "announce" }), 0);
  });
});

describe("Ats", () => {
  const message = (step: AtsMessage["step"], first: number, count: number): AtsMessage => ({
    kind: "ats",
    step,
    key: 5,
    first,
    count,
    ahead: 0,
    write: true,
    frames: [],
  });

  it("H-21: walks the table for one message after the other, and says of each page where it is", () => {
    const sent: AtsMessage[] = [], faults: number[] = [];
    const region = { rights: new Uint8Array([2, 2, 0, 1]) };
    const pager = {
      regions: new Map([[5, region]]),
      framesOf: (_: unknown, { first, count }: { first: number; count: number }) =>
        Array.from({ length: count }, (_, i) => 4096 * (first + i + 1)),
      fault: ({ first }: { first: number }) => void faults.push(first),
    } as unknown as Pager;
    const ats = new Ats({ work: WORK_PRESETS.iommu, pager, send: (each) => sent.push(each) });
    ats.take(message("page-request", 7, 1), 0);
    ats.take(message("translate", 0, 4), 100 * NS);
    equal(ats.nextAt, 260 * NS);
    ats.run(260 * NS);
    same(faults, [7]);
    // The walk of the second message begins when that of the first one has ended.
    equal(ats.nextAt, (2 * 260 + 4 * 33) * NS);
    ats.run(ats.nextAt);
    same(sent.map(({ step, first, frames, write }) => [step, first, frames, write]), [
      ["translated", 0, [4096, 8192], true],
      ["translated", 2, [], false],
      ["translated", 3, [16384], false],
    ]);
    ats.take(message("translate", 0, 1), 0);
    ats.reset();
    equal(ats.nextAt, Infinity);
  });
});
