/** P-41: a node without power does nothing: it sends, receives, reports and persists nothing. */
import { checkerOf, type CheckSteps, inSteps, mostOf, type RunRecord } from "./run_record.ts";
import { lifeAt } from "./lives.ts";
import { countOf, type Finding } from "./finding.ts";

export const silence = checkerOf({
  name: "silent-without-power",
  promise:
    "A node that has no power reports and notes nothing, sends and receives nothing, and makes " +
    "nothing persistent.",
  looked: (run) => countOf(deathsIn(run), "power failure"),
  subjects: deathsIn,
  without: "nothing has lost its power",
  steps: checkSilence,
});

function deathsIn({ lives }: RunRecord): number {
  return [...lives.values()].flat().filter(({ to }) => to !== Infinity).length;
}

function* checkSilence(run: RunRecord): CheckSteps {
  const findings: Finding[] = [], most = mostOf(run);
  const look = (node: string, time: number, act: string) => {
    if (findings.length >= most || lifeAt(run, node, time) >= 0) return;
    const text = `${node} ${act} at ${time} ps, when it has no power`;
    findings.push({ text, at: { node, time } });
  };
  yield* inSteps(run.reports, ({ node, time, topic }) => look(node, time, `reports ${topic}`));
  yield* inSteps(run.notes, ({ node, time, note }) => look(node, time, `notes ${note.kind}`));
  yield* inSteps(run.durable ?? [], ({ node, time }) => look(node, time, "makes bytes persistent"));
  return [...findings, ...run.wire?.withoutPower ?? []].slice(0, most);
}
