/** What a check has found, each with the way to its cause. */
import { useSignal } from "@preact/signals";
import type { Report } from "../../api/report.ts";
import type { RunDetail } from "../../api/runs.ts";
import { count, sentence, time, wordsOfVariant } from "../figures.ts";
import { framesHref, instantHref, memoryHref, showLadder, showMemory } from "../frame/causes.ts";

/** At first, and each time more of them. */
const FINDINGS_SHOWN = 20;

type Check = Report["checks"][number];
type Known = NonNullable<Check["findings"]>[number];
/** A run of an earlier version does not tell the instants of all. */
type Finding = Omit<Known, "at"> & Partial<Pick<Known, "at">>;

export function Findings({ check, detail }: { readonly check: Check; readonly detail: RunDetail }) {
  const most = useSignal(FINDINGS_SHOWN);
  const { findings: known, mayBeMore } = check;
  const findings: readonly Finding[] = known ??
    check.detail.split("; ").map((text) => ({ variant: "", text }));
  const shown = findings.slice(0, most.value), left = findings.length - shown.length;
  return (
    <>
      <ul class="plain-list">
        {shown.map((each, i) => (
          <li key={i}>
            {each.variant !== "" && detail.variants.length > 1 && `${each.variant}: `}
            {sentence(each.text)} <Cause detail={detail} finding={each} />
          </li>
        ))}
      </ul>
      {(findings.length > FINDINGS_SHOWN || mayBeMore) && (
        <p class="quiet">
          {count(shown.length)} of {count(findings.length)} shown
          {mayBeMore && ", where the check has stopped: there may be more"}. {left > 0 && (
            <button
              type="button"
              class="link"
              onClick={() => most.value += 10 * FINDINGS_SHOWN}
            >
              Show {count(Math.min(left, 10 * FINDINGS_SHOWN))} more
            </button>
          )}
        </p>
      )}
    </>
  );
}

/** From a finding to where it can be seen: bytes and the operation that wrote them, or an instant. */
function Cause({ detail: { id, variants }, finding: { variant: label, scm, at } }: {
  readonly detail: RunDetail;
  readonly finding: Finding;
}) {
  const variant = variants.find((name) =>
    wordsOfVariant(name).toLowerCase() === label.toLowerCase()
  );
  const of = { run: id, variant };
  const byte = scm && { host: scm.host, address: scm.from };
  return (
    <>
      {byte !== undefined && (
        <>
          {" · "}
          <a href={memoryHref(byte, of)}>Memory</a>
        </>
      )}
      {(byte !== undefined || at !== undefined) && (
        <>
          {" · "}
          <button type="button" class="link" onClick={() => void showLadder({ byte, at }, of)}>
            Ladder
          </button>
        </>
      )}
      {at !== undefined && (
        <>
          {" · "}
          <button type="button" class="link" onClick={() => void showMemory(at, byte, of)}>
            Memory then
          </button>
          {" · "}
          <a href={framesHref(at, of)}>Frames</a>
          {" · "}
          <a href={instantHref(at, of)}>{at.node} at {time(at.time)}</a>
        </>
      )}
    </>
  );
}
