/** A scenario to begin with: it runs as it is, and its comments name further options. */
import { relative } from "node:path";
import { NAME_PATTERN } from "../../fabric/rack/scenario/schema.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { ROOT } from "../base/paths.ts";
import { SCHEMA_COMMENT, SCHEMA_FILE } from "./shipped.ts";

/** Returns the scenario's name. @throws Refusal where the file exists. */
export async function writeNewScenario(file: string): Promise<string> {
  const name = nameFor(file);
  try {
    const folder = await Deno.realPath(file.replace(/[^/]*$/, "") || ".");
    const text = newScenario({ name, schema: schemaFrom(folder) });
    await Deno.writeTextFile(file, text, { createNew: true });
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) {
      const expected = "the name of a file that is not there yet";
      throw refusal("", { found: `${file} is there already`, expected, cause });
    }
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw refusal("", { found: `Cannot write ${file}`, expected: "a folder that is there", cause });
  }
  return name;
}

function nameFor(file: string): string {
  const name = file.replace(/.*\//, "").replace(/\.ya?ml$/, "")
    .replaceAll(/[^A-Za-z0-9]+/g, "-").replace(/^-+/, "").slice(0, 40).replace(/-+$/, "");
  return NAME_PATTERN.test(name) ? name : "my-rack";
}

/** Relative within the project, so that a clone of it may lie anywhere. */
function schemaFrom(folder: string): string {
  if (folder !== ROOT && !folder.startsWith(`${ROOT}/`)) return SCHEMA_FILE;
  const path = relative(folder, SCHEMA_FILE);
  return path.startsWith(".") ? path : `./${path}`;
}

/** @param schema where its JSON schema is. */
export function newScenario(
  { name, schema }: { readonly name: string; readonly schema: string },
): string {
  return `${SCHEMA_COMMENT}${schema}
# One host makes 64 KiB persistent on another, by two methods, with DDIO off and on.
#   rack validate FILE    is it right?
#   rack run FILE         run it to its end, and report
#   rack up FILE          bring one of its runs up, with --method and --ddio, and look around: rack ps
# All that a scenario may say is in scripts/scenarios/SCENARIO.md.
name: ${name}

# Of all that is drawn by chance: the same seed gives the same run.
seed: 7
# Timings of processors, memories, cards and switches.
profile: clx-optane-cx5

# One switch; or "direct" (two hosts, one cable), "leaf-spine" (leaves: 2, spines: 2), "fat-tree" (k: 4), or
# "explicit" (switches: s1..s2, cables: [a/s1, b/s2, s1/s2]).
fabric: { topology: star, mtu: 4096, rate: 100Gbps }

# Each host has an RNIC: host b has b-rnic. "h1..h8: {}" is eight hosts.
hosts:
  a: {}
  b:
    ddio: both # on, off, or both: two runs
    domain: adr # or eadr (caches survive a power failure), wsp (all of it does)
    scm: { size: 64MiB }

# Shipped programs are put, append, get, list, remove, log, log-read, bulk, sink, perftest, perftest-server,
# many-queues and many-queues-server.
# A program of your own is a file: { on: a, program: ./my_protocol.ts }
programs:
  - { on: a, run: put, to: b, bytes: 64KiB, method: [write-read, persist-opcode], depth: 16, size: 4KiB }

# What goes wrong, at instants of virtual time. Take the marks away to try it.
#faults:
#  - { at: 400us, kill: b } # power fails: what is in b's caches and card is lost
#  - { at: 600us, start: b } # and comes back: its services run again, and programs with restart: true
#  - { link: a, loss: 1%, until: 300us } # one frame in a hundred on a's cable
#  - { at: 700us, cut: a-rnic/tor }
#  - { at: 800us, heal: a-rnic/tor }

# Checks that the scenario is about: a run fails where one has nothing to look at.
expect:
  - survives-what-was-reported
`;
}
