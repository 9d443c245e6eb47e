import type { Command } from "commander";
import { PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { consoleDoor } from "../../console/rack/native/native.ts";
import { bringUp } from "../../console/rack/bring_up.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { allowedFolder, readScenario } from "../../console/scenarios/scenario_source.ts";
import { askForLink } from "../../console/server/link_door.ts";
import { checkListen } from "../../console/server/listen.ts";
import { makePage } from "../../console/server/page.ts";
import { startConsole, type Started } from "../../console/server/start.ts";
import { attachTo, refuseWithoutAttach } from "./attach.ts";
import { onInterrupt } from "./interrupt.ts";
import { addNatsOptions, given, type NatsCredentialFlags, whole, wordOf } from "./options.ts";
import {
  addPackOption,
  addVariantOptions,
  prepareOptions,
  type VariantFlags,
} from "./rack_options.ts";
import { print, printResult, Progress, say } from "./output.ts";

interface ConsoleFlags extends VariantFlags, NatsCredentialFlags {
  readonly pack: string;
  readonly port: string;
  readonly listen: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly insecure?: boolean;
  readonly host?: readonly string[];
  readonly viewer?: boolean;
  readonly link?: boolean;
  readonly allowNative?: boolean;
  readonly attach?: string;
  readonly run?: string;
  readonly json?: boolean;
}

export function addConsole(program: Command): void {
  const command = addNatsOptions(addVariantOptions(program.command("console [scenario]")));
  addPackOption(command, { words: PROCESS_PACKINGS, normal: "node" })
    .description("a web page that shows racks and gives them orders; brings the scenario up first")
    .option("--port <n>", "0: any free one", "0")
    .option("--listen <address>", "another than loopback needs TLS, or --insecure", "127.0.0.1")
    .option("--tls-cert <file>", "a certificate, PEM")
    .option("--tls-key <file>", "its key, PEM")
    .option("--insecure", "another address without TLS: keys and data can be read on the way")
    .option("--host <name...>", "other names by which browsers reach it")
    .option("--viewer", "print a second address, for somebody who may only look")
    .option("--link", "start nothing: print a new address of the console that runs, or of --port's")
    .option(
      "--allow-native",
      "let jobs start native programs, which have your rights; kept runs are looked at without",
    )
    .option("--attach <urls>", "show a rack that runs elsewhere, as rack attach finds it")
    .option("--run <id>", "with --attach: which run there")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
It prints one address, which signs in one browser, once; --link prints another. Ctrl-C ends it, and takes down the racks that it has
brought up, no others. RACKMESH_CONSOLE_KEY, of 32 letters or more, is a key for scripts (Authorization: Bearer);
console/server/README.md has the API.

Example:
  rack console scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio on
  rack console --port 4280 --json
  rack console --link --viewer`,
    )
    .action(console);
}

async function console(scenario: string | undefined, flags: ConsoleFlags): Promise<void> {
  const { listen: address, tlsCert, tlsKey, insecure, host, viewer, allowNative, json } = flags;
  const quiet = json === true;
  refuseWithoutAttach(flags, { "--run": flags.run });
  if (flags.link) return await printLink(scenario, flags);
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    const found = tlsCert === undefined ? "--tls-key alone" : "--tls-cert alone";
    throw refusal("", { found, expected: "both, or none" });
  }
  const place = {
    address,
    port: whole("--port", flags.port, { least: 0, most: 65_535 }),
    ...(tlsCert !== undefined && tlsKey !== undefined && { tls: { cert: tlsCert, key: tlsKey } }),
    ...given({ isInsecure: insecure, names: host }),
  };
  checkListen(place);
  const prepare = prepareOptions(flags, wordOf("--pack", flags.pack, PROCESS_PACKINGS));
  if (flags.attach !== undefined && scenario !== undefined) {
    throw refusal("--attach", { found: "together with a scenario", expected: "one of them" });
  }
  const attached = flags.attach === undefined ? undefined : await attachTo(flags.attach, flags);
  const signal = onInterrupt("ending the console");
  const page = await makePage();
  let rack: string | undefined;
  if (scenario !== undefined) {
    const progress = new Progress({ quiet });
    const up = await bringUp(await readScenario(scenario, flags), {
      prepare: { ...prepare, native: consoleDoor(allowNative, quiet ? undefined : say) },
      signal,
      onLeftOut: (hosts) => {
        if (!quiet) say(`put on ${hosts.join(", ")} is left out as it has no file`);
      },
      onProgress: (title, share) => progress.show(title, share),
    }).finally(() => progress.clear());
    rack = up.id;
  }
  const fixedKey = Deno.env.get("RACKMESH_CONSOLE_KEY") || undefined;
  const started = await startConsole({
    ...place,
    page,
    ...given({ rack, shown: attached?.runFile.run, fixedKey, allowNative }),
    allowRead: (flags.allowRead ?? []).map(allowedFolder),
    onError: (error) => say(error instanceof Error ? error.stack ?? error.message : String(error)),
  }).catch(async (error) => {
    if (rack !== undefined) await takeRacksDown({ run: rack });
    throw error;
  });
  try {
    await tell(started, {
      rack: rack ?? attached?.runFile.run,
      viewer: viewer === true,
      json: quiet,
    });
    await aborted(signal);
  } finally {
    const { down, left } = await started.end();
    if (!quiet) {
      for (const id of down) say(`${id} is down`);
      for (const id of left) say(`${id} stays up: rack down --run ${id}`);
    }
  }
}

async function printLink(scenario: string | undefined, flags: ConsoleFlags): Promise<void> {
  if (scenario !== undefined) {
    const found = `--link and the scenario ${scenario}`;
    throw refusal("", { found, expected: "one of them: --link starts nothing" });
  }
  const port = whole("--port", flags.port, { least: 0, most: 65_535 });
  const role = flags.viewer ? "viewer" : "operator";
  const { url, origin } = await askForLink(role, port === 0 ? undefined : port);
  printResult(flags, { url, role, origin }, role === "viewer" ? `${url} (may only look)` : url);
}

async function tell(
  started: Started,
  { rack, viewer, json }: {
    readonly rack: string | undefined;
    readonly viewer: boolean;
    readonly json: boolean;
  },
): Promise<void> {
  const { origins, auditFile } = started;
  const url = await started.link("operator");
  const look = viewer ? await started.link("viewer") : undefined;
  if (json) {
    const document = { url, ...given({ viewerUrl: look, rack }), origin: origins[0], auditFile };
    return print(JSON.stringify(document));
  }
  print(url);
  if (look !== undefined) print(`${look} (may only look)`);
  if (rack !== undefined) say(`${rack} is up`);
  say("each address signs in one browser, once; Ctrl-C ends the console");
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}
