/** Tests that go on where the one before has ended: what comes behind a failure would only wait in vain. */
import assert from "node:assert/strict";

type It = (name: string, work: () => Promise<void>) => void;

/** Tests of one file, in their order: the first that fails is the last that is tried. */
export function inOrder(it: It): It {
  let failed: string | undefined;
  return (name, work) =>
    it(name, async () => {
      assert.equal(failed, undefined, `It was not tried, as "${failed}" has failed`);
      try {
        await work();
      } catch (error) {
        failed = name;
        throw error;
      }
    });
}
