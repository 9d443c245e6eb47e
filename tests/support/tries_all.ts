/** A program that uses real globals, as though it had found a way to them. */

/** Each throws where it is refused. The text is no bundle, so real globals stand in it. */
const ATTEMPTS = {
  "read a file": 'Deno.readTextFileSync("/etc/hostname")',
  "look at a file": 'Deno.statSync("/etc")',
  "write a file": 'Deno.writeTextFileSync(DIRECTORY + "/run.json", "")',
  "write another host's SCM": 'Deno.writeTextFileSync(DIRECTORY + "/scm/b.scm", "")',
  "write a log": 'Deno.writeTextFileSync(DIRECTORY + "/logs/a.log", "")',
  "read the environment": "Deno.env.toObject()",
  "read a credential": 'Deno.env.get("RACKMESH_NATS_PASSWORD")',
  "start a process": 'new Deno.Command("true").outputSync()',
  "listen": "Deno.listen({ port: 0 })",
  "look at the machine": "Deno.hostname()",
  "load a library": 'Deno.dlopen("libc.so.6", {})',
  "make code": 'new Function("return 1")()',
} as const;
/** Each rejects. */
const LATER = {
  "connect": 'Deno.connect({ hostname: "127.0.0.1", port: 22 })',
  "look up a name": 'Deno.resolveDns("localhost", "A")',
  "import a file": 'import("/etc/" + "hostname")',
  "import from afar": 'import("https://deno.land/x/" + "any.ts")',
  "be given a right": 'Deno.permissions.request({ name: "read" }).then(({ state }) => {' +
    ' if (state === "granted") return; throw new Deno.errors.NotCapable(state); })',
} as const;

/**
 * The text of a program that tries it all when it is loaded, in the program, in its recovery and in its
 * check. It reports what has become of each attempt: "done", or the name of an error; its recovery
 * answers that, and its check says all of it where a host was cut.
 * @param directory of the run.
 */
export function triesAll(directory: string): string {
  const attempts = Object.entries(ATTEMPTS).map(([what, use]) =>
    `  try { ${use}; found[${JSON.stringify(what)}] = "done"; }` +
    ` catch (error) { found[${JSON.stringify(what)}] = error.name; }\n`
  );
  const later = Object.entries(LATER).map(([what, use]) =>
    `await ${use}.then(() => found[${JSON.stringify(what)}] = "done", ` +
    `(error) => found[${JSON.stringify(what)}] = error.name);\n`
  );
  return `const DIRECTORY = ${JSON.stringify(directory)}, later = {};
{ const found = later;
${later.join("")}}
function tried() {
  const found = { ...later };
${attempts.join("")}  return found;
}
export default function instance(module) {
  module.exports.default = function* ({ cpu }) {
    cpu.report("result", tried());
    yield* cpu.sleep(1);
  };
  module.exports.recover = function* () { return tried(); };
  module.exports.check = ({ hosts }) => {
    const cut = Object.values(hosts).filter(({ survived }) => !survived);
    if (cut.length === 0) return;
    return JSON.stringify({ checked: tried(), recovered: cut.map((host) => host.recovered) });
  };
}
`;
}

/** What is found where all of it is refused. */
export function allRefused(): Record<string, string> {
  const others: Readonly<Record<string, string>> = {
    "make code": "EvalError",
    "import a file": "TypeError",
    "import from afar": "TypeError",
  };
  const all = [...Object.keys(LATER), ...Object.keys(ATTEMPTS)];
  return Object.fromEntries(all.map((what) => [what, others[what] ?? "NotCapable"]));
}
