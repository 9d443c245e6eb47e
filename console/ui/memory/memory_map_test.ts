import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { MemoryLine, MemoryPart, MemorySpan, MemoryView, WriteRef } from "../../api/replay.ts";
import {
  BROKEN,
  codeOf,
  countsOf,
  gridOf,
  leftOf,
  lineAt,
  LOOKS,
  mapOf,
  paint,
  PARTLY,
  PROMISED,
  stateOf,
  stateOfPart,
  STATES,
} from "./memory_map.ts";

const WRITE: WriteRef = {
  by: "put#1",
  id: 3,
  node: "a",
  issuedAt: 1,
  standing: "promised",
  standingAt: 9,
};

function span(change: Partial<MemorySpan>): MemorySpan {
  return { from: 0, to: 64, place: "medium", survives: true, since: 0, ...change };
}

function view(lines: readonly MemoryLine[]): MemoryView {
  return {
    at: 5,
    host: "b",
    from: 0,
    to: 256,
    hasPower: true,
    domain: "adr",
    lines,
    moreLines: 0,
    writes: [WRITE],
    touched: [[0, 256]],
  };
}

function code(spans: readonly MemorySpan[], torn = false) {
  const line = { at: 0, spans, torn };
  return codeOf(line, view([line]));
}

describe("stateOfPart", () => {
  const NONE = {
    "in-flight": 0,
    "card": 0,
    "bus": 0,
    "iio": 0,
    "llc": 0,
    "write-queue": 0,
    "medium": 0,
  };
  const part = (change: Partial<MemoryPart>): MemoryPart => {
    return { from: 0, to: 4_096, lines: 3, byPlace: NONE, lost: 0, gone: 0, torn: 0, ...change };
  };

  it("is that of its worst line", () => {
    assert.equal(stateOfPart(undefined), "never written");
    assert.equal(stateOfPart(part({ byPlace: { ...NONE, medium: 3 } })), "medium");
    const cached = { ...NONE, medium: 2, llc: 1 };
    assert.equal(stateOfPart(part({ byPlace: cached, lost: 1 })), "llc");
    assert.equal(stateOfPart(part({ byPlace: cached })), "llc-safe");
    assert.equal(stateOfPart(part({ byPlace: cached, lost: 1, torn: 1 })), "torn");
    assert.equal(stateOfPart(part({ byPlace: { ...NONE, medium: 3 }, gone: 1 })), "lost");
  });
});

describe("codeOf", () => {
  it("is the place of the byte that a power failure takes first", () => {
    const spans = [span({ to: 8 }), span({ from: 8, to: 16, place: "llc", survives: false })];
    assert.equal(stateOf(code(spans)), "llc");
    assert.equal(
      stateOf(code([...spans, span({ from: 16, place: "bus", survives: false })])),
      "bus",
    );
  });

  it("tells a cache that survives from one that does not", () => {
    const tone = (survives: boolean) =>
      LOOKS[stateOf(code([span({ place: "llc", survives })]))].tone;
    assert.equal(tone(true), "durable");
    assert.equal(tone(false), "volatile");
  });

  it("says what is promised of all of the line, of a part, and what would break it", () => {
    assert.equal(code([span({ write: 0 })]) & (PROMISED | PARTLY | BROKEN), PROMISED);
    const part = [span({ to: 8, write: 0 }), span({ from: 8 })];
    assert.equal(code(part) & (PROMISED | PARTLY | BROKEN), PROMISED | PARTLY);
    const lost = [span({ write: 0, place: "llc", survives: false })];
    assert.equal(code(lost) & BROKEN, BROKEN);
  });

  it("is lost where a power failure took something, and breaks what was promised of it", () => {
    const lost = { at: 9, place: "llc" } as const;
    const taken = code([span({ to: 8 }), span({ from: 8, write: 0, lost })]);
    assert.equal(stateOf(taken), "lost");
    assert.equal(taken & BROKEN, BROKEN);
    assert.equal(code([span({ lost })]) & BROKEN, 0, "nothing was promised of it");
  });

  it("is torn before anything else", () => {
    assert.equal(stateOf(code([span({ place: "llc", survives: false })], true)), "torn");
  });

  it("has a letter or a word beside the colour for each state", () => {
    const told = STATES.map((state) => `${LOOKS[state].tone} ${LOOKS[state].letter}`);
    assert.equal(new Set(told).size, STATES.length);
  });
});

describe("leftOf", () => {
  it("leaves what is durable, loses the rest, and keeps what was promised of it", () => {
    const left = (state: typeof STATES[number]) => stateOf(leftOf(STATES.indexOf(state)));
    assert.deepEqual(STATES.map(left), [
      "never written",
      ..."medium medium medium medium lost lost lost lost lost".split(" "),
      "torn",
      "lost",
    ]);
    assert.equal(leftOf(STATES.indexOf("llc") | PROMISED) & PROMISED, PROMISED);
  });
});

describe("mapOf", () => {
  it("puts each line in its place; those that nobody wrote are empty", () => {
    const { codes } = mapOf(view([{ at: 128, spans: [span({})], torn: false }]));
    assert.deepEqual([...codes].map(stateOf), [
      "never written",
      "never written",
      "medium",
      "never written",
    ]);
    assert.equal(countsOf({ from: 0, codes }).get("medium"), 1);
  });
});

describe("gridOf", () => {
  it("has as many columns as fit in round addresses, and finds the line at a point again", () => {
    const grid = gridOf(1000, 700, 20);
    assert.deepEqual(grid, { cellPx: 20, columns: 32, rows: 32 });
    assert.equal(gridOf(1000, 902, 16).columns, 48);
    assert.equal(gridOf(1000, 50, 20).columns, 2);
    assert.equal(lineAt(grid, 1000, { x: 25, y: 45 }), 65);
    assert.equal(lineAt(grid, 1000, { x: 650, y: 0 }), undefined);
    assert.equal(lineAt(grid, 1000, { x: 300, y: 630 }), undefined);
  });
});

describe("paint", () => {
  const palette = { durable: 1, volatile: 2, flight: 3, lost: 4, empty: 5, promised: 6, ground: 7 };

  it("paints a pixel for each of a million lines", () => {
    const codes = new Uint8Array(1 << 20).fill(STATES.indexOf("llc"));
    codes[5000] = STATES.indexOf("torn");
    const grid = gridOf(codes.length, 1024, 1);
    const pixels = new Uint32Array(grid.rows * 1024);
    paint({ from: 0, codes }, grid, {
      pixels,
      widthPx: 1024,
      fromRow: 0,
      toRow: grid.rows,
      palette,
    });
    assert.equal(pixels[5000], palette.lost);
    assert.equal(pixels[4999], palette.volatile);
  });

  it("has a bar below a line of which something is promised, in red where it would be broken", () => {
    const states = STATES.indexOf("llc");
    const codes = Uint8Array.of(states | PROMISED, states | PROMISED | BROKEN, states);
    const pixels = new Uint32Array(48 * 16);
    paint({ from: 0, codes }, { cellPx: 16, columns: 3, rows: 1 }, {
      pixels,
      widthPx: 48,
      fromRow: 0,
      toRow: 1,
      palette,
    });
    const at = (x: number, y: number) => pixels[y * 48 + x];
    assert.deepEqual([0, 16, 32].map((x) => at(x, 0)), [2, 2, 2]);
    assert.deepEqual([0, 16, 32].map((x) => at(x, 13)), [6, 4, 2]);
    assert.deepEqual([0, 16, 32].map((x) => at(x, 15)), [7, 7, 7]);
  });
});
