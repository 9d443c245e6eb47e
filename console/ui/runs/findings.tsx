/** What a check has found, each with the way to its cause. */
import { useSignal } from "@preact/signals";
import type { Report } from "../../api/report.ts";
import type { RunDetail } from "../../api/runs.ts";
import { count, plural, sentence, time, wordsOfVariant } from "../figures.ts";
import { instantHref, memoryHref, showLadder } from "../frame/causes.ts";

const FINDINGS_SHOWN = 5;

type Check = Report["checks"][number];
type Finding = NonNullable<Check["findings"]>[number];

export function Findings({ check, detail }: { readonly check: Check; readonly detail: RunDetail }) {
  const showsAll = useSignal(false);
  const { findings: known, mayBeMore } = check;
  // A check of a protocol says it in one text.
  const findings = known ??
    check.detail.split("; ").map((text): Finding => ({ variant: "", text }));
  const shown = showsAll.value ? findings : findings.slice(0, FINDINGS_SHOWN);
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
          {plural(findings.length, "finding")}
          {mayBeMore && ", where the check has stopped: there may be more"}, {count(shown.length)}
          {" "}
          shown. {findings.length > FINDINGS_SHOWN && (
            <button
              type="button"
              class="link"
              onClick={() => showsAll.value = !showsAll.value}
            >
              {showsAll.value ? "Show the first ones" : "Show all of them"}
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
  const bytes = scm && { host: scm.host, address: scm.from };
  return (
    <>
      {bytes !== undefined && (
        <>
          {" · "}
          <a href={memoryHref(bytes, of)}>Memory</a>
          {" · "}
          <button type="button" class="link" onClick={() => void showLadder(bytes, of)}>
            Ladder and frames
          </button>
        </>
      )}
      {at !== undefined && (
        <>
          {" · "}
          <a href={instantHref(at, of)}>{at.node} at {time(at.time)}</a>
        </>
      )}
    </>
  );
}
