import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  EXTENSION_COMMANDS,
  EXTENSION_MESSAGES,
  EXTENSION_UPCALLS,
  EXTENSIONS,
} from "./extensions.ts";

describe("EXTENSIONS", () => {
  it("every room's commands, messages and upcalls are in the card's tables, none in two rooms", () => {
    const tables = {
      commands: EXTENSION_COMMANDS,
      messages: EXTENSION_MESSAGES,
      upcalls: EXTENSION_UPCALLS,
    };
    for (const [part, table] of Object.entries(tables)) {
      const inRooms = EXTENSIONS.flatMap((room) =>
        Object.keys(room[part as keyof typeof tables] ?? {})
      );
      assert.deepEqual(Object.keys(table).sort(), inRooms.sort(), part);
      assert.ok(inRooms.length > 0, part);
    }
  });
});
