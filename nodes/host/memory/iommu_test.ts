import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SCM_BASE } from "./address_map.ts";
import { Iommu } from "./iommu.ts";
import type { Host } from "../host.ts";
import { HostRig } from "../testing/host_testing.ts";

const MISS_PS = 250_000;

describe("Iommu", () => {
  it("a miss costs a walk; what was used least recently makes room", () => {
    const iommu = new Iommu({ iotlb: 2, missPs: MISS_PS, scmPageBytes: 1 << 18 });
    iommu.map([0, 4096, 8192, SCM_BASE]);
    equal(iommu.translate(100, 64), MISS_PS);
    equal(iommu.translate(4000, 200), MISS_PS, "of two pages one is cached");
    equal(iommu.translate(0, 8), 0);
    equal(iommu.translate(8192, 8), MISS_PS);
    equal(iommu.translate(4096, 8), MISS_PS, "it had to make room, page 0 had been used since");
    equal(iommu.translate(SCM_BASE + 200_000, 8), MISS_PS);
    equal(iommu.translate(SCM_BASE, 8), 0, "SCM is mapped in its large pages");
    same([iommu.hits, iommu.misses, iommu.faults], [3, 5, 0]);
  });

  it("a page is reached as long as somebody has it mapped", () => {
    const iommu = new Iommu({ iotlb: 8, missPs: MISS_PS, scmPageBytes: 4096 });
    iommu.map([4096]);
    iommu.map([4096]);
    iommu.unmap([4096]);
    equal(iommu.translate(4096, 8), MISS_PS);
    iommu.unmap([4096]);
    equal(iommu.translate(4096, 8), undefined, "the IOTLB has forgotten it, too");
    equal(iommu.translate(4090, 8), undefined, "a part outside is enough");
    iommu.map([4096]);
    equal(iommu.translate(4096, 8), MISS_PS, "a page that is mapped anew is walked anew");
  });

  it("a host drops and refuses DMA outside of what is mapped, and reports it", () => {
    const rig = new HostRig({ iommu: { iotlb: 4 } });
    const write = (address: number) =>
      rig.arrive(rig.now, {
        kind: "memory-write",
        address,
        data: new Uint8Array(64).fill(7),
        noSnoop: false,
      });
    (rig.node as Host).iommu!.map([SCM_BASE]);
    write(SCM_BASE);
    write(0x3000);
    rig.arrive(rig.now, {
      kind: "memory-read",
      tag: 1,
      address: 0x3000,
      length: 64,
      noSnoop: false,
    });
    rig.run();
    same(rig.survivors.subarray(0, 2), Uint8Array.of(7, 7));
    same((rig.node as Host).memory.peek(0x3000, 2), Uint8Array.of(0, 0));
    same(rig.reported("iommu-fault"), [
      { kind: "memory-write", address: 0x3000, length: 64 },
      { kind: "memory-read", address: 0x3000, length: 64 },
    ]);
    const answers = rig.sent.flatMap(({ message }) =>
      message.kind === "completion" ? [message.status] : []
    );
    same(answers, ["unsupported-request"]);
    equal(rig.node.statistics().iommuFaults, 2);
  });

  it("a miss delays the write, and what is behind it on the bus", () => {
    const times = [undefined, { iotlb: 4 }].map((iommu) => {
      const rig = new HostRig({ ...(iommu && { iommu }) });
      (rig.node as Host).iommu?.map([SCM_BASE]);
      for (let i = 0; i < 2; i++) {
        const data = new Uint8Array(64).fill(1);
        rig.arrive(2_000_000, {
          kind: "memory-write",
          address: SCM_BASE + 64 * i,
          data,
          noSnoop: false,
        });
      }
      rig.run();
      return rig.now;
    });
    equal(times[1]! - times[0]!, MISS_PS, "once: the page is in the IOTLB then");
  });
});
