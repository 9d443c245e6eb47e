import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { DOMParser } from "linkedom";
import type { Chart } from "./chart.ts";
import { pageOf } from "./html.ts";
import { svgOf } from "./svg.ts";

const CHART: Chart = {
  title: "Median latency by depth: <pair>",
  x: { label: "depth", unit: "", numbers: [1, 4, 16] },
  y: { label: "Median latency", unit: "ps" },
  panelLabel: "",
  series: [
    {
      ...{ name: "write-read", panel: "", colour: 0, dash: 0 },
      points: [{ x: 1, y: 2e6 }, { x: 4, y: 4e6 }, { x: 16, y: 10e6 }],
    },
    {
      ...{ name: "write-flush", panel: "", colour: 1, dash: 0 },
      points: [
        { x: 1, y: 1e6, least: 0.8e6, greatest: 1.5e6, count: 3 },
        { x: 4, y: 3e6 },
        { x: 16, y: 9.8e6 },
      ],
    },
  ],
  caption: ["Scenario pair, seed 7, commit 1a2b3c4d5e6f.", "rack sweep pair.yaml"],
};

interface Found {
  readonly textContent: string;
  getAttribute(name: string): string | null;
  querySelectorAll(selector: string): Iterable<Found>;
}

function parsed(chart: Chart): Found & { readonly svg: string } {
  const svg = svgOf(chart);
  const document = new DOMParser().parseFromString(svg, "image/svg+xml");
  return Object.assign(document.documentElement as unknown as Found, { svg });
}

function all(root: Found, selector: string): Found[] {
  return [...root.querySelectorAll(selector)];
}

/** Texts by the place at which they stand: that of the text, or of what it is in. */
function labels(root: Found, axis: "x" | "y"): { readonly text: string; readonly at: number }[] {
  return all(root, `[aria-label="${axis}-axis tick label"] text`).map((each) => {
    const [x, y] = placeOf(each);
    return { text: each.textContent, at: axis === "x" ? x : y };
  });
}

function placeOf(each: Found): [x: number, y: number] {
  const moved = /translate\(([-\d.]+),([-\d.]+)\)/.exec(each.getAttribute("transform") ?? "");
  if (moved !== null) return [Number(moved[1]), Number(moved[2])];
  return [Number(each.getAttribute("cx")), Number(each.getAttribute("cy"))];
}

/** The place of a value on an axis that two of its labels define. */
function between(
  ticks: readonly { readonly text: string; readonly at: number }[],
  value: number,
  scale: (value: number) => number,
): number {
  const [first, last] = [ticks[0]!, ticks.at(-1)!];
  const [from, to] = [scale(Number(first.text)), scale(Number(last.text))];
  return first.at + (last.at - first.at) * (scale(value) - from) / (to - from);
}

function near(found: number, expected: number, what: string): void {
  assert.equal(Math.abs(found - expected) < 1.1, true, `${what}: ${found}, expected ${expected}`);
}

describe("svgOf", () => {
  it("has both axes with their units, ticks at the values, the legend, the title and the caption", () => {
    const root = parsed(CHART);
    const texts = all(root, "text").map(({ textContent }) => textContent);
    assert.equal(texts.includes("Median latency (µs)"), true, texts.join("; "));
    assert.equal(texts.includes("depth"), true);
    assert.deepEqual(labels(root, "x").map(({ text }) => text), ["1", "4", "16"]);
    const legend = all(root, '[aria-label="legend"] text').map(({ textContent }) => textContent);
    assert.deepEqual(legend, ["write-read", "write-flush"]);
    const caption = all(root, '[aria-label="caption"] text').map(({ textContent }) => textContent);
    assert.deepEqual(caption, CHART.caption);
    const title = all(root, '[aria-label="title"] text').map(({ textContent }) => textContent);
    assert.deepEqual(title, [CHART.title]);
  });

  it("places each point by the scales of its axes, and the range of several values", () => {
    const root = parsed(CHART);
    const x = labels(root, "x"), y = labels(root, "y");
    for (const { name, points } of CHART.series) {
      const drawn = all(root, `[aria-label="points: ${name}"]`);
      assert.equal(drawn.length, 3);
      for (const [i, point] of points.entries()) {
        const [cx, cy] = placeOf(drawn[i]!);
        near(cx, between(x, Number(point.x), Math.log), `${name}, x of ${point.x}`);
        near(cy, between(y, point.y / 1e6, (value) => value), `${name}, y of ${point.y}`);
      }
    }
    assert.equal(all(root, '[aria-label="line: write-read"]').length, 1);
    const [bar, ...others] = all(root, '[aria-label="spread: write-flush"]');
    assert.equal(others.length, 0);
    near(Number(bar!.getAttribute("y1")), between(y, 0.8, (value) => value), "least");
    near(Number(bar!.getAttribute("y2")), between(y, 1.5, (value) => value), "greatest");
    const [point] = all(root, '[aria-label="points: write-flush"] title');
    assert.equal(point!.textContent, "write-flush, depth 1: 1 µs (800 ns to 1.5 µs, 3 values)");
  });

  it("tells series apart by colour and symbol, and names do not overlap where lines end together", () => {
    const root = parsed(CHART);
    const strokes = CHART.series.map(({ name }) => {
      let node = all(root, `[aria-label="points: ${name}"]`)[0] as Found & { parentNode: Found };
      while (node.getAttribute("stroke") === null) node = node.parentNode as typeof node;
      return node.getAttribute("stroke");
    });
    assert.equal(new Set(strokes).size, 2);
    const shapes = CHART.series.map(({ name }) =>
      all(root, `[aria-label="points: ${name}"]`)[0]!.getAttribute("d")
    );
    assert.notEqual(shapes[0], shapes[1]);
    const entries = all(root, '[aria-label="legend"] text').map((each) => placeOf(each)[1]);
    assert.equal(entries[1]! - entries[0]! >= 18, true, entries.join());
    const series = Array.from({ length: 6 }, (_, i) => ({
      ...CHART.series[0]!,
      ...{ name: `line ${i}`, colour: i },
    }));
    const many = all(parsed({ ...CHART, series }), '[aria-label="legend"] text')
      .map((each) => placeOf(each)[1]);
    // They end at the top of the picture: the first name stays there, the others stand below it.
    near(many[0]!, entries[0]!, "the first");
    for (const [i, at] of many.entries()) near(at, many[0]! + 18 * i, `name ${i}`);
  });

  it("lists words from top to bottom, a panel for each value, over decades on a logarithmic axis", () => {
    const words = ["write-read", "send-flush"];
    const root = parsed({
      ...CHART,
      x: { label: "method", unit: "", words },
      panelLabel: "DDIO",
      series: ["off", "on"].map((panel) => ({
        ...{ name: "", panel, colour: 0, dash: 0 },
        points: [{ x: "write-read", y: 1e6 }, { x: "send-flush", y: 900e6 }],
      })),
    });
    const axis = labels(root, "y");
    assert.deepEqual(axis.map(({ text }) => text), words);
    assert.equal(axis[0]!.at < axis[1]!.at, true);
    const panels = all(root, '[aria-label="fx-axis tick label"] text');
    assert.deepEqual(panels.map(({ textContent }) => textContent), ["DDIO off", "DDIO on"]);
    const ticks = labels(root, "x").slice(0, 4);
    assert.deepEqual(ticks.map(({ text }) => text), ["1", "2", "5", "10"]);
    for (const panel of ["off", "on"]) {
      const [least, most] = all(root, `[aria-label="points: DDIO ${panel}"]`).map((each) =>
        placeOf(each)
      );
      near(least![0], ticks[0]!.at, "1 µs");
      near(most![0], between(ticks, 900, Math.log), "900 µs");
      near(least![1], axis[0]!.at, "write-read");
    }
  });

  it("is one well-formed document that takes any name, the same for the same chart", () => {
    const { svg } = parsed(CHART);
    assert.equal(svg, svgOf(CHART));
    assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
    assert.equal(svg.includes("<pair>"), false);
    assert.equal(/<script|<style|href=/.test(svg), false);
  });
});

describe("pageOf", () => {
  it("has the picture and its figures as a table, and loads nothing", () => {
    const page = pageOf(CHART);
    assert.match(page, /^<!doctype html>/);
    assert.match(page, /<title>Median latency by depth: &lt;pair><\/title>/);
    assert.match(
      page,
      /<td>write-flush<\/td><td>1<\/td><td>1 µs<\/td><td>800 ns<\/td><td>1\.5 µs<\/td><td>3<\/td>/,
    );
    assert.equal(/<script|https?:\/\/(?!www\.w3\.org)/.test(page), false);
  });
});
