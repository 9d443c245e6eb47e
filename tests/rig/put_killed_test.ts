/** P-41: `rack put` over an object, the command killed at one instant after the other, on one rack that is up. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { linkedTo, type RackLink, type RackUp } from "../../console/rack/live/racks.ts";
import { getObject } from "../../console/rack/live/transfer.ts";
import { CommandRig, type Ended } from "../support/command.ts";

/** Two processes. The host's caches do not survive: bytes that are only there would be lost. */
const PAIR = `
name: pair
hosts: { a: {}, b: { ddio: on, scm: { size: 4MiB } } }
programs: []
`;
const INSTANTS = 8, LENGTHS = [24_000, 24_000, 9_000, 40_000];
/** Kills before a command has even begun, and when. */
const EARLY = 2, EARLY_MS = 40;
const METHODS = ["write-flush", "persist-opcode", "send-flush"];
/** Virtual time per wall second: a put takes a few tenths of a second. */
const PACE_PS = PS_PER_MS;

function contentOf(salt: number): Uint8Array<ArrayBuffer> {
  const length = LENGTHS[salt % LENGTHS.length]!;
  return Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8) + salt * 17) % 251 + 1);
}

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(async () => {
  await rig.run(["down", "--all"]);
  await rig.gone();
  await rig.close();
});

async function rack(...args: string[]): Promise<Ended> {
  const ended = await rig.run(args);
  assert.equal(ended.code, 0, `rack ${args.join(" ")}: ${ended.stderr}`);
  return ended;
}

function rackIn(directory: string): RackUp {
  const read = (name: string) => JSON.parse(Deno.readTextFileSync(`${directory}/${name}.json`));
  const id = directory.split("/").at(-1)!;
  return { id, directory, file: read("run"), supervisor: read("supervisor") };
}

/** The object's bytes, and what they are the content of. */
async function found(link: RackLink): Promise<number> {
  const file = `${rig.cache}/copy.bin`;
  await getObject(link, { from: "b", object: "x", file, partial: false, timeoutSeconds: 60 });
  const bytes = await Deno.readFile(file);
  const salts = Array.from({ length: INSTANTS + 2 }, (_, salt) => salt);
  const is = salts.find((salt) => {
    const content = contentOf(salt);
    return content.length === bytes.length && content.every((byte, i) => byte === bytes[i]);
  });
  assert.notEqual(is, undefined, `x is a mixture of ${bytes.length} B`);
  return is!;
}

describe("rack put over an object, killed at any instant", () => {
  it("P-41: leaves the whole old object or the whole new one, and a confirmed one is never lost", async () => {
    await rack("up", await rig.file("pair.yaml", PAIR), "--pack", "machine");
    const put = async (salt: number) => {
      const file = await rig.file(`x${salt}`, contentOf(salt));
      return ["put", file, "--to", "b", "--as", "x", "--method", METHODS[salt % METHODS.length]!];
    };
    const [directory] = rig.runs();
    await linkedTo(rackIn(directory!), async (link) => {
      await link.control.demand("pace", { psPerSecond: PACE_PS });
      const before = (await link.control.status()).now;
      await rack(...await put(0));
      // A rack without an order stands still.
      const lengthPs = (await link.control.status()).now - before;
      let last = await found(link), killed = 0, stayed = 0, replaced = 0;
      assert.equal(last, 0);
      for (let i = 0; i < INSTANTS; i++) {
        const salt = i + 1;
        const { now } = await link.control.status();
        const command = rig.start(await put(salt));
        let isOver = false;
        const ended = command.ended.finally(() => isOver = true);
        // Twice before its order is given, then at each share of the time that a put takes.
        if (i < EARLY) await sleep(EARLY_MS);
        const at = i < EARLY ? 0 : now + 1 + lengthPs * (i - EARLY) / (INSTANTS - EARLY);
        while (!isOver && (await link.control.status()).now < at) await sleep(5);
        if (!isOver) command.kill(i % 4 === 3 ? "SIGTERM" : "SIGKILL");
        const { code, signal } = await ended;
        if (signal !== null || code !== 0) killed++;
        const is = await found(link);
        // The rack goes on with an order that was given: the next look may find it done.
        assert.ok(is >= last && is <= salt, `instant ${i}: x is put ${is}, and it was put ${last}`);
        if (code === 0) assert.equal(is, salt, `instant ${i}: the confirmed put is lost`);
        if (is === last) stayed++;
        else replaced++;
        last = is;
      }
      assert.ok(killed >= INSTANTS / 2, `${killed} commands were killed before their end`);
      assert.ok(
        stayed > 0 && replaced > 0,
        `the old object ${stayed}, the new one ${replaced} times`,
      );
      await rack(...await put(INSTANTS + 1));
      assert.equal(await found(link), INSTANTS + 1);
    });
    assert.match((await rack("ls", "--from", "b")).stdout, /^x\s+24000\s+complete$/m);
    assert.match((await rack("rm", "x", "--from", "b")).stdout, /^x: removed from b$/m);
    assert.match((await rack("ls", "--from", "b")).stdout, /b has no objects/);
    const again = await rig.run(["rm", "x", "--from", "b"]);
    assert.equal(again.code, 1);
    assert.match(again.stderr, /the responder refused it: not-found; rack ls lists the objects/);
  });
});
