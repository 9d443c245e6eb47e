import { deepEqual as same, equal, ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { shippedScenarios } from "../../scenarios/shipped.ts";
import { bySubject, withText } from "./subjects.ts";

it("bySubject has each shipped scenario once, none of them without a subject or a sentence", async () => {
  const all = await shippedScenarios(), groups = bySubject(all);
  const names = groups.flatMap(({ scenarios }) => scenarios.map(({ name }) => name));
  same(names.toSorted(), all.map(({ name }) => name).toSorted());
  ok(!groups.some(({ title }) => title === "Others"), groups.at(-1)!.scenarios[0]?.name);
  for (const { name, about } of all) ok(about.length > 20, `${name}: ${about}`);
});

it("withText looks for every word in names and sentences", () => {
  const all = [{ name: "incast", about: "Eight hosts write to one" }, {
    name: "rack_8",
    about: "Hosts",
  }];
  equal(withText(all, "hosts EIGHT").length, 1);
  equal(withText(all, "").length, 2);
  equal(withText(all, "rack")[0]!.name, "rack_8");
});
