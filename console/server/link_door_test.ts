import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { askForLink, type LinkDoor, openLinkDoor } from "./link_door.ts";

describe("link door", () => {
  const before = Deno.env.get("RACKMESH_CACHE");
  let cache: string, door: LinkDoor;

  beforeEach(async () => {
    cache = await Deno.makeTempDir({ prefix: "rackmesh-door-" });
    Deno.env.set("RACKMESH_CACHE", cache);
  });

  afterEach(async () => {
    if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
    else Deno.env.set("RACKMESH_CACHE", before);
    await Deno.remove(cache, { recursive: true });
  });

  async function open(askedMs?: number): Promise<Deno.UnixConn> {
    door = await openLinkDoor({
      origin: "http://localhost:1",
      link: (role: string) => Promise.resolve(`http://localhost:1/#${role}`),
      ...(askedMs !== undefined && { askedMs }),
    });
    return await connect();
  }

  async function connect(): Promise<Deno.UnixConn> {
    const { socket } = JSON.parse(await Deno.readTextFile(`${cache}/consoles/${Deno.pid}.json`));
    return await Deno.connect({ transport: "unix", path: socket });
  }

  it("answers others while one that has connected asks nothing", async () => {
    using silent = await open(3_600_000);
    assert.match((await askForLink("viewer")).url, /#viewer$/);
    await door.close();
    assert.equal(await silent.read(new Uint8Array(1)), null);
  });

  it("sends one away that asks nothing, and outlives it", async () => {
    using silent = await open(1);
    assert.equal(await silent.read(new Uint8Array(1)), null);
    using another = await connect();
    assert.equal(await another.read(new Uint8Array(1)), null);
    await door.close();
  });
});
