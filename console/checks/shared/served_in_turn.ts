/**
 * C-09 with decision 9, fair service: of the requests for a line that home's card has taken, none
 * is passed over by later ones. So nothing holds a host up beyond its lease.
 */
import type { LineTurnRecord } from "../../../fabric/audit.ts";
import { PASSES_MAX } from "../../../fabric/coherence/home_card_state.ts";
import { countOf, type Finding } from "../finding.ts";
import { lifeAt } from "../lives.ts";
import { checkerOf, type CheckSteps, inSteps, mostOf, type RunRecord } from "../run_record.ts";
import { usesRegions } from "./accesses.ts";

export const servedInTurn = checkerOf({
  name: "requests-are-served-in-turn",
  promise:
    "A request that home's card has taken begins before those for its line that came later; " +
    "only what the local cache gives back goes ahead of it.",
  looked: (run) => countOf(begunIn(run), "request for a line", "requests for lines"),
  subjects: begunIn,
  concerns: usesRegions,
  without: "no far host and no verb asked for a line",
  steps: checkTurns,
});

function begunIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "line-turn" && note.step === "begun").length;
}

interface Waiting {
  readonly note: LineTurnRecord;
  passed: number;
}

function* checkTurns(run: RunRecord): CheckSteps {
  const findings: Finding[] = [];
  const queues = new Map<string, Waiting[]>();
  yield* inSteps(run.notes, ({ time, node, note }) => {
    if (note.kind !== "line-turn") return undefined;
    // A card without power loses accepted requests; one that is reset with its host drops them.
    const key = `${node} ${lifeAt(run, node, time)} ${note.region} ${note.line}`;
    const queue = queues.get(key) ?? [];
    queues.set(key, queue);
    if (note.step === "taken") {
      queue.push({ note, passed: 0 });
      return undefined;
    }
    const at = queue.findIndex((each) =>
      each.note.agent === note.agent && each.note.request === note.request
    );
    const place = `line ${note.line} of ${note.region} at ${time} ps`;
    if (at < 0) {
      const text = `${node}: ${textOf(note)} for ${place} was never taken`;
      findings.push({ text, at: { node, time } });
    } else {
      queue.splice(at, 1);
    }
    for (const each of note.step === "begun" ? queue.slice(0, Math.max(0, at)) : []) {
      if (++each.passed !== PASSES_MAX + 1) continue;
      const text = `${node}: ${textOf(each.note)} waits for ${place} while ${each.passed} ` +
        `that came later were served, the last one ${textOf(note)}`;
      findings.push({ text, at: { node, time } });
    }
    return findings.length >= mostOf(run) ? "stop" : undefined;
  });
  return findings.slice(0, mostOf(run));
}

function textOf({ agent, request }: LineTurnRecord): string {
  return `${request} of ${agent === 0 ? "the local cache" : `far card ${agent}`}`;
}
