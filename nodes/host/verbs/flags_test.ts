import { deepEqual as same, equal, match } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { FLUSH_PLACEMENT } from "../../../fabric/wire/roce/feth.ts";
import { GRH_BYTES } from "../../../fabric/wire/roce/grh.ts";
import { ACCESS, refuseAccess } from "../../../fabric/wire/host_bus/rnic_command.ts";
import * as flags from "./flags.ts";

/** `remoteWrite` as in IBV_ACCESS_REMOTE_WRITE. */
function spelt(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

describe("flags of the verbs", () => {
  it("are those of the card, all of them", () => {
    const constants = Object.entries(flags).filter(([name]) => /^[A-Z]+_ACCESS_/.test(name));
    const named = constants.map(([name, bit]) => [name.replace(/^[A-Z]+_ACCESS_/, ""), bit]);
    const card = Object.entries(ACCESS).map(([name, bit]) => [spelt(name), bit]);
    same(new Map(named as [string, number][]), new Map(card as [string, number][]));
    equal(flags.GRH_BYTES, GRH_BYTES);
    equal(flags.IBV_FLUSH_GLOBAL, FLUSH_PLACEMENT.globalVisibility);
    equal(flags.IBV_FLUSH_PERSISTENT, FLUSH_PLACEMENT.persistence);
  });

  it("of one kind are no flags of another, which the compiler says of single ones", () => {
    // @ts-expect-error -- a send flag is no access flag
    const access: flags.AccessFlags = flags.IBV_SEND_INLINE;
    // @ts-expect-error -- nor is a name
    const named: flags.AccessFlags = "IBV_ACCESS_REMOTE_WRITE";
    equal(access, flags.IBV_ACCESS_REMOTE_ATOMIC, "the same bit, as in libibverbs");
    equal(typeof named, "string");
  });

  it("of access: a bit that is none is refused with the bit, and so is what is no number", () => {
    equal(refuseAccess(flags.IBV_ACCESS_LOCAL_WRITE | flags.IBV_ACCESS_REMOTE_READ), undefined);
    match(refuseAccess(0x85)!, /are 0x85, of which 0x80 is no access flag: expected IBV_/);
    match(refuseAccess(["localWrite"] as unknown as number)!, /32 bits: found localWrite/);
    match(refuseAccess(-1)!, /32 bits: found -1/);
  });
});
