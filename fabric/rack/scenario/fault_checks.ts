import { parseTarget } from "../plan/cable_names.ts";
import { type LinkFaultPlan, refuseLinkFault } from "../plan/link_plan.ts";
import { machineOf, rangeExpected } from "../plan/names.ts";
import { cableEnds, shapeOf } from "../assembly/network.ts";
import { createPowerTracker, wordOf } from "../plan/power.ts";
import { showFound } from "../plan/problem.ts";
import { machinesIn, networkHosts } from "./network_hosts.ts";
import { checkKnown, type Report } from "./reading.ts";
import { formatSize } from "../plan/units.ts";
import { formatTime, type Time } from "../../base/time.ts";
import type { Draft } from "./scenario.ts";

/**
 * In order of time, those of one instant in the order of the list: only a node with power can be
 * killed. Within an instant power goes off before it comes on, so no kill follows a start.
 */
export function checkPowerFaults(
  { faults, until }: { readonly faults: Draft["faults"]; readonly until: Time | null },
  report: Report,
): void {
  const inOrder = faults.toSorted((x, y) => x.fault.at - y.fault.at);
  const power = createPowerTracker(inOrder.map(({ fault }) => fault));
  const started = new Map<string, Time>();
  for (const { path, fault } of inOrder) {
    if (until !== null && fault.at >= until) {
      const expected = `a time before until, ${formatTime(until)}`;
      report([...path, "at"], { found: formatTime(fault.at), expected });
    }
    const machine = machineOf(fault.node);
    if (fault.action === "kill" && started.get(machine) === fault.at) {
      const expected =
        `a later time than the start of ${machine} before: in one instant power goes off, then on`;
      report([...path, "at"], { found: formatTime(fault.at), expected });
    }
    const begin = fault.shutDownAt, on = started.get(machine);
    if (begin !== undefined && on !== undefined && begin < on) {
      const expected = `a time at or after ${formatTime(on)}, the start of ${machine} before`;
      report([...path, "at"], { found: formatTime(begin), expected });
    }
    if (fault.action === "start") started.set(machine, fault.at);
    const refusal = power.refusal(fault);
    if (refusal === undefined) power.apply(fault);
    else report([...path, wordOf(fault)], refusal);
  }
}

export function checkLinkFaults(draft: Draft, report: Report): void {
  if (draft.linkFaults.length === 0) return;
  const rack = { cables: cablesOf(draft) };
  const known: LinkFaultPlan[] = [];
  const faults = draft.linkFaults.map((each, id) => ({ ...each, id }));
  for (const each of faults.toSorted((x, y) => x.fault.at - y.fault.at || x.id - y.id)) {
    const { path, id, fault: { target, ...fault } } = each;
    const key = fault.action === "cut" || fault.action === "heal" ? fault.action : "link";
    const found = parseTarget(rack, target);
    if ("expected" in found) {
      const expected = rangeExpected(target, "many") ?? found.expected;
      report([...path, key], { found: showFound(target), expected });
      continue;
    }
    const { until } = draft;
    if (until !== null && fault.at >= until) {
      const timeKey = key === "link" ? "from" : "at";
      const expected = `a time before until, ${formatTime(until)}`;
      report([...path, timeKey], { found: formatTime(fault.at), expected });
    }
    const plan = { ...fault, ...found, id };
    const refusal = refuseLinkFault(known, plan);
    if (refusal === undefined) known.push(plan);
    else report([...path, key], refusal);
  }
}

export function checkDeviceFaults(draft: Draft, report: Report): void {
  const sizes = new Map(draft.hosts.map(({ name, scmBytes }) => [name, scmBytes]));
  for (const { path, fault } of draft.deviceFaults) {
    if (fault.kind === "flip") {
      const its = { path: [...path, "rnic"], known: machinesIn(draft) };
      checkKnown(fault.target, { ...its, kind: "a host or an RNIC" }, report);
      continue;
    }
    const its = { path: [...path, "scm"], known: draft.hostNames, kind: "a host" };
    if (!checkKnown(fault.host, its, report)) continue;
    const scmBytes = sizes.get(fault.host);
    if (scmBytes === undefined || fault.bit.offset < scmBytes) continue;
    const expected = `an offset into the SCM of ${fault.host}, below ${formatSize(scmBytes)}`;
    report([...path, "stuck"], { found: String(fault.bit.offset), expected });
  }
}

function cablesOf(draft: Draft) {
  const all = networkHosts(draft);
  return cableEnds(all, shapeOf(draft.fabric, all));
}
