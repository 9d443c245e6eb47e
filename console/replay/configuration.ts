/** All by which a run was told what to do, as lines that can be compared with those of another. */
import { formatTime } from "../../fabric/base/time.ts";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { ConfigurationDifference } from "../api/replay.ts";

/** By its place (`b: ddio`, `kill b`), its value as text. */
export type Configuration = Readonly<Record<string, string>>;

/** @param plan with the faults as they happened. */
export function configurationOf(plan: RackPlan): Configuration {
  const lines: Record<string, string> = { seed: String(plan.seed) };
  if (plan.until !== null) lines["until"] = formatTime(plan.until);
  for (const node of plan.nodes) {
    const { name, kind } = node;
    lines[name] = kind;
    if (node.kind !== "host") {
      flatten(lines, `${name}: `, node.config);
      continue;
    }
    const { programs, ...rest } = node.config;
    flatten(lines, `${name}: `, rest);
    for (const [i, { run, options }] of programs.entries()) {
      // As its notes and states name it.
      const place = `${name}: ${run}#${i}`;
      lines[place] = "program";
      flatten(lines, `${place}, `, options);
    }
  }
  for (const [i, cable] of plan.cables.entries()) {
    const { a, b, kind, ...rest } = cable;
    const name = kind === "network"
      ? targetName(plan, { cable: i, direction: "both" })
      : `${a.node}/${b.node}`;
    lines[name] = `${kind} cable`;
    flatten(lines, `${name}: `, rest);
  }
  for (const { action, node, at } of plan.faults) add(lines, `${action} ${node}`, at);
  for (const fault of plan.linkFaults ?? []) {
    add(lines, `${fault.action} ${targetName(plan, fault)}`, fault.at);
  }
  return lines;
}

function add(lines: Record<string, string>, place: string, at: number): void {
  const text = `at ${formatTime(at)}`;
  lines[place] = lines[place] === undefined ? text : `${lines[place]}, ${text}`;
}

/** Content is compared by its length alone: a run's events tell it apart. */
function flatten(lines: Record<string, string>, place: string, value: object): void {
  for (const [key, each] of Object.entries(value)) {
    if (each instanceof Uint8Array) lines[place + key] = `${each.length} B`;
    else if (typeof each === "object" && each !== null) flatten(lines, `${place}${key}.`, each);
    else if (each !== undefined) {
      const isTime = key.endsWith("Ps") && typeof each === "number";
      lines[place + key] = isTime
        ? formatTime(each)
        : typeof each === "boolean"
        ? each ? "on" : "off"
        : String(each);
    }
  }
}

/** In the order of the first, then what only the second has. */
export function configurationDifferences(
  here: Configuration,
  there: Configuration,
): ConfigurationDifference[] {
  const places = new Set([...Object.keys(here), ...Object.keys(there)]);
  return [...places].flatMap((what) => {
    const [x = null, y = null] = [here[what], there[what]];
    return x === y ? [] : [{ what, here: x, there: y }];
  });
}
