/**
 * The lock in memory that two computers share (`coherent_lock_pair.yaml`), with the power of each cut at every instant:
 * the survivor is told what is lost or gives up after a bounded time, and reads nothing old (C-10).
 */
import { deepEqual as same, equal, match, ok } from "node:assert/strict";
import { afterEach, describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type Verdict } from "../../console/explore/types.ts";
import { HOME_TABLE, type HomeRow } from "../../fabric/coherence/home_card_table.ts";
import { LOST } from "../../fabric/wire/roce/coherence_messages.ts";
import program, { check } from "../../scripts/scenarios/coherent_lock.ts";
import { rackOf } from "./explored_rack.ts";

const FILE = new URL("../../scripts/scenarios/coherent_lock_pair.yaml", import.meta.url);

async function explored(): Promise<Verdict> {
  const rack = rackOf(await Deno.readTextFile(FILE), { "./coherent_lock.ts": { program, check } });
  return await explore(rack, EXPLORE_DEFAULTS);
}

const rows = HOME_TABLE["idle owned"] as Record<string, HomeRow>;
const put = rows.Put!;

describe("coherent_lock_pair.yaml", () => {
  afterEach(() => void (rows.Put = put));

  it("C-10, C-12: is safe at every instant at which either computer's power may fail", async () => {
    const { verdict, exhaustive, hosts, instants, continuations, why } = await explored();
    equal(verdict, "safe", why);
    ok(exhaustive);
    same(hosts, ["far-remote", "home-remote"]);
    ok(instants > 300 && continuations > 100, `${instants} instants, ${continuations} runs`);
  });

  it("C-10: a line that a dead computer had alone, and that keeps its old content, is found", async () => {
    rows.Put = (line, { data, ...message }) =>
      put(line, data === LOST ? message : { ...message, data });
    const { verdict, counterexample } = await explored();
    equal(verdict, "unsafe");
    match(counterexample!.found, /^line \d of remote: .* where it may have lost$/);
  });
});
