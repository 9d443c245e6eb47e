/** The style sheet's colours: every text can be read on every ground it may stand on. */
import assert from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { projectFile } from "../base/paths.ts";

/** WCAG 2.2, 1.4.3, of text of usual size. */
const CONTRAST_LEAST = 4.5;

const TEXTS = ["ink", "quiet", "faint", "time", "flight", "volatile", "durable", "lost"];
const GROUNDS = ["bg", "panel", "raised", "time-wash"];

function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [dark, bright] = [luminance(one), luminance(other)].sort((x, y) => x - y) as [
    number,
    number,
  ];
  return (bright + 0.05) / (dark + 0.05);
}

it("each text has a contrast of 4.5 on each ground, in both themes", async () => {
  const sheet = await Deno.readTextFile(projectFile("console/ui/style.css"));
  const colours = new Map(
    [...sheet.matchAll(/--([\w-]+): light-dark\((#[\da-f]{6}), (#[\da-f]{6})\);/g)]
      .map(([, name, light, dark]) => [name!, { light: light!, dark: dark! }]),
  );
  const found = TEXTS.flatMap((text) =>
    GROUNDS.flatMap((ground) =>
      (["light", "dark"] as const).flatMap((theme) => {
        const ratio = contrast(colours.get(text)![theme], colours.get(ground)![theme]);
        return ratio >= CONTRAST_LEAST
          ? []
          : [`${theme}: ${text} on ${ground} ${ratio.toFixed(2)}`];
      })
    )
  );
  assert.deepEqual(found, []);
});
