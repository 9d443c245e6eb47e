import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../../../../fabric/base/time.ts";
import { VerbsRig } from "../../testing/verbs_testing.ts";
import {
  abandonReplacement,
  createObject,
  DIRECTORY_BYTES,
  dropReplacements,
  findObject,
  hasRoomWithout,
  listObjects,
  NAME_BYTES_MAX,
  OBJECT_ALIGNMENT,
  openDirectory,
  publishReplacement,
  type Regions,
  reserveReplacement,
  type ScmDirectory,
  withdrawObject,
} from "./scm_directory.ts";

/** A machine that starts with what another's power failure has left. */
function restarted(rig: VerbsRig): VerbsRig {
  return new VerbsRig({}, rig.durable.slice());
}

/** Does something until power fails after so many words. @returns whether it was done before. */
function untilPowerFails(rig: VerbsRig, words: number, act: () => void): boolean {
  rig.wordsUntilPowerFails = words;
  rig.wordsInAnyOrder = true;
  try {
    act();
  } catch {
    return false;
  }
  return true;
}

describe("openDirectory", () => {
  it("P-05: finds after a restart what was made before", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    const made = rig.run(createObject(rig, directory, { name: "data.bin", length: 1000 }))!;
    ok(made.offset >= DIRECTORY_BYTES && made.offset % OBJECT_ALIGNMENT === 0);
    const next = restarted(rig);
    const found = findObject(next.run(openDirectory(next)), "data.bin")!;
    same([found.name, found.offset, found.length], ["data.bin", made.offset, 1000]);
  });

  it("P-41 (in part): a directory torn at any word of its making is made anew", () => {
    for (let words = 0; words < 8192; words += words < 10 || words > 8170 ? 1 : 510) {
      const rig = new VerbsRig();
      untilPowerFails(rig, words, () => rig.run(openDirectory(rig)));
      const next = restarted(rig);
      same(listObjects(next.run(openDirectory(next))), []);
    }
  });
});

describe("createObject", () => {
  it("P-41: power failing at any word, in any order of words, leaves the old object or the new", () => {
    const outcomes = new Set<string>();
    for (let words = 0, done = false; !done; words++) {
      const rig = new VerbsRig();
      const directory = rig.run(openDirectory(rig));
      rig.run(createObject(rig, directory, { name: "other", length: 300 }));
      rig.run(createObject(rig, directory, { name: "log", length: 1000 }));
      done = untilPowerFails(rig, words, () => {
        rig.run(createObject(rig, directory, { name: "log", length: 2000 }));
      });
      const next = restarted(rig);
      const found = listObjects(next.run(openDirectory(next)));
      const shown = found.map(({ name, length }) => `${name} ${length}`).join(", ");
      ok(shown === "log 1000, other 300" || shown === "log 2000, other 300", `${words}: ${shown}`);
      outcomes.add(shown);
      const [log, other] = found;
      ok(log!.offset >= other!.offset + 512 || other!.offset >= log!.offset + log!.length);
    }
    equal(outcomes.size, 2);
  });

  it("P-41: has the kept bytes in the new place before the directory names it, at any word", () => {
    const beginning = Uint8Array.from({ length: 64 }, (_, i) => i + 1);
    for (let words = 0, done = false; !done; words++) {
      const rig = new VerbsRig();
      const directory = rig.run(openDirectory(rig));
      const old = rig.run(createObject(rig, directory, { name: "log", length: 1000 }))!;
      rig.run(rig.ntStore(rig.scm.address + old.offset, beginning));
      done = untilPowerFails(rig, words, () => {
        rig.run(createObject(rig, directory, { name: "log", length: 2000, keeps: 64 }));
      });
      const next = restarted(rig);
      const found = findObject(next.run(openDirectory(next)), "log")!;
      same(next.load(next.scm.address + found.offset, 64), beginning, `${words} words`);
      if (done) equal(found.length, 2000);
    }
  });

  it("keeps the place of an object of the same length, and its bytes", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    const first = rig.run(createObject(rig, directory, { name: "a", length: 512 }));
    same(rig.run(createObject(rig, directory, { name: "a", length: 512 })), first);
    equal(rig.wordsUntilPowerFails, NEVER);
  });

  it("uses space and slots again, and never gives out what is in use", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    const room = rig.scm.length - DIRECTORY_BYTES;
    for (let i = 0; i < 600; i++) {
      const length = 256 * (1 + i % 7);
      ok(rig.run(createObject(rig, directory, { name: "again", length: length + i })), `${i}`);
    }
    equal(rig.run(createObject(rig, directory, { name: "large", length: room })), undefined);
    const next = restarted(rig);
    equal(listObjects(next.run(openDirectory(next))).length, 1);
  });

  it("puts the object of a region's name into the region, and nothing else there", () => {
    const rig = new VerbsRig();
    const regions = { log: { at: 0, bytes: 4096 }, far: { at: 128 * 1024, bytes: 1024 } };
    const directory = rig.run(openDirectory(rig, regions));
    equal(directory.place, 4096);
    equal(rig.run(createObject(rig, directory, { name: "log", length: 4000 }))!.offset, 0);
    equal(rig.run(createObject(rig, directory, { name: "log", length: 5000 })), undefined);
    equal(findObject(directory, "far")!.length, 1024);
    const other = rig.run(createObject(rig, directory, { name: "other", length: 70_000 }))!;
    equal(other.offset, 128 * 1024 + 1024);
    const next = restarted(rig);
    const found = listObjects(next.run(openDirectory(next, regions)));
    same(found.map(({ name, offset }) => [name, offset]), [["log", 0], ["other", other.offset]]);
  });

  it("refuses everything where SCM has no room for a directory", () => {
    const rig = new VerbsRig();
    const regions = { all: { at: 0, bytes: rig.scm.length } };
    const directory = rig.run(openDirectory(rig, regions));
    equal(rig.run(createObject(rig, directory, { name: "x", length: 8 })), undefined);
  });

  it("refuses a name that is empty or too long", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    for (const name of ["", "x".repeat(NAME_BYTES_MAX + 1)]) {
      equal(rig.run(createObject(rig, directory, { name, length: 8 })), undefined);
    }
    ok(rig.run(createObject(rig, directory, { name: "x".repeat(NAME_BYTES_MAX), length: 8 })));
  });
});

/** The next life's view of the objects, after it has ended the replacements of the earlier one. */
function nextLife(rig: VerbsRig, regions: Regions = {}) {
  const next = restarted(rig);
  const directory = next.run(openDirectory(next, regions));
  next.run(dropReplacements(next, directory));
  return { next, directory };
}

function shown(directory: ScmDirectory): string {
  return listObjects(directory).map(({ name, length, state }) => `${name} ${length} ${state}`)
    .join(", ");
}

const FRESH = { name: "x", length: 700, inUse: [] } as const;

describe("replacements", () => {
  for (const length of [1000, 700]) {
    it(`P-41: of ${length} B by 700 B, at any word: the old object until the new is published`, () => {
      const outcomes = new Set<string>();
      for (let words = 0, done = false; !done; words++) {
        const rig = new VerbsRig();
        const directory = rig.run(openDirectory(rig));
        rig.run(createObject(rig, directory, { name: "x", length }));
        const old = findObject(directory, "x")!;
        let reserved: number | undefined, published = false;
        done = untilPowerFails(rig, words, () => {
          const entry = rig.run(reserveReplacement(rig, directory, FRESH))!;
          reserved = entry.offset;
          equal(findObject(directory, "x"), old);
          rig.run(publishReplacement(rig, directory, { entry, state: "complete" }));
          published = true;
        });
        const { directory: found } = nextLife(rig);
        const [object, ...others] = listObjects(found);
        same([others.length, found.pending.size], [0, 0], `${words} words`);
        ok([old.offset, reserved].includes(object!.offset), `${words} words`);
        if (published) equal(object!.offset, reserved);
        equal(object!.length, object!.offset === old.offset ? length : 700);
        equal(object!.state, "complete");
        outcomes.add(object!.offset === old.offset ? "old" : "new");
      }
      same([...outcomes], ["old", "new"]);
    });
  }

  it("P-41: what an earlier life has not published is incomplete where nothing has its name", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    rig.run(reserveReplacement(rig, directory, { ...FRESH, length: 600 }));
    rig.run(reserveReplacement(rig, directory, FRESH));
    equal(shown(directory), "");
    const { next, directory: second } = nextLife(rig);
    equal(shown(second), "x 700 incomplete");
    equal(shown(nextLife(next).directory), "x 700 incomplete");
  });

  it("keeps the object that has the name, whatever is abandoned beside it", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    rig.run(createObject(rig, directory, { name: "x", length: 300 }));
    const entry = rig.run(reserveReplacement(rig, directory, FRESH))!;
    rig.run(abandonReplacement(rig, directory, entry));
    equal(shown(directory), "x 300 complete");
    equal(shown(nextLife(rig).directory), "x 300 complete");
  });

  it("P-41: a region's object is incomplete from the reservation on, at any word never torn", () => {
    const regions = { x: { at: 0, bytes: 4096 } };
    const outcomes = new Set<string>();
    for (let words = 0, done = false; !done; words++) {
      const rig = new VerbsRig();
      const directory = rig.run(openDirectory(rig, regions));
      rig.run(createObject(rig, directory, { name: "x", length: 1000 }));
      let reserved = false;
      done = untilPowerFails(rig, words, () => {
        const entry = rig.run(reserveReplacement(rig, directory, FRESH))!;
        reserved = true;
        rig.run(publishReplacement(rig, directory, { entry, state: "complete" }));
      });
      const found = shown(nextLife(rig, regions).directory);
      if (reserved) ok(found !== "x 1000 complete", `${words} words`);
      outcomes.add(found);
    }
    same([...outcomes], ["x 1000 complete", "x 700 incomplete", "x 700 complete"]);
  });

  it("has no room beside a large object, and has it when that is gone", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    const large = { ...FRESH, length: Math.floor((rig.scm.length - DIRECTORY_BYTES) * 0.6) };
    rig.run(createObject(rig, directory, large));
    equal(rig.run(reserveReplacement(rig, directory, large)), undefined);
    ok(hasRoomWithout(directory, findObject(directory, "x")!, large));
    rig.run(withdrawObject(rig, directory, "x"));
    equal(shown(nextLife(rig).directory), "");
    ok(rig.run(reserveReplacement(rig, directory, large)));
  });

  it("gives out no space that a requester still has open", () => {
    const rig = new VerbsRig();
    const directory = rig.run(openDirectory(rig));
    rig.run(createObject(rig, directory, { name: "x", length: 300 }));
    const first = rig.run(reserveReplacement(rig, directory, FRESH))!;
    rig.run(abandonReplacement(rig, directory, first));
    const other = rig.run(reserveReplacement(rig, directory, { ...FRESH, inUse: [first] }))!;
    ok(other.offset >= first.offset + first.length);
    equal(rig.run(reserveReplacement(rig, directory, FRESH))!.offset, first.offset);
  });

  it("P-41: an object that was replaced does not come back when the newer one is gone", () => {
    for (let words = 0, done = false; !done; words++) {
      const rig = new VerbsRig();
      const directory = rig.run(openDirectory(rig));
      rig.run(createObject(rig, directory, { name: "x", length: 1000 }));
      done = untilPowerFails(rig, words, () => {
        const entry = rig.run(reserveReplacement(rig, directory, FRESH))!;
        rig.run(publishReplacement(rig, directory, { entry, state: "complete" }));
      });
      const { next, directory: second } = nextLife(rig);
      next.run(withdrawObject(next, second, "x"));
      equal(shown(nextLife(next).directory), "", `${words} words`);
    }
  });
});
