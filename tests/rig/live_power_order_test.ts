/** Host and card of a rack that is up are killed and come back in either order, or both at once. */
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig } from "../support/command.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
/** Each start names what comes next; `b` brings a card without power with it. */
const ORDERS = [["b-rnic", "b"], ["b"], ["b-rnic", "b"], ["b"]] as const;

describe("A host and its card that get power again on a rack that is up", () => {
  let rig: CommandRig;

  beforeAll(async () => {
    rig = await CommandRig.open();
  });

  afterAll(() => rig.closeDown());

  const rack = (...args: string[]) => rig.must(args);

  it("can be reached whichever comes first", async () => {
    const file = await rig.file("data", crypto.getRandomValues(new Uint8Array(4096)));
    await rack("up", PAIR, "--ddio", "off");
    for (const [number, order] of ORDERS.entries()) {
      await rack("kill", "b-rnic");
      await rack("kill", "b");
      for (const device of order) await rack("start", device);
      await rack("put", "--to", "b", file, "--as", `object-${number}`);
    }
  });
});
