import type { z } from "zod";
import type { DeviceFaultScenario } from "../assembly/device_faults.ts";
import {
  type FaultProblem,
  type LinkFaultScenario,
  readLinkFault,
  refuseTerms,
  termsOf,
} from "../assembly/link_faults.ts";
import { namesInRange } from "../plan/names.ts";
import { type PowerFault, SHUTDOWN_PS } from "../plan/power.ts";
import {
  cutSchema,
  FLIP_KEYS,
  flipSchema,
  type FlipSection,
  LINK_KEYS,
  linkFaultSchema,
  powerFaultSchema,
  STUCK_KEYS,
  stuckSchema,
  type StuckSection,
} from "./fault_schema.ts";
import { isMapping } from "../../base/mapping.ts";
import { read, type Reading, readList, valueAt } from "./reading.ts";
import type { Draft, DraftFault } from "./scenario.ts";

export function readFaults(
  reading: Reading,
): Pick<Draft, "faults" | "linkFaults" | "deviceFaults"> {
  const faults: DraftFault<PowerFault>[] = [];
  const linkFaults: DraftFault<LinkFaultScenario>[] = [];
  const deviceFaults: DraftFault<DeviceFaultScenario>[] = [];
  for (const { path } of readList(reading, ["faults"])) {
    const item = valueAt(reading.source.data, path);
    const has = (keys: readonly string[]) =>
      isMapping(item) && keys.some((key) => Object.hasOwn(item, key));
    const add = <Section, Fault extends object>(
      to: DraftFault<Fault>[],
      schema: z.ZodType<Section>,
      convert: (section: Section) => Fault | FaultProblem,
      each: (fault: Fault) => Fault[],
    ) => {
      const section = read(reading, path, schema);
      if (section === undefined) return;
      const fault = convert(section);
      if (!("found" in fault)) to.push(...each(fault).map((fault) => ({ path, fault })));
      else if (fault.key === undefined) reading.report(path, { ...fault, key: false });
      else reading.report([...path, fault.key], { ...fault, key: true });
    };
    if (has(LINK_KEYS)) add(linkFaults, linkFaultSchema, readLinkFault, onEachCable);
    else if (has(["cut", "heal"])) add(linkFaults, cutSchema, readCut, onEachCable);
    else if (has(FLIP_KEYS)) add(deviceFaults, flipSchema, readFlip, onEachHost);
    else if (has(STUCK_KEYS)) add(deviceFaults, stuckSchema, readStuck, onEachHost);
    else add(faults, powerFaultSchema, readPowerFault, onEachNode);
  }
  return { faults, linkFaults, deviceFaults };
}

function onEachNode(fault: PowerFault): PowerFault[] {
  return namesInRange(fault.node).map((node) => ({ ...fault, node }));
}

function onEachCable(fault: LinkFaultScenario): LinkFaultScenario[] {
  return namesInRange(fault.target).map((target) => ({ ...fault, target }));
}

function onEachHost(fault: DeviceFaultScenario): DeviceFaultScenario[] {
  if (fault.kind === "flip") {
    return namesInRange(fault.target).map((target) => ({ ...fault, target }));
  }
  return namesInRange(fault.host).map((host) => ({ ...fault, host }));
}

function readPowerFault(
  { at, kill, start, shutdown, within, card }: z.infer<typeof powerFaultSchema>,
): PowerFault | FaultProblem {
  const named = Object.entries({ kill, start, shutdown }).filter(([, node]) => node !== undefined);
  if (named.length > 1) {
    const found = named.length === 3 ? "kill, start and shutdown" : named.map(([key]) => key);
    const both = typeof found === "string" ? found : `both ${found.join(" and ")}`;
    return { found: both, expected: "one of kill, start and shutdown" };
  }
  if (within !== undefined && shutdown === undefined) {
    return { key: "within", found: "within", expected: "a shutdown that it bounds" };
  }
  const off = card !== undefined && { card };
  if (kill !== undefined) return { at, action: "kill", node: kill, ...off };
  if (start !== undefined) return { at, action: "start", node: start, ...off };
  if (shutdown !== undefined) {
    const offAt = at + (within ?? SHUTDOWN_PS);
    return { at: offAt, action: "kill", node: shutdown, shutDownAt: at, ...off };
  }
  return {
    found: "no fault",
    expected: "one of kill, start, shutdown, cut and heal, or link, rnic or scm",
  };
}

function readCut(
  { at, cut, heal }: z.infer<typeof cutSchema>,
): LinkFaultScenario | FaultProblem {
  if (cut === undefined) return { target: heal!, action: "heal", at };
  if (heal === undefined) return { target: cut, action: "cut", at };
  return { found: "both cut and heal", expected: "one of cut and heal" };
}

/** `{ rnic: b, flip: 1%, where: bus }`. */
function readFlip(section: FlipSection): DeviceFaultScenario | FaultProblem {
  const { rnic: target, flip: share, where = "buffer" } = section;
  const terms = { ...section, share };
  return refuseTerms(terms) ?? { kind: "flip", target, flip: { where, ...termsOf(terms) } };
}

/** `{ scm: b, stuck: 4096, bit: 3, value: 1 }`. */
function readStuck({ scm, stuck, bit = 0, value = 1 }: StuckSection): DeviceFaultScenario {
  return { kind: "stuck", host: scm, bit: { offset: stuck, bit, value: value === 1 ? 1 : 0 } };
}
