/** What the files of this clone say of the door `rackmesh`: its names, fields, calls and constants. */
import { textIfThere } from "../../../base/files.ts";
import { fromFileUrl, projectFile, ROOT } from "../../../base/paths.ts";

/** The fields of an interface of this clone, by its name: for the hint at the nearest one. */
export function fieldsOf(type: string): string[] {
  const found = new Set<string>();
  for (const file of doorFiles()) {
    const text = textIfThere(file) ?? "";
    const begin = new RegExp(`^(?:export )?interface ${type}\\b[^{]*\\{\\n`, "m").exec(text);
    if (begin === null) continue;
    const from = begin.index + begin[0].length;
    const body = text.slice(from, text.indexOf("\n}", from));
    for (const [, field] of body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)) found.add(field!);
  }
  return [...found];
}

const DOOR = "nodes/protocol.ts";

/** The names that the door exports, those of files that it exports as a whole among them. */
export function door(): string[] {
  const text = textIfThere(fromFileUrl(projectFile(DOOR))) ?? "";
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)]
    .flatMap(([, names]) => names!.split(",")).map((name) => name.replace(/\btype\b/, "").trim())
    .filter((name) => name !== "");
  const whole = [...text.matchAll(/^export \* from "(.*)"/gm)].flatMap(([, path]) => {
    const exported = textIfThere(fromFileUrl(new URL(path!, projectFile(DOOR)))) ?? "";
    return [...exported.matchAll(/^export (?:const|function\*?|type|interface|class) (\w+)/gm)]
      .map(([, name]) => name!);
  });
  return [...listed, ...whole];
}

/** The files of which the door exports something. */
function doorFiles(): string[] {
  const text = textIfThere(fromFileUrl(projectFile(DOOR))) ?? "";
  return [...text.matchAll(/from "\.{1,2}\/([^"]*)"/g)].map(([whole, path]) =>
    whole.includes('"../') ? `${ROOT}/${path}` : `${ROOT}/nodes/${path}`
  );
}

const VERBS = "nodes/host/verbs.ts";

/** The names of all functions of `device.verbs`. */
export function verbNames(): string[] {
  const text = textOf(VERBS), from = text.indexOf("\nconst verbs = {");
  const table = text.slice(from, text.indexOf("\n}", from));
  return [...table.matchAll(/^ {2}(\w+),$/gm)].map(([, name]) => name!);
}

/** How a function is called: `regMr(pd, buffer, options?)`. @param file that declares it; of a verb, not needed. */
export function signatureOf(name: string, file = verbFile(name)): string | undefined {
  const text = file === undefined ? "" : textIfThere(file) ?? "";
  // A function, or a method of an interface: cpu.waitSignal.
  const begin = new RegExp(`(?:\\bfunction\\*?\\s+|\\n {2})${name}\\s*(?:<[^(]*>)?\\(`).exec(text);
  if (begin === null) return undefined;
  const parameters = partsOf(text, begin.index + begin[0].length).map((parameter) => {
    const [, pattern = parameter, rest = ""] =
      /^(\{[^}]*\}|\[[^\]]*\]|[.\w]+)([^]*)$/.exec(parameter) ?? [];
    const isOptional = rest.startsWith("?") || / = /.test(rest.replaceAll("=>", ""));
    return pattern.replace(/\s+/g, " ") + (isOptional ? "?" : "");
  });
  return `${name}(${parameters.join(", ")})`;
}

/** The file of which `verbs.ts` imports a function. */
function verbFile(name: string): string | undefined {
  const imported = [...textOf(VERBS).matchAll(/^import \{([^}]*)\} from "\.\/(.*)";/gm)];
  const path = imported.find(([, names]) => new RegExp(`\\b${name}\\b`).test(names!))?.[2];
  return path === undefined ? undefined : `${ROOT}/nodes/host/${path}`;
}

/** What commas separate between a bracket and the one that closes it. @param from behind the bracket. */
function partsOf(text: string, from: number): string[] {
  const parts = [""];
  for (let i = from, depth = 0; i < text.length; i++) {
    const letter = text[i]!;
    if ("([{<".includes(letter)) depth++;
    if (")]}>".includes(letter) && text.slice(i - 1, i + 1) !== "=>" && --depth < 0) break;
    if (letter === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += letter;
  }
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

const PAGE = "scripts/scenarios/FROM_LIBIBVERBS.md";

/** Fields that have another name than in rdma-core: `["ibv_sge.addr"]`, `["Sge.address"]`. */
export function renamedFields(): { readonly there: string[]; readonly here: string[] }[] {
  const section = /^## Fields\n([^]*?)^## /m.exec(textOf(PAGE))?.[1] ?? "";
  return section.split("\n").filter((line) => line.startsWith("| `")).map((line) => {
    const names = (cell = "") => [...cell.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!);
    const [, there, here] = line.split("|");
    return { there: names(there), here: names(here) };
  });
}

/** The field of a type here that rdma-core calls so: `sges` of SendRequest for `sg_list` and `sgList`. */
export function fieldFor(type: string, word: string): string | undefined {
  const plain = (name: string) =>
    name.slice(name.lastIndexOf(".") + 1).replaceAll("_", "").toLowerCase();
  for (const { there, here } of renamedFields()) {
    const at = there.findIndex((name) => plain(name) === plain(word));
    if (at < 0) continue;
    // One for all, or one for each.
    const meant = here.length === 1 ? here[0]! : here[at];
    if (meant?.startsWith(`${type}.`)) return meant.slice(type.length + 1);
  }
  return undefined;
}

/** The text that is here what libibverbs' constant is there: `send` for IBV_WR_SEND. */
export function textFor(constant: string): string | undefined {
  if (!/^[A-Z]+_[A-Z0-9_]+$/.test(constant)) return undefined;
  const same = new RegExp(`\\b${constant}: "([\\w-]+)"`);
  return ["verb_kinds.ts", "verb_calls.ts"]
    .map((file) => same.exec(textOf(`nodes/host/calls/${file}`))?.[1])
    .find((text) => text !== undefined);
}

/** `IBV_SEND_…` for the type SendFlags: what its constants begin with. */
export function flagsOf(type: string): string | undefined {
  const declared = new RegExp(`^export const (\\w+): ${type} =`, "gm");
  const names = [...textOf("nodes/host/verbs/flags.ts").matchAll(declared)].map(([, name]) => name!)
    .filter((name) => name.startsWith("IBV_"));
  const [first] = names;
  if (first === undefined) return undefined;
  let begin = first.slice(0, first.lastIndexOf("_") + 1);
  while (!names.every((name) => name.startsWith(begin))) {
    begin = begin.slice(0, begin.lastIndexOf("_", begin.length - 2) + 1);
  }
  return `${begin}…`;
}

function textOf(file: string): string {
  return textIfThere(fromFileUrl(projectFile(file))) ?? "";
}
