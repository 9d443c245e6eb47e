/**
 * JUnit's XML, as far as GitHub's reporters, GitLab and Jenkins read it (the schema of Jenkins's
 * plug-in, `jenkins-junit.xsd`; "Unit test reports", docs.gitlab.com).
 */

/** `error`: no verdict. */
export interface JunitProblem {
  readonly kind: "failure" | "error";
  /** A word for its kind, and one line. */
  readonly type: string;
  readonly message: string;
  /** Default: the message. */
  readonly text?: string;
}

export interface JunitCase {
  readonly name: string;
  /** Absent: the case holds. */
  readonly problem?: JunitProblem | undefined;
  /** The subject of a case that holds, or the command that reproduces a problem. */
  readonly output?: string | undefined;
  /** Absent: none of its own. */
  readonly wallMs?: number | undefined;
}

export interface JunitSuite {
  readonly name: string;
  /** Of all its cases: reporters group them by it. */
  readonly classname: string;
  /** Absent: that of its cases. */
  readonly wallMs?: number | undefined;
  readonly properties?: Readonly<Record<string, string>>;
  readonly cases: readonly JunitCase[];
}

/**
 * The document.
 * @param name of the command.
 * @param suites at least one case in all: a report without any is taken for success.
 */
export function junitXml(name: string, suites: readonly JunitSuite[]): string {
  const cases = suites.flatMap((suite) => suite.cases);
  const wallMs = suites.reduce((sum, suite) => sum + wallMsOf(suite), 0);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${attributes({ name, ...countsOf(cases), time: seconds(wallMs) })}>`,
    ...suites.flatMap(suiteLines),
    "</testsuites>",
    "",
  ].join("\n");
}

function suiteLines(suite: JunitSuite): string[] {
  const { name, classname, properties = {}, cases } = suite;
  const time = seconds(wallMsOf(suite));
  const listed = Object.entries(properties).map(([name, value]) =>
    `      <property${attributes({ name, value })}/>`
  );
  return [
    `  <testsuite${attributes({ name, ...countsOf(cases), skipped: "0", time })}>`,
    ...(listed.length > 0 ? ["    <properties>", ...listed, "    </properties>"] : []),
    ...cases.flatMap((each) => caseLines(each, classname)),
    "  </testsuite>",
  ];
}

function caseLines({ name, problem, output, wallMs = 0 }: JunitCase, classname: string): string[] {
  const open = `    <testcase${attributes({ classname, name, time: seconds(wallMs) })}`;
  const inner = [
    ...(problem === undefined ? [] : [problemLine(problem)]),
    ...(output === undefined ? [] : [`      <system-out>${escaped(output)}</system-out>`]),
  ];
  return inner.length === 0 ? [`${open}/>`] : [`${open}>`, ...inner, "    </testcase>"];
}

function problemLine({ kind, type, message, text = message }: JunitProblem): string {
  return `      <${kind}${attributes({ type, message })}>${escaped(text)}</${kind}>`;
}

function countsOf(cases: readonly JunitCase[]) {
  const count = (kind: JunitProblem["kind"]) =>
    `${cases.filter(({ problem }) => problem?.kind === kind).length}`;
  return { tests: `${cases.length}`, failures: count("failure"), errors: count("error") };
}

function wallMsOf({ wallMs, cases }: JunitSuite): number {
  return wallMs ?? cases.reduce((sum, each) => sum + (each.wallMs ?? 0), 0);
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(3);
}

function attributes(all: Readonly<Record<string, string>>): string {
  return Object.entries(all).map(([name, value]) =>
    ` ${name}="${escaped(value).replaceAll('"', "&quot;").replaceAll("\n", "&#10;")}"`
  ).join("");
}

/** XML 1.0 §2.2: no other character may stand in a document, not even by its number. */
const NO_CHARACTER = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

function escaped(text: string): string {
  return text.replaceAll(NO_CHARACTER, "\u{FFFD}").replaceAll("&", "&amp;").replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
}
