import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Cpu } from "../cpu/program.ts";
import { choosePlace } from "./choose_place.ts";

const REGION = {
  ...{ id: 4, name: "s", placement: "remote" },
  home: { host: "a", address: 1 },
  far: [{ host: "b", address: 2, agent: 1 }],
} as unknown as SharedRegion;

/** What a program of a host is told of a move, and what it has done. */
function moved(
  of: { readonly host?: string; readonly placement?: string; readonly place?: unknown },
  reply: RnicReply = { status: "ok", op: "done" },
): string[] {
  const { host = "a", placement = "remote", place = "local" } = of;
  const did: string[] = [];
  const cpu = {
    host,
    // deno-lint-ignore require-yield
    *command(command: { op: string; region: number; place: string }) {
      did.push(`${command.op} ${command.region} ${command.place}`);
      return reply;
    },
    report: (_: string, { region, place }: { region: string; place: string }) =>
      void did.push(`reports ${region} ${place}`),
  } as unknown as Cpu;
  try {
    const region = { ...REGION, placement } as SharedRegion;
    assert.equal(choosePlace(region, place as "local", cpu).next().done, true);
  } catch (error) {
    did.push((error as Error).message);
  }
  return did;
}

describe("choosePlace", () => {
  it("C-04: tells home's card, and reports what it has done", () => {
    for (const place of ["local", "remote"] as const) {
      assert.deepEqual(moved({ place }), [`move-region 4 ${place}`, `reports s ${place}`]);
    }
    assert.deepEqual(moved({ placement: "local" }).length, 2);
  });

  it("C-04: is refused to a far host, beside home's judge, for what is no place, and where the card does; nothing is reported then", () => {
    const cannot = "Cannot move the copies of region s: ";
    assert.deepEqual(moved({ host: "b" }), [
      `${cannot}b is a far host, expected a program on a, the region's home`,
    ]);
    assert.deepEqual(moved({ placement: "auto" }), [
      `${cannot}home's judge moves them (placement: auto), expected placement: local or remote in the scenario`,
    ]);
    assert.deepEqual(moved({ place: "near" }), [
      `${cannot}found the place "near", expected "local" or "remote"`,
    ]);
    const reply = { status: "error", errno: "EINVAL", reason: "because" } as const;
    assert.deepEqual(moved({}, reply), ["move-region 4 local", `${cannot}because`]);
  });
});
