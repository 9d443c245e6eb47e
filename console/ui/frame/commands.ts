import { parseTime, type Time } from "../../../fabric/base/time.ts";
import { IMPAIRMENTS } from "../../../fabric/rack/plan/link_plan.ts";
import { parseGoal } from "../../../fabric/trace/predicate.ts";
import { api, type LinkOrderInput } from "../data/api.ts";
import { topology, variant } from "../data/rack.ts";
import { askToDeleteCheckpoint } from "../runs/checkpoints.tsx";
import { openKill } from "../rack/power_acts.tsx";
import { go, instant, run, VIEW_NAMES } from "../state.ts";
import { time as timeText } from "../figures.ts";
import { order } from "./notice.tsx";
import { orderShutdown } from "./shutdown.ts";
import { bringUpAt } from "./resume.ts";
import { openTeam } from "./team.tsx";
import { drive, stepEvent, stepSpan, until } from "./time.ts";

export interface Command {
  /** As `rack --help` writes it. */
  readonly usage: string;
  readonly what: string;
  /** @throws Error with the found and the expected text. */
  readonly act: (words: readonly string[]) => void;
}

function rack(): string {
  const id = run.value;
  if (id === undefined) {
    throw new Error("Found no rack that is up: expected one, chosen in the bar");
  }
  return id;
}

function word(words: readonly string[], at: number, expected: string): string {
  const found = words[at];
  if (found === undefined) throw new Error(`Found nothing: expected ${expected}`);
  return found;
}

function timeOf(text: string): Time {
  const ps = parseTime(text);
  if (ps === undefined) throw new Error(`Found ${text}: expected a time as 3ms or 20us`);
  return ps;
}

function option(words: readonly string[], name: string): Time | undefined {
  const at = words.indexOf(name);
  return at < 0 ? undefined : timeOf(word(words, at + 1, `a time after ${name}`));
}

const ACTIONS = ["cut", "heal", ...IMPAIRMENTS] as const;

function orderLink(words: readonly string[]): void {
  const action = ACTIONS.find((each) => each === words[0]);
  if (action === undefined) {
    throw new Error(`Found ${words[0] ?? "nothing"}: expected ${ACTIONS.join(", ")}`);
  }
  const target = word(words, 1, "a cable as a-rnic/tor");
  const value = words[2]?.startsWith("--") ? undefined : words[2];
  const atPs = option(words, "--at"),
    forPs = option(words, "--for"),
    untilPs = option(words, "--until");
  const what: LinkOrderInput = {
    action,
    target,
    ...(value !== undefined && { value }),
    ...(atPs !== undefined && { atPs }),
    ...(forPs !== undefined && { forPs }),
    ...(untilPs !== undefined && { untilPs }),
  };
  void order(
    api.link(rack(), what),
    ({ atPs: at }) => `${action} ${target}: from ${timeText(at)} on`,
  );
}

function kill(words: readonly string[]): void {
  const name = word(words, 0, "a device"), atPs = option(words, "--at");
  rack();
  openKill(name, atPs);
}

function shutDown(words: readonly string[]): void {
  const node = word(words, 0, "a host"), withinPs = option(words, "--within");
  orderShutdown(rack(), { node, ...(withinPs !== undefined && { withinPs }) });
}

function start(words: readonly string[]): void {
  const node = word(words, 0, "a device");
  const what = {
    action: "start" as const,
    node,
    ...(words.includes("--accept-damage") && { acceptDamage: true }),
  };
  void order(api.power(rack(), what), ({ nodes }) => `${nodes.join(", ") || node}: power is back`);
}

function step(words: readonly string[]): void {
  const [many] = words;
  if (many === undefined) return void stepEvent();
  if (!/^\d+$/.test(many)) return void stepSpan(timeOf(many));
  void drive({ order: "step", events: Number(many) });
}

function untilWords(words: readonly string[]): void {
  const at = words.indexOf("--count"), rest = at < 0 ? words : words.toSpliced(at, 2);
  const count = at < 0 ? undefined : word(words, at + 1, "a number after --count");
  void until(parseGoal(rest, { count }));
}

function pace(words: readonly string[]): void {
  const text = word(words, 0, "virtual time in a second as 1ms, or full");
  void drive({ order: "pace", psPerSecond: text === "full" ? 0 : timeOf(text.replace("/s", "")) });
}

function resume(words: readonly string[]): void {
  if (words.length === 0) return void drive({ order: "resume" });
  if (words[0] !== "--at") throw new Error(`Found ${words[0]}: expected --at and an instant`);
  const at = word(words, 1, "a time or a checkpoint after --at");
  bringUpAt(rack(), { at: parseTime(at) ?? at, variant: variant.value });
}

function keep(words: readonly string[]): void {
  const [name] = words;
  if (name === "--delete") {
    const deleted = word(words, 1, "a checkpoint's name after --delete");
    return askToDeleteCheckpoint(rack(), deleted, variant.value);
  }
  const what = {
    ...(name !== undefined && { name }),
    ...(instant.value !== undefined && { atPs: instant.value }),
    ...(variant.value !== undefined && { variant: variant.value }),
  };
  void order(api.checkpoint(rack(), what), ({ name, atPs }) => `${name}: ${timeText(atPs)}`);
}

function goTo(words: readonly string[]): void {
  const name = VIEW_NAMES.find((each) => each === words[0]);
  if (name === undefined) {
    throw new Error(`Found ${words[0] ?? "nothing"}: expected ${VIEW_NAMES.join(", ")}`);
  }
  go({ view: name });
}

export const COMMANDS: readonly Command[] = [
  { usage: "kill DEVICE [--at TIME]", what: "power fails, now or at a virtual time", act: kill },
  {
    usage: "shutdown HOST [--within TIME]",
    what: "programs end, caches go to SCM; then power fails",
    act: shutDown,
  },
  { usage: "start DEVICE", what: "power comes back", act: start },
  {
    usage: "link ACTION CABLE [VALUE] [--for TIME]",
    what: `a fault of a cable: ${ACTIONS.join(", ")}`,
    act: orderLink,
  },
  {
    usage: "heal",
    what: "heals every cable, starts every device",
    act: () =>
      void order(
        api.heal(rack()),
        ({ healed, started, problems }) =>
          [...healed, ...started, ...problems].join(", ") || "Nothing is broken",
      ),
  },
  { usage: "pause", what: "stops virtual time", act: () => void drive({ order: "pause" }) },
  { usage: "resume [--at TIME|NAME]", what: "lets it run; a rack at an instant", act: resume },
  {
    usage: "checkpoint [NAME|--delete NAME]",
    what: "keeps where the rack stands, or the shown instant",
    act: keep,
  },
  { usage: "step [COUNT|TIME]", what: "instants with events, or so much time", act: step },
  { usage: "until TIME|STEP... [--count N]", what: "runs until then", act: untilWords },
  { usage: "pace TIME|full", what: "virtual time in a second", act: pace },
  { usage: "team", what: "who is here, invitations, locks, audit log", act: openTeam },
  { usage: "view NAME", what: "goes to a view", act: goTo },
];

export function commandIn(line: string): Command | undefined {
  const name = line.trim().split(/\s+/)[0];
  return COMMANDS.find(({ usage }) => usage.split(" ")[0] === name);
}

/** @throws Error with the line's problem. */
export function runCommand(line: string): void {
  const [name, ...words] = line.trim().replace(/^(?::|rack\s+)/, "").split(/\s+/);
  const command = COMMANDS.find(({ usage }) => usage.split(" ")[0] === name);
  if (command === undefined) {
    const names = COMMANDS.map(({ usage }) => usage.split(" ")[0]);
    throw new Error(`Found ${name || "nothing"}: expected ${names.join(", ")}`);
  }
  command.act(words);
}

export function completions(line: string): string[] {
  const words = line.split(/\s+/), last = words.at(-1)!;
  if (words.length === 1) {
    return COMMANDS.map(({ usage }) => usage.split(" ")[0]!).filter((name) =>
      name.startsWith(last)
    );
  }
  const isLink = words[0] === "link";
  if (isLink && words.length === 2) return ACTIONS.filter((name) => name.startsWith(last));
  const names = ["kill", "shutdown", "start"].includes(words[0]!)
    ? topology.value?.nodes.map(({ name }) => name)
    : isLink
    ? topology.value?.cables.filter(({ kind }) => kind === "network").map(({ name }) => name)
    : undefined;
  return (names ?? []).filter((name) => name.startsWith(last)).slice(0, 12);
}
