export interface TestCount {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly failures: readonly string[];
}

/** Of nested suite and test names, escaped as in XML. */
const NESTED = " &gt; ";

const MESSAGE_CHARACTERS = 240;

/**
 * Only the innermost tests count: a `describe` is reported as a test case too, and is recognised by
 * the names nested in it.
 */
export function countTests(junit: string): TestCount {
  const cases = [
    ...junit.matchAll(/<testcase name="([^"]*)"([^>]*)>([^]*?)(?=<testcase |<\/testsuite>)/g),
  ];
  const suites = new Set<string>(), files = new Map<string, string>();
  for (const [, name = "", attributes = ""] of cases) {
    const parts = name.split(NESTED), file = fileIn(attributes);
    if (parts.length === 1 && file !== undefined) files.set(name, file);
    for (let i = 1; i < parts.length; i++) suites.add(parts.slice(0, i).join(NESTED));
  }
  let passed = 0, skipped = 0;
  const failures: string[] = [];
  for (const [, name = "", attributes = "", body = ""] of cases) {
    if (suites.has(name)) continue;
    if (/<skipped\b/.test(body)) skipped++;
    else if (/<(failure|error)\b/.test(body)) {
      const file = fileIn(attributes) ?? files.get(name.split(NESTED)[0]!) ?? "?";
      failures.push(failureText(file, name, body));
    } else passed++;
  }
  return { passed, failed: failures.length, skipped, failures };
}

/** A test inside a `describe` has Deno's own file there: only the `describe` has its own. */
function fileIn(attributes: string): string | undefined {
  const file = /classname="(?:\.\/)?([^"]*)"/.exec(attributes)?.[1];
  return file?.startsWith("ext:") ? undefined : file;
}

function failureText(file: string, name: string, body: string): string {
  const message = unescaped(/<(?:failure|error)\b[^>]*message="([^"]*)"/.exec(body)?.[1] ?? "");
  const short = message.replaceAll(/\s+/g, " ").trim().slice(0, MESSAGE_CHARACTERS);
  return `${unescaped(file)}: ${unescaped(name)}: ${short}`;
}

function unescaped(xml: string): string {
  return xml.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"')
    .replaceAll("&apos;", "'").replaceAll(
      /&#(x?)([0-9a-fA-F]+);/g,
      (_, hex, digits) => String.fromCodePoint(parseInt(digits, hex === "x" ? 16 : 10)),
    ).replaceAll("&amp;", "&");
}
