/**
 * Reads the `faults` of a scenario: power failures and returns, cuts and heals, cable and device
 * faults.
 */
import {
  type DeviceFaultProblem,
  type DeviceFaultScenario,
  readFlip,
  readStuck,
} from "../build/device_faults.ts";
import {
  cutSchema,
  FLIP_KEYS,
  flipSchema,
  LINK_KEYS,
  linkFaultSchema,
  powerFaultSchema,
  STUCK_KEYS,
  stuckSchema,
} from "./fault_schema.ts";
import {
  type LinkFaultProblem,
  type LinkFaultScenario,
  readLinkFault,
} from "../build/link_faults.ts";
import type { FaultPlan } from "../plan/plan.ts";
import { isMapping, read, type Reading, readList, valueAt } from "./reading.ts";
import type { Path } from "./yaml_source.ts";
import type { Draft, DraftLinkFault } from "./scenario.ts";

/** All valid items of `faults`. */
export function readFaults(
  reading: Reading,
): Pick<Draft, "faults" | "linkFaults" | "deviceFaults"> {
  const faults: Draft["faults"][number][] = [], linkFaults: DraftLinkFault[] = [];
  const deviceFaults: Draft["deviceFaults"][number][] = [];
  for (const { path } of readList(reading, ["faults"])) {
    const item = valueAt(reading.source.data, path);
    const has = (keys: readonly string[]) =>
      isMapping(item) && keys.some((key) => Object.hasOwn(item, key));
    if (has(LINK_KEYS) || has(["cut", "heal"])) {
      const fault = has(LINK_KEYS) ? readImpairment(reading, path) : readCut(reading, path);
      if (fault !== undefined) linkFaults.push({ path, fault });
    } else if (has(FLIP_KEYS) || has(STUCK_KEYS)) {
      const fault = has(FLIP_KEYS) ? readFlipFault(reading, path) : readStuckBit(reading, path);
      if (fault !== undefined) deviceFaults.push({ path, fault });
    } else {
      const fault = readPowerFault(reading, path);
      if (fault !== undefined) faults.push({ path, fault });
    }
  }
  return { faults, linkFaults, deviceFaults };
}

function readPowerFault(reading: Reading, path: Path): FaultPlan | undefined {
  const section = read(reading, path, powerFaultSchema);
  if (section === undefined) return undefined;
  const { at, kill, start } = section;
  if ((kill === undefined) === (start === undefined)) {
    const found = kill === undefined ? "no fault" : "both kill and start";
    const expected = kill === undefined
      ? "one of kill, start, cut and heal, or link, rnic or scm"
      : "one of kill and start";
    reading.report(path, { found, expected });
    return undefined;
  }
  return kill !== undefined
    ? { at, action: "kill", node: kill }
    : { at, action: "start", node: start! };
}

function readCut(reading: Reading, path: Path): LinkFaultScenario | undefined {
  const section = read(reading, path, cutSchema);
  if (section === undefined) return undefined;
  const { at, cut, heal } = section;
  if (cut !== undefined && heal !== undefined) {
    reading.report(path, { found: "both cut and heal", expected: "one of cut and heal" });
    return undefined;
  }
  return cut !== undefined
    ? { target: cut, action: "cut", at }
    : { target: heal!, action: "heal", at };
}

function readImpairment(reading: Reading, path: Path): LinkFaultScenario | undefined {
  const section = read(reading, path, linkFaultSchema);
  if (section === undefined) return undefined;
  return unlessProblem(reading, path, readLinkFault(section));
}

function readFlipFault(reading: Reading, path: Path): DeviceFaultScenario | undefined {
  const section = read(reading, path, flipSchema);
  return section && unlessProblem(reading, path, readFlip(section));
}

function readStuckBit(reading: Reading, path: Path): DeviceFaultScenario | undefined {
  const section = read(reading, path, stuckSchema);
  return section && readStuck(section);
}

/** The fault; undefined for a problem, which is reported at its key. */
function unlessProblem<Fault extends object>(
  reading: Reading,
  path: Path,
  fault: Fault | LinkFaultProblem | DeviceFaultProblem,
): Fault | undefined {
  if (!("found" in fault)) return fault;
  const { key, found, expected } = fault as DeviceFaultProblem;
  reading.report(key === undefined ? path : [...path, key], {
    found,
    expected,
    ...(key !== undefined && { key: true }),
  });
  return undefined;
}
