/** What verified writes of a program (`program_testing.ts`) must be answered: what was asked for, no less. */
import assert from "node:assert/strict";
import {
  decodeVerdict,
  decodeVerifyResult,
  VERIFY_CHECKS,
  VERIFY_STATUS,
  type VerifyLevel,
  type VerifyVerdict,
} from "../../../fabric/wire/roce/verify_eth.ts";
import type { RunLine } from "./program_rig_testing.ts";
import type { Op } from "./program_testing.ts";

const CHECKS: Readonly<Record<VerifyLevel, VerifyVerdict["checks"]>> = {
  "none": [],
  "check": ["crc-before"],
  "verify": ["crc-before", "compared"],
  "verify-crc": ["crc-before", "crc-after"],
  "read-back": ["compared"],
  "crc-after": ["crc-after"],
};

/** V-01, V-04, V-09: nothing is damaged and no history stands for a look, so all that is asked for is done. */
function verdictOf({ verb, level, persist }: Op): VerifyVerdict | undefined {
  if (verb !== "write-verify") return undefined;
  return {
    status: "written",
    checks: [...CHECKS[level], ...(persist ? ["persisted"] as const : [])],
  };
}

/** What has succeeded carries its answer; nothing else carries one. */
export function checkVerdicts({ completions, ops, number }: RunLine): void {
  for (const { op, cqe } of completions) {
    const expected = cqe.status === "SUCCESS" ? verdictOf(ops[op]!) : undefined;
    assert.deepEqual(decodeVerdict(cqe.verify), expected, `line ${number}: answer of op ${op}`);
  }
}

/** Whether the answer to this op says that its data is persistent. */
export function saysPersisted({ verb, persist }: Op, payload: Uint8Array<ArrayBuffer>): boolean {
  if (verb !== "write-verify") return false;
  const result = decodeVerifyResult(payload);
  assert.equal(result?.status, VERIFY_STATUS.written);
  const isSaid = (result.checks & VERIFY_CHECKS.persisted) !== 0;
  assert.equal(isSaid, persist, "V-09: it says so where it was asked for, and only there");
  return isSaid;
}
