/**
 * What a tree says of two options that a test has added to it, as JSON on stdout: `tests/tools/options_test.ts` puts this
 * module into a copy of the tree.
 */
import { parseHTML } from "linkedom";
import { h, render } from "preact";
import { jobOrder } from "../../console/api/jobs.ts";
import { EXPLORE_OPTIONS } from "../../console/api/options.ts";
import { exploreOptions } from "../../console/explore/options.ts";
import { choicesOf, exploreValues, readQuestion } from "../../console/testing/question.ts";
import { fromOrder, valuesIn } from "../../fabric/rack/plan/option_rows.ts";
import { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";

const TEXT =
  "name: x\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: put, to: b, bytes: 64 }]\n";

function errorOf(work: () => unknown): string {
  try {
    work();
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** The labels of the forms of two views, as an operator sees them. */
async function formLabels(): Promise<string[][]> {
  const { document, window } = parseHTML("<html><body></body></html>");
  Object.assign(globalThis, {
    ...{ document, window, location: new URL("http://127.0.0.1/"), history: { replaceState() {} } },
    matchMedia: () => ({ matches: false, addEventListener() {} }),
    ...{ addEventListener() {}, fetch: () => new Promise(() => {}) },
  });
  const { signedIn } = await import("../../console/ui/data/session.ts");
  signedIn.value = { state: "in", session: { role: "operator" } } as typeof signedIn.value;
  const { EXPLORE } = await import("../../console/ui/explore/explore_view.tsx");
  const { CHAOS } = await import("../../console/ui/explore/chaos_view.tsx");
  return [EXPLORE, CHAOS].map(({ Page }) => {
    const root = document.createElement("main");
    render(h(Page, {}), root);
    return [...root.querySelectorAll("form label")].map((label) => label.textContent!);
  });
}

const order = { kind: "explore", scenario: { text: TEXT } } as const;
const sent = jobOrder.parse({ ...order, burst: 3, patience: 4 });
const asked = readQuestion({
  kind: "explore",
  options: { scenario: "x", burst: 3, patience: 4 },
});
if (sent.kind !== "explore" || asked.kind !== "explore") throw new Error("another kind");
const [variant] = variants(parseScenario(TEXT, "x.yaml"), valuesIn(CHOICES, sent));

console.log(JSON.stringify({
  ordered: [
    variant!.programs[0]!.options,
    exploreOptions(fromOrder(EXPLORE_OPTIONS, sent)),
  ],
  refusedOrders: [{ burst: 999 }, { patience: 10 }].map((given) =>
    jobOrder.safeParse({ ...order, ...given }).success
  ),
  tested: [choicesOf(asked.options), exploreValues(asked.options)],
  refusedTests: [{ burst: 999 }, { patience: 10 }].map((given) =>
    errorOf(() => readQuestion({ kind: "explore", options: { scenario: "x", ...given } }))
  ),
  forms: await formLabels(),
}));
Deno.exit(0);
