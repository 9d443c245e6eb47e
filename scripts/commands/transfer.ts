import type { Command } from "commander";
import { MAX_RNICS } from "../../fabric/rack/plan/names.ts";
import { helpOf } from "../../fabric/rack/plan/option_rows.ts";
import { CHOICES, TRANSFER_CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { formatTime, PS_PER_S } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { type RackLink, withRack } from "../../console/rack/live/racks.ts";
import {
  getObject,
  listObjects,
  putObject,
  removeObject,
  type TransferOptions,
  type TransferResult,
} from "../../console/rack/live/transfer.ts";
import { isOutput } from "../../console/base/replace_file.ts";
import { tableText } from "../../console/reports/table.ts";
import {
  addOrderOptions,
  addTable,
  type FlagsOf,
  given,
  type OrderFlags,
  readTable,
  whole,
  wordOption,
} from "./options.ts";
import { printResult, Progress, say } from "./output.ts";

const METHOD = { method: CHOICES.method };

interface TransferFlags extends OrderFlags, FlagsOf<typeof TRANSFER_CHOICES> {
  readonly from?: string;
  readonly to?: string;
  readonly on?: string;
  readonly nic?: string;
  readonly as?: string;
  readonly method?: string;
  readonly timeout: string;
  readonly partial?: boolean;
}

export function addTransfer(program: Command): void {
  transferCommand(program, "get <object> <file>", "read an object out of a host's SCM, by RDMA")
    .requiredOption("--from <host>", "whose SCM; an RNIC of the host chooses the way: b-rnic2")
    .option("--partial", "an incomplete object, too")
    .addHelpText("after", "\nExample:\n  rack get --from b data.bin ./copy.bin")
    .action(get);
  transferCommand(program, "put <file>", "make a file persistent in a host's SCM, by RDMA")
    .requiredOption("--to <host>", "whose SCM; an RNIC of the host chooses the way: b-rnic2")
    .option("--as <object>", "what it is called there; else as the file")
    .addOption(
      wordOption("--method <name>", helpOf(METHOD.method), METHOD.method.words)
        .default("persist-opcode"),
    )
    .addHelpText("after", "\nExample:\n  rack put --to b ./data.bin --method write-read")
    .action(put);
  addOrderOptions(program.command("ls"))
    .description("objects in a host's SCM, as its service lists them to another host")
    .requiredOption("--from <host>", "whose SCM")
    .option("--on <host>", "the host that sends the request; else the first other host")
    .option("--timeout <seconds>", "how long to wait", "120")
    .addHelpText("after", "\nExample:\n  rack ls --from b")
    .action(ls);
  addOrderOptions(program.command("rm <object>"))
    .description("remove an object from a host's SCM: its space is free when the command ends")
    .requiredOption("--from <host>", "whose SCM")
    .option("--on <host>", "the host that sends the request; else the first other host")
    .option("--timeout <seconds>", "how long to wait", "120")
    .addHelpText("after", "\nExample:\n  rack rm --from b data.bin")
    .action(rm);
}

function transferCommand(program: Command, usage: string, description: string): Command {
  const command = addOrderOptions(program.command(usage)).description(description)
    .option("--on <host>", "on which host the program runs; else the first other one")
    .option("--nic <n>", "by which of its RNICs, from 1; else the first");
  return addTable(command, TRANSFER_CHOICES)
    .option("--timeout <seconds>", "how long to wait", "120");
}

async function transfer<T>(
  flags: TransferFlags,
  action: (link: RackLink, options: TransferOptions) => Promise<T>,
): Promise<T> {
  const progress = new Progress({ quiet: flags.json === true });
  const { on, nic } = flags;
  const options: TransferOptions = {
    ...given({ on }),
    ...(nic !== undefined && { nic: whole("--nic", nic, { least: 1, most: MAX_RNICS }) }),
    ...readTable(TRANSFER_CHOICES, flags),
    timeoutSeconds: whole("--timeout", flags.timeout, { least: 1, most: 86_400 }),
    onProgress: (title, share) => progress.show(title, share),
    onHeld: (program, { now }) =>
      say(`Time is held at ${formatTime(now)}: ${program} waits for rack resume, step or until`),
  };
  const { overrideLock } = flags;
  return await withRack(flags.run, (link) => action(link, options), given({ overrideLock }))
    .finally(() => progress.clear());
}

async function get(object: string, file: string, flags: TransferFlags): Promise<void> {
  const from = flags.from!, partial = flags.partial === true;
  const result = await transfer(
    flags,
    (link, options) => getObject(link, { ...options, from, object, file, partial }),
  );
  const { bytes } = result;
  const what = `${bytes} B${result.incomplete ? ", incomplete," : ""}`;
  const text = `${object}: ${what} from ${from} to ${file} in ${speed(bytes, result)}`;
  // The object's output contains nothing else.
  if (isOutput(file)) say(flags.json ? JSON.stringify(result) : text);
  else printResult(flags, result, text);
}

async function put(file: string, flags: TransferFlags): Promise<void> {
  const to = flags.to!, method = readTable(METHOD, flags).method!;
  const name = flags.as ?? file.split("/").at(-1)!;
  const content = await readInput(file);
  const result = await transfer(
    flags,
    (link, options) => putObject(link, { ...options, to, file, content, name, method }),
  );
  const { promises, confirmedMessages, messages, withdrawn = false } = result;
  const promised = promises
    ? `${confirmedMessages} of ${messages} messages persistent`
    : "nothing of it is promised to be persistent by this method here, so it is marked incomplete";
  const gone = withdrawn ? "; the old object went first, as there was no room for both" : "";
  const { length } = content;
  const text = `${name}: ${length} B to ${to} by ${method} in ${
    speed(length, result)
  }: ${promised}${gone}`;
  printResult(flags, result, text);
}

async function readInput(file: string): Promise<Uint8Array<ArrayBuffer>> {
  const content = await Deno.readFile(file).catch((cause) => {
    throw refusal("", { found: `Cannot read ${file}: ${(cause as Error).message}`, cause });
  });
  if (content.length > 0) return content;
  throw refusal("", { found: `${file} is empty`, expected: "at least one byte" });
}

async function ls(flags: TransferFlags): Promise<void> {
  const from = flags.from!;
  const result = await transfer(flags, (link, options) => listObjects(link, { ...options, from }));
  const { objects } = result;
  const text = objects.length === 0 ? `${from} has no objects` : tableText([
    { title: "object", value: ({ name }) => name },
    { title: "bytes", value: ({ length }) => length },
    { title: "state", value: ({ incomplete }) => incomplete ? "incomplete" : "complete" },
  ], objects);
  printResult(flags, result, text);
}

async function rm(object: string, flags: TransferFlags): Promise<void> {
  const from = flags.from!;
  const result = await transfer(
    flags,
    (link, options) => removeObject(link, { ...options, from, object }),
  );
  printResult(flags, result, `${object}: removed from ${from}`);
}

function speed(bytes: number, { startPs, endPs }: TransferResult): string {
  const rate = (bytes * 8 / ((endPs - startPs) / PS_PER_S) / 1e9).toFixed(1);
  return `${formatTime(endPs - startPs)} of virtual time (${rate} Gb/s)`;
}
