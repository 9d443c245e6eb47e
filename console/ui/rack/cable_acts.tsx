import type { ComponentChildren } from "preact";
import { parseTime } from "../../../fabric/base/time.ts";
import {
  FAULT_TERMS,
  type FaultTerm,
  type Impairment,
  IMPAIRMENT_ROWS,
  IMPAIRMENTS,
} from "../../../fabric/rack/plan/link_plan.ts";
import { api, type LinkOrderInput } from "../data/api.ts";
import { isUp } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { time } from "../figures.ts";
import { close, open } from "../frame/dialogs.tsx";
import { order, refuse } from "../frame/notice.tsx";
import { isPast, run } from "../state.ts";

function give(id: string, what: LinkOrderInput): void {
  void order(
    api.link(id, what),
    ({ atPs }) => `${what.target}: ${what.action} from ${time(atPs)} on`,
  );
}

const TITLES: Readonly<Record<Impairment, string>> = {
  loss: "Lose frames",
  corrupt: "Damage frames",
  duplicate: "Duplicate frames",
  reorder: "Reorder frames",
  delay: "Delay frames",
  rate: "Slow it down",
};

const TERMS = Object.keys(FAULT_TERMS) as FaultTerm[];
/** Of a number of frames, and packets: `until` is what `for` says. */
const OF_ALL: readonly FaultTerm[] = ["only", "count", "nth"];

/** What may be said of it beside its value, as a scenario's `faults:` has it: a delay has jitter. */
function termsOf(action: Impairment): readonly FaultTerm[] {
  return [
    ...TERMS.filter((term) => Object(FAULT_TERMS[term]).of === action),
    ...OF_ALL,
  ];
}

const LIKE: Readonly<Record<string, string>> = {
  time: "1us",
  n: "5",
  share: "10%",
  packets: "RC ACKNOWLEDGE",
  crc: "icrc",
};

function Term({ term }: { readonly term: FaultTerm }) {
  const { value, what } = FAULT_TERMS[term];
  return (
    <label title={what}>
      {term}: {what.replace(/[:,].*/, "")}
      <input
        name={term}
        {...value === "n" && { type: "number", min: 1 }}
        placeholder={LIKE[value] ?? ""}
        size={14}
      />
    </label>
  );
}

function openFault(
  id: string,
  { target, action }: { readonly target: string; readonly action: Impairment },
): void {
  const title = TITLES[action], { what, like } = IMPAIRMENT_ROWS[action];
  const [near, far] = target.split("/");
  const terms = termsOf(action);
  open(() => (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const text = (name: string) => String(data.get(name) ?? "").trim();
        const span = text("for"), forPs = span === "" ? undefined : parseTime(span);
        if (span !== "" && forPs === undefined) {
          return refuse(
            `Found ${span}: expected a time as 2ms, or nothing`,
          );
        }
        const more = Object.fromEntries(
          terms.map((term) => [term, text(term)] as const).filter(([, given]) => given !== "")
            .map((
              [term, given],
            ) => [term, FAULT_TERMS[term].value === "n" ? Number(given) : given]),
        );
        close();
        give(id, {
          target: text("target"),
          action,
          value: text("value"),
          ...(forPs !== undefined && { forPs }),
          ...more,
        });
      }}
    >
      <h2 id="dialog-title">{title} on {target}</h2>
      <div class="row end">
        <label>
          {what}
          <input name="value" required autofocus value={like} size={10} />
        </label>
        <label>
          direction
          <select name="target">
            <option value={target}>both</option>
            <option value={`${near}->${far}`}>{near} to {far?.replace(/#.*/, "")}</option>
            <option
              value={`${far?.replace(/#.*/, "")}->${near}${/#.*/.exec(far ?? "")?.[0] ?? ""}`}
            >
              {far?.replace(/#.*/, "")} to {near}
            </option>
          </select>
        </label>
        <label>
          for so long, or until it is healed
          <input name="for" placeholder="2ms" size={10} />
        </label>
      </div>
      <div class="row end">
        {terms.map((term) => <Term key={term} term={term} />)}
      </div>
      <div class="row">
        <button type="submit" class="danger">{title}</button>
        <button type="button" onClick={close}>Cancel</button>
      </div>
    </form>
  ));
}

export function CableActs(
  { target, isFaulty }: { readonly target: string; readonly isFaulty: boolean },
): ComponentChildren {
  const id = run.value;
  if (id === undefined || !isOperator.value || isPast.value || !isUp.value) {
    return null;
  }
  return (
    <div class="acts">
      <button type="button" class="danger" onClick={() => give(id, { target, action: "cut" })}>
        Cut
      </button>
      {IMPAIRMENTS.map((action) => (
        <button
          key={action}
          type="button"
          onClick={() => openFault(id, { target, action })}
        >
          {TITLES[action]}…
        </button>
      ))}
      <button
        type="button"
        disabled={!isFaulty}
        onClick={() => give(id, { target, action: "heal" })}
      >
        Heal
      </button>
    </div>
  );
}
