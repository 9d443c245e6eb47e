import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  type HintWork,
  refuseWork,
  WORK,
  WORK_PIECES,
  WORK_PLACES,
  WORK_PRESETS,
  workPs,
} from "./hint_work.ts";

const HERE = { hasIommu: true, isInPackets: false };
const refused = (work: HintWork, host: Partial<typeof HERE> = {}) =>
  refuseWork(work, { ...HERE, ...host })?.piece;

describe("the work of hints", () => {
  it("H-20, H-21: each piece has in each place a cost with its source, or the reason why it is not done there", () => {
    for (const piece of WORK_PIECES) {
      let places = 0;
      for (const place of WORK_PLACES) {
        const cost = WORK[piece][place];
        if (typeof cost === "string") {
          ok(cost.length > 20, `${piece}, ${place}`);
          equal(refused({ [piece]: place }), piece, "is refused");
          continue;
        }
        places++;
        ok(/^\[(table|derived|choice)\] ./.test(cost.source), `${piece}, ${place}: ${cost.source}`);
        ok(cost.oncePs >= 0 && cost.elementPs >= 0 && cost.crossings >= 0, `${piece}, ${place}`);
        equal(workPs({ [piece]: place }, piece, 3), cost.oncePs + 3 * cost.elementPs);
      }
      ok(places > 0, `${piece} is done nowhere`);
      equal(workPs({}, piece, 3), 0, "as without the table");
    }
  });

  it("H-09: each preset is possible, but where it takes an IOMMU that is not there", () => {
    for (const [name, work] of Object.entries(WORK_PRESETS)) {
      equal(refused(work), undefined, name);
      equal(refused(work, { hasIommu: false }), name === "iommu" ? "request" : undefined);
    }
  });

  it("H-09: pieces that do not fit each other are refused, by the one to be moved", () => {
    const cases: readonly (readonly [string, HintWork])[] = [
      ["check", { parse: "driver" }],
      ["check", { parse: "firmware", check: "hardware", decide: "firmware" }],
      ["build", { look: "os", build: "driver", send: "os" }],
      ["translate", { request: "iommu" }],
      ["request", { translate: "iommu" }],
      ["request", { request: "driver" }],
    ];
    for (const [piece, work] of cases) equal(refused(work), piece, JSON.stringify(work));
    equal(refused({ request: "driver", decide: "os" }), undefined);
    equal(refused({ iommu: "os" }, { hasIommu: false }), "iommu");
    equal(refused({ translate: "iommu", request: "iommu" }, { hasIommu: false }), "request");
    const ofChip: HintWork = { look: "hardware", build: "hardware", send: "hardware" };
    same([ofChip, WORK_PRESETS.firmware].map((work) => refused(work, { isInPackets: true })), [
      undefined,
      "look",
    ]);
  });
});
