/** The door for own protocols, `rackmesh`: what is there has words for an editor to show. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import * as flags from "../../nodes/host/verbs/flags.ts";
import * as door from "rackmesh";

interface Documented {
  readonly nodes: Readonly<
    Record<string, {
      readonly symbols: readonly {
        readonly name: string;
        readonly declarations: readonly { readonly jsDoc?: { readonly doc?: string } }[];
      }[];
    }>
  >;
}

async function documented(): Promise<Documented> {
  const { stdout, success } = await new Deno.Command(Deno.execPath(), {
    args: ["doc", "--json", fromFileUrl(projectFile("nodes/protocol.ts"))],
  }).output();
  assert.ok(success);
  return JSON.parse(new TextDecoder().decode(stdout));
}

describe("rackmesh, nodes/protocol.ts", () => {
  it("has a docstring of everything", async () => {
    const symbols = Object.values((await documented()).nodes).flatMap((each) => each.symbols);
    assert.ok(symbols.length > 100, `${symbols.length} names`);
    const silent = symbols.filter(({ declarations }) =>
      declarations.some(({ jsDoc }) => (jsDoc?.doc ?? "") === "")
    );
    assert.deepEqual(silent.map(({ name }) => name), []);
  });

  it("has all flags of the verbs", () => {
    const there = new Map(Object.entries<unknown>({ ...door }));
    for (const [name, bit] of Object.entries(flags)) assert.equal(there.get(name), bit, name);
  });
});
