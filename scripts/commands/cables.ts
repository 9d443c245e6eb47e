import type { Command } from "commander";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import {
  FAULT_TERMS,
  type FaultTerm,
  type Impairment,
  IMPAIRMENT_ROWS,
  IMPAIRMENTS,
  type LinkFaultPlan,
  type LinkFaultRequest,
} from "../../fabric/rack/plan/link_plan.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { faultTable } from "../../console/reports/fault_report.ts";
import { linkFaultRequest, linkFaultsOf, orderLinkFault } from "../../console/rack/live/cables.ts";
import { type RackUp, withRack } from "../../console/rack/live/racks.ts";
import { addLiveOptions, addOrderOptions, given, type OrderFlags, timeOf } from "./options.ts";
import { printResult } from "./output.ts";

interface LinkFlags extends OrderFlags, Readonly<Partial<Record<FaultTerm, string>>> {
  readonly at?: string;
  readonly for?: string;
}

const TARGETS = `
TARGET is a cable (a-rnic/tor), one way of it (a-rnic->tor, in quotes), one of several between two
switches (leaf1/spine1#2), or a host for the cable of its RNIC. A fault begins now, or --at a time yet to
come, and lasts until it is healed, --until a time or --for a while.`;

export function addCables(program: Command): void {
  const link = program.command("link")
    .description("cut and heal cables of a rack that is up, or let them lose and damage frames")
    .addHelpText(
      "after",
      `${TARGETS}

A cut is noticed at both ends; a cut of one way is silent. All of it is written to faults.jsonl, from
which rack run … --pack all --faults FILE replays it. In a scenario, the same stands under faults:
  - { link: a, loss: 1%, from: 10us, until: 2ms, only: "RC ACKNOWLEDGE" }
  - { at: 40us, cut: a-rnic/tor }
  - { at: 60us, heal: a-rnic/tor }

Example:
  rack link loss a 1% --for 2ms
  rack link cut a-rnic/tor --at 5ms
  rack link heal a-rnic/tor
  rack link ls`,
    );
  addWhen(link.command("cut <target>"))
    .description("nothing gets through any more; both ends notice, unless it is one way")
    .action((target: string, flags: LinkFlags) => order({ target, action: "cut", flags }));
  addWhen(link.command("heal <target>"))
    .description("the end of every fault that the cable, or this way of it, has")
    .action((target: string, flags: LinkFlags) => order({ target, action: "heal", flags }));
  for (const action of IMPAIRMENTS) addImpairment(link, action);
  addLiveOptions(link.command("ls"))
    .description("what was ordered or planned, and how many frames it took so far")
    .action(list);
}

function addWhen(command: Command): Command {
  return addOrderOptions(command)
    .option("--at <time>", "at this virtual time (40us), instead of now");
}

const TERMS = Object.keys(FAULT_TERMS) as FaultTerm[];

function addImpairment(link: Command, action: Impairment): void {
  const { amount, like, what } = IMPAIRMENT_ROWS[action];
  const command = addWhen(link.command(`${action} <target> <${amount}>`))
    .description(`${what} (${like}${amount === "share" ? ", or all" : ""})`)
    .option("--for <time>", "for so long");
  for (const name of TERMS) {
    const row: { value: string; of?: Impairment; what: string } = FAULT_TERMS[name];
    if (row.of === undefined || row.of === action) {
      command.option(`--${name} <${row.value}>`, row.what.replaceAll("`by`", "--by"));
    }
  }
  command.action((target: string, value: string, flags: LinkFlags) =>
    order({ target, action, value, flags })
  );
}

interface Order {
  readonly target: string;
  readonly action: LinkFaultPlan["action"];
  readonly value?: string;
  readonly flags: LinkFlags;
}

async function order(wanted: Order): Promise<void> {
  const { action, target, flags } = wanted;
  await withRack(flags.run, async ({ rack, control }) => {
    const request = requestOf(rack, wanted);
    const ask = (verb: string, body: unknown) => control.ask(verb, body, { repeats: true });
    const answer = (await orderLinkFault(ask, request))!;
    if ("refused" in answer) throw refusal("", { found: `Cannot ${action}: ${answer.refused}` });
    const { at, fault } = answer.ok;
    const name = targetName(rack.file.plan, request);
    const what = action === "heal" || action === "cut" ? action : `${action} ${wanted.value}`;
    const text = `${target}: ${what} from ${formatTime(at)} on`;
    printResult(flags, { fault, action, target: name, atPs: at }, text);
  }, flags);
}

function requestOf({ file }: RackUp, order: Order): LinkFaultRequest {
  const { target, action, value, flags } = order;
  const terms = TERMS.map((name) => {
    const text = flags[name];
    return [name, FAULT_TERMS[name].value === "n" && text !== undefined ? Number(text) : text];
  });
  const at = laterOf("--at", flags.at), forPs = laterOf("--for", flags.for);
  return linkFaultRequest(file.plan, {
    target,
    action,
    terms: given({ [action]: value, ...Object.fromEntries(terms) }),
    ...given({ at, forPs }),
  });
}

function laterOf(option: string, text: string | undefined): Time | undefined {
  const expected = "a time > 0 such as 40us or 2.5ms";
  return text === undefined ? undefined : timeOf(option, text, { least: 1, expected });
}

async function list(flags: LinkFlags): Promise<void> {
  const rows = await withRack(flags.run, linkFaultsOf, { as: "viewer" });
  printResult(flags, rows, rows.length === 0 ? "No cable does anything wrong" : faultTable(rows));
}
