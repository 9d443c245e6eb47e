import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { hideSecrets, hidingSecrets } from "./secrets.ts";

const SECRETS = ["correct-horse-battery", "staple-staple"];

async function through(parts: readonly string[]): Promise<string> {
  const stream = ReadableStream.from(parts.map((part) => new TextEncoder().encode(part)));
  return await new Response(stream.pipeThrough(hidingSecrets(SECRETS))).text();
}

describe("hidingSecrets", () => {
  const text = "a correct-horse-battery, staple-staple-staple, correct-horse.";
  const expected = `a ${"*".repeat(21)}, ${"*".repeat(13)}-staple, correct-horse.`;

  it("puts * for each letter of a secret, wherever the file is cut into chunks", async () => {
    for (let size = 1; size <= text.length; size++) {
      const parts = text.match(new RegExp(`.{1,${size}}`, "g"))!;
      assert.equal(await through(parts), expected, `chunks of ${size}`);
    }
    assert.equal(hideSecrets(text, SECRETS), expected);
  });

  it("leaves all else as it is", async () => {
    assert.equal(await through(["nothing ", "", "of it"]), "nothing of it");
    const stream = ReadableStream.from([Uint8Array.of(0, 255), Uint8Array.of(1)]);
    const bytes = await new Response(stream.pipeThrough(hidingSecrets([]))).bytes();
    assert.deepEqual([...bytes], [0, 255, 1]);
  });
});
