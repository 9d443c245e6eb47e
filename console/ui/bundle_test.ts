import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { pageFiles } from "./bundle.ts";

/** All of it over the wire, compressed: zod alone would add 90 KiB. */
const WIRE_BYTES_MAX = 250 * 1024;

describe("pageFiles", () => {
  it("makes a page that is small, runs no text as code and asks nobody else for anything", async () => {
    const files = await pageFiles();
    const bytes = files.reduce((sum, { gzip }) => sum + gzip.length, 0);
    assert.ok(bytes < WIRE_BYTES_MAX, `${bytes} B`);
    const [page, ...others] = files;
    const html = new TextDecoder().decode(page!.body);
    for (const { path } of others) {
      assert.ok(html.includes(path.slice(1)), `${path} is not in the page`);
    }
    const text = files.map(({ body }) => new TextDecoder().decode(body)).join("\n");
    assert.doesNotMatch(text, /\beval\(|new Function\(/);
    assert.doesNotMatch(html, / style=|<style|<script>|\son\w+=/);
    assert.doesNotMatch(text, /@import|url\(http|src="http/);
  });

  it("names a file by its content", async () => {
    const [first, again] = [await pageFiles(), await pageFiles()];
    assert.deepEqual(first.map(({ path }) => path), again.map(({ path }) => path));
  });
});
