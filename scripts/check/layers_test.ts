import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { checkImport, circlesOf, strayNames, TOP_LEVEL } from "./layers.ts";

function fileImport(file: string, target: string): string | null {
  const breach = checkImport({ file, line: 1, specifier: "./x.ts", target });
  return breach && breach.found;
}

function packageImport(file: string, specifier: string): string | null {
  const breach = checkImport({ file, line: 1, specifier, target: null });
  return breach && breach.found;
}

/** A production file of every layer. */
const LAYERS = [
  "fabric/node.ts",
  "nodes/host/memory/llc.ts",
  "nodes/rnic/requester/requester.ts",
  "nodes/switch/forwarding.ts",
  "nodes/make_node.ts",
  "console/server/app.ts",
  "tests/crash/points.ts",
  "scripts/rack.ts",
] as const;

/** For each of {@link LAYERS}, which of them it may import. */
const MAY: Readonly<Record<(typeof LAYERS)[number], readonly string[]>> = {
  "fabric/node.ts": ["fabric"],
  "nodes/host/memory/llc.ts": ["fabric", "nodes/host"],
  "nodes/rnic/requester/requester.ts": ["fabric", "nodes/rnic"],
  "nodes/switch/forwarding.ts": ["fabric", "nodes/switch"],
  "nodes/make_node.ts": ["fabric", "nodes"],
  "console/server/app.ts": ["fabric", "nodes", "console"],
  "tests/crash/points.ts": ["fabric", "nodes", "console", "tests", "scripts"],
  "scripts/rack.ts": ["fabric", "nodes", "console", "scripts"],
};

describe("checkImport between files", () => {
  it("answers for every pair of layers as the table says", () => {
    for (const file of LAYERS) {
      for (const target of LAYERS) {
        const may = MAY[file].some((folder) => target.startsWith(folder + "/"));
        assert.equal(fileImport(file, target) === null, may, `${file} → ${target}`);
      }
    }
  });

  it("counts a folder by its whole name", () => {
    assert.notEqual(fileImport("nodes/host/memory/llc.ts", "nodes/host_tools/x.ts"), null);
    assert.notEqual(fileImport("fabric/node.ts", "fabric_extra/x.ts"), null);
  });

  it("keeps tests and entry points out of production code", () => {
    assert.notEqual(fileImport("fabric/bus/bus.ts", "fabric/bus/bus_contract.ts"), null);
    assert.equal(fileImport("fabric/bus/memory_bus_test.ts", "fabric/bus/bus_contract.ts"), null);
    assert.notEqual(fileImport("nodes/host/memory/llc.ts", "nodes/host/main.ts"), null);
    assert.equal(fileImport("nodes/main.ts", "nodes/host/main.ts"), null);
    assert.notEqual(fileImport("console/server/app.ts", "tests/support/rack.ts"), null);
  });

  it("lets protocol state be written in its own folder alone, by tests too", () => {
    const writable = "nodes/rnic/state/writable.ts";
    assert.equal(fileImport("nodes/rnic/state/responder_changes.ts", writable), null);
    assert.notEqual(fileImport("nodes/rnic/responder/responder.ts", writable), null);
    assert.notEqual(fileImport("nodes/rnic/responder/responder_test.ts", writable), null);
  });

  it("refuses files outside the repository", () => {
    assert.notEqual(
      checkImport({ file: "scripts/a.ts", line: 1, specifier: "../../b.ts", target: null }),
      null,
    );
  });

  it("says file, line, what was found and what is allowed", () => {
    const found = {
      file: "fabric/node.ts",
      line: 7,
      specifier: "../../nodes/host/memory/llc.ts",
      target: "nodes/host/memory/llc.ts",
    };
    assert.deepEqual(checkImport(found), {
      file: "fabric/node.ts",
      line: 7,
      found: "imports nodes/host/memory/llc.ts",
      allowed: "only fabric/",
    });
  });
});

describe("checkImport of packages", () => {
  it("gives each folder of production code its own packages and no other", () => {
    const table: readonly (readonly [string, readonly string[]])[] = [
      ["fabric/bus/nats_bus.ts", ["cbor-x", "@nats-io/nats-core", "zod"]],
      ["fabric/rack/scenario/scenario.ts", ["js-yaml", "zod"]],
      ["fabric/clock/clock.ts", []],
      ["nodes/host/memory/llc.ts", []],
      ["nodes/main.ts", []],
    ];
    const packages = ["cbor-x", "@nats-io/nats-core", "js-yaml", "zod", "hono", "fast-check"];
    for (const [file, allowed] of table) {
      for (const name of [...packages, "node:fs", "@std/testing/bdd"]) {
        assert.equal(packageImport(file, name) === null, allowed.includes(name), `${file} ${name}`);
      }
    }
  });

  it("counts a part of a package as the package, a longer name not", () => {
    assert.equal(packageImport("fabric/bus/codec.ts", "cbor-x/index-no-eval"), null);
    assert.notEqual(packageImport("fabric/bus/codec.ts", "cbor-xtra"), null);
  });

  it("gives tests beside the source the test packages on top", () => {
    for (const name of ["fast-check", "node:assert/strict", "@std/testing/bdd"]) {
      assert.equal(packageImport("nodes/rnic/responder_test.ts", name), null, name);
      assert.equal(packageImport("fabric/bus/bus_contract.ts", name), null, name);
      assert.notEqual(packageImport("nodes/rnic/responder/responder.ts", name), null, name);
    }
    assert.notEqual(packageImport("nodes/rnic/responder_test.ts", "node:fs"), null);
  });

  it("takes a mapped name for the package it stands for, wherever it leads", () => {
    const file = "fabric/node_test.ts";
    const target = "tests/support/bdd.ts";
    assert.equal(checkImport({ file, line: 1, specifier: "@std/testing/bdd", target }), null);
    assert.notEqual(
      checkImport({ file, line: 1, specifier: "../../tests/support/bdd.ts", target }),
      null,
    );
  });

  it("keeps what runs in the browser away from what runs on the machine", () => {
    const page = "console/ui/rack/rack_view.tsx";
    assert.equal(fileImport(page, "console/api/rack.ts"), null);
    assert.equal(fileImport(page, "fabric/base/time.ts"), null);
    assert.notEqual(fileImport(page, "console/rack/live/power.ts"), null);
    assert.notEqual(fileImport(page, "console/base/paths.ts"), null);
    assert.equal(fileImport("console/ui/bundle.ts", "console/base/paths.ts"), null);
  });

  it("leaves console, tests and scripts what deno.json names, and no file an address", () => {
    for (const file of ["console/server/app.ts", "tests/rack_test.ts", "scripts/rack.ts"]) {
      assert.equal(packageImport(file, "hono"), null, file);
      assert.equal(packageImport(file, "node:fs/promises"), null, file);
      for (const address of ["npm:hono@4", "jsr:@std/assert", "https://a.example/b.ts"]) {
        assert.notEqual(packageImport(file, address), null, `${file} ${address}`);
      }
    }
  });
});

describe("circlesOf", () => {
  const graph = (edges: readonly (readonly [file: string, target: string])[]) =>
    edges.map(([file, target], i) => ({ file, line: i + 1, specifier: "./x.ts", target }));

  it("finds each circle once, however long, and leaves out what only leads into one", () => {
    const circles = circlesOf(graph([
      ["a.ts", "b.ts"],
      ["b.ts", "c.ts"],
      ["c.ts", "a.ts"],
      ["d.ts", "a.ts"],
      ["c.ts", "e.ts"],
      ["e.ts", "f.ts"],
      ["f.ts", "e.ts"],
    ]));
    assert.deepEqual(circles, [["a.ts", "b.ts", "c.ts"], ["e.ts", "f.ts"]]);
  });

  it("is empty for a graph without one, diamonds included", () => {
    const edges = [["a.ts", "b.ts"], ["a.ts", "c.ts"], ["b.ts", "d.ts"], ["c.ts", "d.ts"]] as const;
    assert.deepEqual(circlesOf(graph(edges)), []);
  });

  it("looks at production files only", () => {
    assert.deepEqual(circlesOf(graph([["a.ts", "a_test.ts"], ["a_test.ts", "a.ts"]])), []);
  });
});

describe("strayNames", () => {
  it("lets the given names and dot files pass and names every other", () => {
    assert.deepEqual(strayNames([...TOP_LEVEL, ".git", ".ci", ".gitignore"]), []);
    assert.deepEqual(strayNames(["docs", "fabric", "Makefile"]), ["Makefile", "docs"]);
  });
});
