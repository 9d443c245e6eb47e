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

/**
 * Types that a door names and does not export: what only the emulator makes and looks into, and tables from which
 * types are derived.
 */
const INTERNAL: ReadonlySet<string> = new Set([
  // Behind objects that a program hands on as they are.
  ...["CmAgent", "CmDevice", "CmChannel", "CmEvent", "HostDevices", "Outside"],
  ...["RnicCommand", "RnicReply", "Ended", "Probe", "Rounds", "RocePacket", "Options"],
  // Of shipped programs: what they note.
  ...[
    "WriteRecord",
    "QueueRecord",
    "ConnectsRecord",
    "RefusedRecord",
    "LogRecord",
    "ObjectRecord",
    "FreedRecord",
    "SharedRecord",
  ],
  // Tables, and types that are made of them.
  ...["verbs", "Done", "Flags", "EVENTS", "EventType", "ValueOf", "HeaderOf", "OBJECT_TYPES"],
  "ACCESS_MODULES",
  ...["CHOICES", "EXPLORE_OPTIONS", "VERDICTS", "TestValues"],
  ...["HINT_OPERANDS_FIELDS", "HINT_PART_FIELDS"],
  ...["Table", "BUS_MESSAGES", "CoherenceCommand", "ControlMessage"],
  ...["FAR_EVENTS", "HOME_EVENTS", "HOST_EVENTS", "DEMANDS", "LOST"],
  // Messages of coherent cards, of which a row sees `HomeInput`.
  ...["WireMessage", "BusMessage"],
]);

describe("the doors rackmesh and rackmesh/testing", () => {
  it("export the types that they name, but for the emulator's own, and say what each field is", async () => {
    const doors = ["nodes/protocol.ts", "console/testing.ts"].map((path) =>
      fromFileUrl(projectFile(path))
    );
    const { stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["doc", "--lint", ...doors],
      env: { NO_COLOR: "1" },
    }).output();
    const said = new TextDecoder().decode(stderr);
    // What the reference leaves out has the tag @ignore.
    const silent = [...said.matchAll(/error\[missing-jsdoc\].*\n +--> (\S+)/g)];
    assert.deepEqual(silent.map(([, place]) => place), []);
    const named = [...said.matchAll(/public type '(.*)' references private type '(\w+)'/g)];
    assert.ok(named.length > 10, said);
    const missing = named.filter(([, , type]) => !INTERNAL.has(type!));
    assert.deepEqual(missing.map(([text]) => text), []);
    const unused = [...INTERNAL].filter((name) => !named.some(([, , type]) => type === name));
    assert.deepEqual(unused, []);
  });
});

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
