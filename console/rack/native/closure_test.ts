import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { librariesIn } from "./closure.ts";

describe("librariesIn", () => {
  it("reads the paths that a loader lists: the kernel's own has none", () => {
    const listed = "\tlinux-vdso.so.1 (0x00007f2f275cd000)\n" +
      "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f2f274a2000)\n" +
      "\tlibmine.so => /home/me/my program/bin/../lib/libmine.so (0x00007f2f27425000)\n" +
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f2f275cf000)\n";
    assert.deepEqual(librariesIn(listed, "program"), [
      "/lib/x86_64-linux-gnu/libm.so.6",
      "/home/me/my program/lib/libmine.so",
      "/lib64/ld-linux-x86-64.so.2",
    ]);
  });

  it("has none of a library that is linked with nothing", () => {
    assert.deepEqual(librariesIn("\tstatically linked\n", "library"), []);
  });

  it("refuses what a container could not load", () => {
    assert.throws(
      () => librariesIn("\tlibmine.so => not found\n", "/opt/program"),
      /\/opt\/program loads libmine\.so, which is not found/,
    );
    assert.throws(
      () => librariesIn("\tlibmine.so => ./libmine.so (0x00007f2f27425000)\n", "/opt/program"),
      /which is at \.\/libmine\.so: expected a library with an absolute path/,
    );
  });
});
