/** Several commands on one rack at once, racks of one name, and racks that come and go. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig } from "../support/command.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
/** Events without end: no order for time finds the rack at rest by itself. */
const BUSY = `
name: busy
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: sink }
  - { on: a, run: bulk, to: b, time: 2s }
`;
/** Until orders have reached a paused rack; a later one only makes the test weaker. */
const HANDED_MS = 2_000;
/** `RACKMESH_CYCLES`: the 50 of the soak. */
const CYCLES = Number(Deno.env.get("RACKMESH_CYCLES") ?? 2);

let rig: CommandRig;

beforeEach(async () => {
  rig = await CommandRig.open();
});

afterEach(() => rig.closeDown());

const rack = (...args: string[]) => rig.must(args);

describe("Two commands that pause, step and resume one rack at once", () => {
  it("each end soon: with the time that was reached, or as another's order was behind theirs", async () => {
    await rack("up", await rig.file("busy.yaml", BUSY), "--pack", "machine");
    const orders = [["pause"], ["step"], ["step", "--time", "5us"], ["until", "1s"], ["resume"]];
    const ordered = async (order: readonly string[]) => {
      const { code, stderr } = await rig.run(order);
      if (code === 0) return;
      assert.equal(code, 1, `rack ${order.join(" ")}: ${stderr}`);
      assert.match(stderr, /Found \w+ of another command behind this \w+, expected none/);
    };
    const shell = async (first: number) => {
      for (let i = 0; i < orders.length; i++) {
        const order = orders[(first + i) % orders.length]!;
        // Goes on for minutes, unless another order comes.
        if (order[0] !== "until") await ordered(order);
      }
    };
    await Promise.all([shell(0), shell(2)]);
    const until = rig.run(["until", "1s"]);
    let isOver = false;
    until.finally(() => isOver = true);
    // The first may come before the other's order, or have it behind itself.
    while (!isOver) await ordered(["pause"]);
    const { code, stderr } = await until;
    assert.equal(code, 1, stderr);
    assert.match(await rack("why"), /paused/);
  });
});

/** The second host has an object of the first one's name, and one whose name is written alike. */
const THREE = `
name: three
hosts: { a: {}, b: {}, c: {} }
`;

describe("Two commands that get objects of one name at once", () => {
  it("each have the bytes of their own, and leave no copy in the run's directory", async () => {
    const path = (name: string) => `${rig.cache}/${name}`;
    const up = await rack("up", await rig.file("three.yaml", THREE), "--pack", "machine", "--json");
    const objects = [["b", "x y"], ["c", "x y"], ["c", "x_y"]] as const;
    for (const [i, [host, name]] of objects.entries()) {
      await rack("put", await rig.file(`in${i}`, `${i}`.repeat(5_000)), "--to", host, "--as", name);
    }
    await rack("pause");
    const gets = Promise.all(
      objects.map(([host, name], i) =>
        rack("get", name, path(`out${i}`), "--from", host, "--on", "a")
      ),
    );
    // On a paused rack orders gather, and then begin together.
    await sleep(HANDED_MS);
    await rack("resume");
    await gets;
    for (const i of objects.keys()) {
      assert.equal(await Deno.readTextFile(path(`out${i}`)), `${i}`.repeat(5_000));
    }
    assert.deepEqual([...Deno.readDirSync(`${JSON.parse(up).directory}/outputs`)], []);
  });
});

describe("Racks of one name", () => {
  it("come up together, and a command says which it wants to have named", async () => {
    const up = ["up", PAIR, "--ddio", "off", "--pack", "machine", "--json"];
    const ups = await Promise.all([1, 2].map(() => rack(...up)));
    const [one, two] = ups.map((stdout) => JSON.parse(stdout).run as string);
    assert.notEqual(one, two);
    const { code, stderr } = await rig.run(["ps"]);
    assert.equal(code, 64);
    assert.ok(stderr.includes(one!) && stderr.includes(two!), stderr);
    await rack("down", "--run", one!);
    await rack("ps");
  });
});

describe("A rack that comes up and goes down again and again", () => {
  it(`${CYCLES} times: leaves no process`, async () => {
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      await rack("up", PAIR, "--ddio", "off");
      await rack("down");
      await rig.gone();
    }
    assert.equal(rig.runs().length, CYCLES);
  });
});
