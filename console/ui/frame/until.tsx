import { useSignal } from "@preact/signals";
import { type Goal, parseGoal, predicateText } from "../../../fabric/trace/predicate.ts";
import { STEP_WORDS } from "../../../fabric/trace/step_words.ts";
import { documentSteps } from "../../../fabric/trace/trace_figures.ts";
import { topology } from "../data/rack.ts";
import { sentence } from "../figures.ts";
import { close, open } from "./dialogs.tsx";
import { until } from "./time.ts";

const WORDS = Object.keys(STEP_WORDS), NUMBERS = documentSteps();
const BUTTONS = 4;

function goalOr<T>(words: readonly string[], wrong: (error: Error) => T): Goal | T {
  try {
    return parseGoal(words);
  } catch (error) {
    return wrong(error as Error);
  }
}

function goalOf(form: FormData): Goal {
  const given = (name: string) => String(form.get(name) ?? "").trim();
  const latest = given("latest");
  const goal = parseGoal([given("until")], { node: given("node"), count: given("count") });
  if (latest === "") return goal;
  const { time } = goalOr([latest], () => ({ time: undefined }));
  if (time === undefined) throw new Error(`Found ${latest} as the latest: expected a time as 3ms`);
  return { ...goal, time };
}

function Until() {
  const wrong = useSignal<string | undefined>(undefined),
    what = useSignal(""),
    device = useSignal("");
  const [asked] = goalOr([what.value.trim()], () => ({ breaks: [] })).breaks;
  return (
    <form
      class="until"
      onSubmit={(event) => {
        event.preventDefault();
        try {
          void until(goalOf(new FormData(event.currentTarget)));
          close();
        } catch (error) {
          wrong.value = (error as Error).message;
        }
      }}
    >
      <h2 id="dialog-title">Run until</h2>
      <label>
        A time, a step with its number in the documents, or a word for it
        <input
          name="until"
          autofocus
          autocomplete="off"
          list="until-steps"
          placeholder="3ms, S907, persistence-ack"
          value={what.value}
          onInput={({ currentTarget }) => what.value = currentTarget.value}
        />
      </label>
      <datalist id="until-steps">
        {[...WORDS, ...NUMBERS].map((step) => (
          <option key={step} value={step}>{predicateText({ step })}</option>
        ))}
      </datalist>
      <div class="acts" role="group" aria-label="What is asked for most">
        {WORDS.slice(0, BUTTONS).map((step) => (
          <button
            key={step}
            type="button"
            aria-pressed={what.value === step}
            onClick={() => what.value = step}
          >
            {predicateText({ step })}
          </button>
        ))}
      </div>
      {asked !== undefined && (
        <div class="row end">
          <label>
            Device
            <select
              name="node"
              value={device.value}
              onChange={({ currentTarget }) => device.value = currentTarget.value}
            >
              <option value="">any</option>
              {topology.value?.nodes.map(({ name }) => <option key={name}>{name}</option>)}
            </select>
          </label>
          <label>
            Which occurrence
            <input name="count" type="number" min={1} value={1} />
          </label>
          <label>
            But at the latest
            <input name="latest" autocomplete="off" placeholder="any time" />
          </label>
        </div>
      )}
      {asked !== undefined && (
        <p class="quiet">
          {sentence(predicateText({ ...(device.value && { node: device.value }), ...asked }))}
        </p>
      )}
      {wrong.value !== undefined && <p class="note refused" role="alert">{wrong}</p>}
      <div class="row">
        <button type="submit" class="go">Run until then</button>
        <button type="button" onClick={close}>Cancel</button>
      </div>
    </form>
  );
}

export function openUntil(): void {
  open(Until);
}
