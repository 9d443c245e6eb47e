/**
 * The generator functions that a user's file exports, told from its text: the rule about unused steps looks at one
 * file at a time (`unused_steps.ts`).
 */

const EXPORT = /^export (default )?(?:(function)\s*(\*)?\s*(\w*)|(?:const|let) (\w+)[^=;\n]*= *)/gm;
const STEPS_TYPE = /^\s*:\s*(?:Steps|Generator)\s*</;

/** Names of functions that return steps; `default` for the default export; `Sender.send` of a class. */
export function exportedSteps(text: string): string[] {
  const found = new Set<string>();
  for (const match of text.matchAll(EXPORT)) {
    const [all, isDefault, isFunction, star, name, variable] = match;
    const behind = match.index + all.length;
    const makes = isFunction === undefined
      ? /^function\s*\*/.test(text.slice(behind)) || returnsSteps(text, behind)
      : star !== undefined || returnsSteps(text, behind);
    if (!makes) continue;
    if (isDefault !== undefined) found.add("default");
    else if (name || variable) found.add(name || variable!);
  }
  for (const [own, as] of exportedNames(text)) if (makesSteps(text, own)) found.add(as);
  for (const [, isDefault, name = "", body] of text.matchAll(CLASS)) {
    for (const [, method] of body!.matchAll(/^ +(?:override )?\*\s*(\w+)\s*[(<]/gm)) {
      found.add(`${isDefault === undefined ? name : "default"}.${method}`);
    }
  }
  return [...found];
}

/** A class that is exported, to the brace that closes it. */
const CLASS = /^export (default )?(?:abstract )?class (\w*)[^{]*\{\n([^]*?)^\}/gm;

/** `export { send, plain as other };` and `export default send;` */
function* exportedNames(text: string): Generator<[own: string, as: string]> {
  for (const [, list] of text.matchAll(/^export \{([^}]*)\}\s*;/gm)) {
    for (const each of list!.split(",")) {
      const [, own, as = own] = /^\s*(\w+)(?:\s+as\s+(\w+))?\s*$/.exec(each) ?? [];
      if (own !== undefined) yield [own, as!];
    }
  }
  for (const [, own] of text.matchAll(/^export default (\w+);/gm)) yield [own!, "default"];
}

/** Whether a function of the file makes steps. */
function makesSteps(text: string, name: string): boolean {
  if (new RegExp(`^(?:export )?function\\s*\\*\\s*${name}\\b`, "m").test(text)) return true;
  const constant = new RegExp(`^(?:export )?const ${name} = function\\s*\\*`, "m");
  return constant.test(text);
}

/** Whether the first parameters from there on are followed by the type of steps. */
function returnsSteps(text: string, from: number): boolean {
  const open = text.slice(from).search(/[({;=]/) + from;
  if (text[open] !== "(") return false;
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "(") depth++;
    else if (text[at] === ")" && --depth === 0) return STEPS_TYPE.test(text.slice(at + 1, at + 40));
  }
  return false;
}
