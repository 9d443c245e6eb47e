/** See README, Who may say and hear what. */
import { neighboursOf } from "../rack/plan/cabling.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import { ANY, patternOf, patternOfRun } from "./subjects.ts";

/** Beside the partitions. No device has such a name: a host's has no underscore. */
export const USERS = {
  timekeeper: "_timekeeper",
  /** The process that starts the others, and the commands for a rack that is up. */
  supervisor: "_supervisor",
  /** In containers. */
  report: "_report",
  /** Changes nothing: its credential is safe to give to observers. */
  viewer: "_viewer",
} as const;

export const CLOCK_VERBS = [
  "status",
  "pause",
  "resume",
  "step",
  "pace",
  "death",
  "run",
  "shutdown",
  "fault",
  "faults",
  "end",
  "link",
] as const;
export type ClockVerb = typeof CLOCK_VERBS[number];

const SUPERVISOR_VERBS = ["boot", "kill", "process"] as const;

const NEWS = ["finished", "stalled", "power"] as const;

const CLOCK_QUERIES: readonly ClockVerb[] = ["status", "faults"];

/** Tells all partitions that steps are read (`runner/step_feed.ts`); without an answer. */
export const STEPS_VERB = "steps";

/**
 * The name, in place of a run's, under which timekeepers tell of the runs that they keep
 * (`clock/census.ts`).
 */
export const ALL_RUNS = "_";

export const CENSUS = { who: "racks", here: "rack" } as const;

const FINAL = "final-", INSPECT = "inspect-";
const KILL = "kill-", BOOT = "boot-", PROCESS = "process-", DEATH = "death-", LANE = "lane-";
const LEAVE = "leave-", PLAN = "plan-", FILES = "files-";

/** Answered by that partition. */
export function finalVerb(partition: string): string {
  return `${FINAL}${partition}`;
}

export function inspectVerb(partition: string): string {
  return `${INSPECT}${partition}`;
}

/** Answered by the parent of the partition's process, where no supervisor has it. */
export function killVerb(partition: string): string {
  return `${KILL}${partition}`;
}

/** Answered as {@link killVerb}. */
export function bootVerb(partition: string): string {
  return `${BOOT}${partition}`;
}

/** Answered as {@link killVerb}. */
export function processVerb(partition: string): string {
  return `${PROCESS}${partition}`;
}

/** Published by the parent of the partition's process, where no supervisor has it. */
export function deathVerb(partition: string): string {
  return `${DEATH}${partition}`;
}

/** Answered as {@link killVerb}: the rack is taken down. */
export function leaveVerb(partition: string): string {
  return `${LEAVE}${partition}`;
}

/** Asked by that user, answered by the timekeeper: what the user's processes start from. */
export function planVerb(user: string): string {
  return `${PLAN}${user}`;
}

/** Answered by that user: what the run has left on its machine. */
export function filesVerb(user: string): string {
  return `${FILES}${user}`;
}

export function laneVerb(user: string): string {
  return `${LANE}${user}`;
}

const ANSWERED_BY_USER = [FINAL, INSPECT, KILL, BOOT, PROCESS, LEAVE, FILES, LANE];

export function answererOf(verb: string): string {
  const start = ANSWERED_BY_USER.find((each) => verb.startsWith(each));
  if (start !== undefined) return verb.slice(start.length);
  return SUPERVISOR_VERBS.some((each) => each === verb) ? USERS.supervisor : USERS.timekeeper;
}

export interface Access {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/** `run` may be {@link ANY}, for consecutive runs. */
export interface AccessRack {
  readonly run: string;
  readonly plan: Pick<RackPlan, "cables">;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
}

export function accessOfProcesses(rack: AccessRack): Map<string, Access> {
  const { run } = rack;
  const verbs = [...CLOCK_VERBS, ...SUPERVISOR_VERBS, ...finalsOf(rack), ...inspectsOf(rack)];
  const parents = rack.partitions.flatMap(({ name }) => [
    killVerb(name),
    bootVerb(name),
    processVerb(name),
    leaveVerb(name),
  ]);
  const files = [planVerb(USERS.supervisor), ...filesOf(rack), filesVerb(USERS.supervisor)];
  const all = controlOf(run, [...verbs, ...parents, ...files, STEPS_VERB]);
  const supervisor = {
    publish: [...all, CENSUS_QUESTION, answersBy(run, USERS.supervisor)],
    subscribe: [patternOfRun(run), CENSUS_ANSWER],
  };
  return new Map([
    ...accessOfRack(rack),
    [USERS.supervisor, supervisor],
    [USERS.viewer, accessOfViewer(rack)],
  ]);
}

/** As {@link accessOfProcesses}, and processes take racks up and leave them. */
export function accessOfLanes(rack: Omit<AccessRack, "run">): Map<string, Access> {
  const access = accessOfProcesses({ ...rack, run: ANY });
  const users = [USERS.timekeeper, ...rack.partitions.map(({ name }) => name)];
  const all = controlOf(ANY, users.map(laneVerb));
  const supervisor = access.get(USERS.supervisor)!;
  access.set(USERS.supervisor, { ...supervisor, publish: [...supervisor.publish, ...all] });
  for (const [i, user] of users.entries()) {
    const { publish, subscribe } = access.get(user)!;
    access.set(user, { publish, subscribe: [...subscribe, all[i]!] });
  }
  return access;
}

/** Only its parent in the same container starts and ends a process. */
export function accessOfContainers(rack: AccessRack): Map<string, Access> {
  const { run } = rack;
  const names = rack.partitions.map(({ name }) => name);
  const files = filesOf(rack);
  const report = {
    publish: controlOf(run, ["status", ...finalsOf(rack), planVerb(USERS.report), ...files]),
    subscribe: [patternOf({ kind: "report", run, node: ANY }), answersTo(run, USERS.report)],
  };
  const viewer = accessOfViewer(rack), processes = controlOf(run, names.map(processVerb));
  // The console starts and ends no process itself, and reports no death.
  const orders = [...CLOCK_VERBS.filter((verb) => verb !== "death"), ...names.map(killVerb)];
  const asks = [...orders, ...names.map(bootVerb), planVerb(USERS.supervisor), ...files];
  const supervisor = {
    publish: [...viewer.publish, ...processes, ...controlOf(run, asks), CENSUS_QUESTION],
    subscribe: [...viewer.subscribe, answersTo(run, USERS.supervisor), CENSUS_ANSWER]
      .filter((pattern) => pattern !== answersTo(run, USERS.viewer)),
  };
  return new Map([
    ...accessOfRack(rack),
    [USERS.report, report],
    [USERS.supervisor, supervisor],
    [USERS.viewer, { ...viewer, publish: [...viewer.publish, ...processes] }],
  ]);
}

function accessOfViewer(rack: AccessRack): Access {
  const { run } = rack;
  const queries = [...CLOCK_QUERIES, ...finalsOf(rack), ...inspectsOf(rack), STEPS_VERB];
  return {
    publish: controlOf(run, queries),
    subscribe: [
      patternOf({ kind: "clock.report", run, partition: ANY }),
      patternOf({ kind: "report", run, node: ANY }),
      patternOf({ kind: "trace", run, node: ANY }),
      ...controlOf(run, NEWS),
      answersTo(run, USERS.viewer),
    ],
  };
}

function accessOfRack(rack: AccessRack): [string, Access][] {
  const neighbours = neighboursOf(rack.plan, rack.partitions);
  return [
    [USERS.timekeeper, accessOfTimekeeper(rack)],
    ...rack.partitions.map(({ name, nodes }): [string, Access] => {
      const peers = [...neighbours.get(name)!];
      return [name, accessOfPartition(rack.run, { name, nodes, peers })];
    }),
  ];
}

/** The users that start from the plan, and ask the timekeeper for it by {@link planVerb}. */
export function planUsers({ partitions }: Pick<AccessRack, "partitions">): string[] {
  return [...partitions.map(({ name }) => name), USERS.supervisor, USERS.report];
}

function accessOfTimekeeper(rack: AccessRack): Access {
  const { run, partitions } = rack;
  const partition = ANY, names = partitions.map(({ name }) => name);
  return {
    publish: [
      patternOf({ kind: "clock.grant", run, partition }),
      patternOf({ kind: "clock.order", run, partition }),
      patternOf({ kind: "clock.ask", run }),
      ...controlOf(run, NEWS),
      CENSUS_ANSWER,
      answersBy(run, USERS.timekeeper),
    ],
    subscribe: [
      patternOf({ kind: "clock.join", run, partition }),
      patternOf({ kind: "clock.alive", run, partition }),
      patternOf({ kind: "clock.report", run, partition }),
      ...controlOf(run, [
        ...CLOCK_VERBS,
        ...names.map(deathVerb),
        ...planUsers(rack).map(planVerb),
      ]),
      ...controlOf(run, [filesVerb(USERS.timekeeper)]),
      CENSUS_QUESTION,
    ],
  };
}

function accessOfPartition(
  run: string,
  { name, nodes, peers }: {
    readonly name: string;
    readonly nodes: readonly string[];
    readonly peers: readonly string[];
  },
): Access {
  const partition = name;
  return {
    publish: [
      ...peers.map((to) => patternOf({ kind: "wire", run, from: name, to })),
      ...peers.map((of) => patternOf({ kind: "again", run, asker: name, of })),
      patternOf({ kind: "clock.join", run, partition }),
      patternOf({ kind: "clock.alive", run, partition }),
      patternOf({ kind: "clock.report", run, partition }),
      ...nodes.map((node) => patternOf({ kind: "report", run, node })),
      ...nodes.map((node) => patternOf({ kind: "trace", run, node })),
      // Of its parent, which has the same credential.
      ...controlOf(run, [deathVerb(name), planVerb(name), processVerb(name)]),
      CENSUS_QUESTION,
      answersBy(run, name),
    ],
    subscribe: [
      ...peers.map((from) => patternOf({ kind: "wire", run, from, to: name })),
      ...peers.map((asker) => patternOf({ kind: "again", run, asker, of: name })),
      patternOf({ kind: "clock.grant", run, partition }),
      patternOf({ kind: "clock.order", run, partition }),
      patternOf({ kind: "clock.ask", run }),
      ...controlOf(run, [finalVerb(name), inspectVerb(name), STEPS_VERB]),
      ...controlOf(run, [killVerb(name), bootVerb(name), processVerb(name), leaveVerb(name)]),
      ...controlOf(run, [filesVerb(name)]),
      CENSUS_ANSWER,
      answersTo(run, name),
    ],
  };
}

const CENSUS_QUESTION = patternOf({ kind: "control", run: ALL_RUNS, verb: CENSUS.who });
const CENSUS_ANSWER = patternOf({ kind: "control", run: ALL_RUNS, verb: CENSUS.here });

function filesOf({ partitions }: AccessRack): string[] {
  return [USERS.timekeeper, ...partitions.map(({ name }) => name)].map(filesVerb);
}

function finalsOf({ partitions }: AccessRack): string[] {
  return partitions.map(({ name }) => finalVerb(name));
}

function inspectsOf({ partitions }: AccessRack): string[] {
  return partitions.map(({ name }) => inspectVerb(name));
}

function controlOf(run: string, verbs: readonly string[]): string[] {
  return verbs.map((verb) => patternOf({ kind: "control", run, verb }));
}

function answersBy(run: string, by: string): string {
  return patternOf({ kind: "answer", run, by, asker: ANY, number: ANY });
}

function answersTo(run: string, asker: string): string {
  return patternOf({ kind: "answer", run, by: ANY, asker, number: ANY });
}
