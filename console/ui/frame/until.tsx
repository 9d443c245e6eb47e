/** Running until a time, or until something happens on a device. */
import { useSignal } from "@preact/signals";
import { documentText, stepsOf } from "../../../fabric/trace/trace_figures.ts";
import { topology } from "../data/rack.ts";
import { close, open } from "./dialogs.tsx";
import { until } from "./time.ts";

/** What is asked for most, and what has no number in the documents. */
const OFTEN: readonly (readonly [step: string, what: string])[] = [
  ["qp-err", "a queue pair enters ERR"],
  ["S907", "a persistence ACK is sent"],
  ["imc", "bytes are durable: the iMC accepts them"],
  ["nak", "a NAK is sent"],
];

const STEPS = ([2, 3, 9, 10, 45, 46] as const).flatMap(stepsOf);

function Until() {
  const wrong = useSignal<string | undefined>(undefined), what = useSignal("");
  const isStep = /^[A-Za-z]/.test(what.value);
  return (
    <form
      class="until"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        const given = (name: string) => String(form.get(name) ?? "").trim();
        wrong.value = until(given("until"), {
          node: given("node"),
          count: given("count"),
          latest: given("latest"),
        });
        if (wrong.value === undefined) close();
      }}
    >
      <h2 id="dialog-title">Run until</h2>
      <label>
        A time, or a step with its number in the documents
        <input
          name="until"
          autofocus
          autocomplete="off"
          list="until-steps"
          placeholder="3ms, S907, qp-err"
          value={what.value}
          onInput={({ currentTarget }) => what.value = currentTarget.value}
        />
      </label>
      <datalist id="until-steps">
        {OFTEN.map(([step, text]) => <option key={step} value={step}>{text}</option>)}
        {STEPS.map((step) => <option key={step} value={step}>{documentText(step)}</option>)}
      </datalist>
      <div class="acts" role="group" aria-label="What is asked for most">
        {OFTEN.map(([step, text]) => (
          <button
            key={step}
            type="button"
            aria-pressed={what.value === step}
            onClick={() => what.value = step}
          >
            {text}
          </button>
        ))}
      </div>
      {isStep && (
        <div class="row end">
          <label>
            Device
            <select name="node">
              <option value="">any</option>
              {topology.value?.nodes.map(({ name }) => <option key={name}>{name}</option>)}
            </select>
          </label>
          <label>
            The how-many-th
            <input name="count" type="number" min={1} value={1} />
          </label>
          <label>
            But at the latest
            <input name="latest" autocomplete="off" placeholder="any time" />
          </label>
        </div>
      )}
      {isStep && <p class="quiet">{documentText(what.value)}</p>}
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
