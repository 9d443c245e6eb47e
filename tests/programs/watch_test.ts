/** `rack run --watch`: runs again on a change of the scenario, of a program, or of what it imports. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PROTOCOL = `import { word } from "./watched_word.ts";
export default function* ({ cpu, options }) {
  yield* cpu.sleep(1_000);
  cpu.log(word, options.times);
}
`;
const SCENARIO = `name: watched
seed: 7
profile: clx-optane-cx5
hosts: { a: {} }
programs: [{ on: a, program: ./watched.ts, times: 1 }]
`;

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.closeDown());

describe("rack run --watch", () => {
  it("runs again on each change, also after a mistake, and ends on Ctrl-C", async () => {
    await rig.file("watched.ts", PROTOCOL);
    await rig.file("watched_word.ts", "export const word = 'first';\n");
    const scenario = await rig.file("watched.yaml", SCENARIO);
    const command = rig.start(["run", scenario, "--pack", "all", "--watch"], { detached: true });
    const said = async (text: string, times = 1) => {
      const isSaid = () => command.stderr.split(text).length > times;
      await eventually(text, isSaid);
    };
    await said("] first 1");
    await said("waits for a change of 3 files");
    // As editors do: a new file in the place of the old one.
    await rig.file("word.new", "export const word = 'second';\n");
    await Deno.rename(`${rig.cache}/word.new`, `${rig.cache}/watched_word.ts`);
    await said("watched_word.ts has changed: running again");
    await said("] second 1");
    await said("waits for a change", 2);
    await rig.file("watched.yaml", SCENARIO.replace("hosts", "hostes"));
    await said("watched.yaml:4: hostes");
    await said("waits for a change", 3);
    await rig.file("watched.yaml", SCENARIO.replace("times: 1", "times: 2"));
    await said("] second 2");
    await said("waits for a change", 4);
    command.interrupt();
    const { code, stdout } = await command.ended;
    assert.equal(code, 130);
    assert.equal(stdout.match(/^digest /gm)?.length, 3, stdout);
  });

  it("ends a run that has not ended when a file changes", async () => {
    const waits = PROTOCOL.replace(
      "cpu.log",
      'cpu.log("begun"); for (;;) yield* cpu.sleep(1); cpu.log',
    );
    await rig.file("watched.ts", waits);
    await rig.file("watched_word.ts", "export const word = 'third';\n");
    const scenario = await rig.file("watched.yaml", SCENARIO);
    const command = rig.start(["run", scenario, "--pack", "all", "--watch"], { detached: true });
    const isSaid = (text: string) => () => command.stderr.includes(text);
    await eventually("begun", isSaid("] begun"));
    await rig.file("watched.ts", PROTOCOL);
    await eventually("third", isSaid("] third 1"));
    command.interrupt();
    assert.equal((await command.ended).code, 130);
  });
});
