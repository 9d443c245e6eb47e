/** What a check has found, each with the way to its cause. */
import { useSignal } from "@preact/signals";
import type { Report } from "../../api/report.ts";
import type { RunDetail } from "../../api/runs.ts";
import { count, plural, sentence, wordsOfVariant } from "../figures.ts";
import { memoryHref, showLadder } from "../frame/causes.ts";

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
            {sentence(each.text)}{" "}
            {each.scm !== undefined && (
              <Cause detail={detail} variant={each.variant} scm={each.scm} />
            )}
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

/** From a finding to where it can be seen: the bytes, and the operation that has written them. */
function Cause({ detail: { id, variants }, variant: label, scm }: {
  readonly detail: RunDetail;
  readonly variant: string;
  readonly scm: NonNullable<Finding["scm"]>;
}) {
  const variant = variants.find((name) =>
    wordsOfVariant(name).toLowerCase() === label.toLowerCase()
  );
  const bytes = { host: scm.host, address: scm.from };
  return (
    <>
      {" · "}
      <a href={memoryHref(bytes, { run: id, variant })}>Memory</a>
      {" · "}
      <button
        type="button"
        class="link"
        onClick={() => void showLadder(bytes, { run: id, variant })}
      >
        Ladder and frames
      </button>
    </>
  );
}
