/** Frames of a cable as a pcapng file: from one instant to another, or the last ones. */
import { signal, useSignal } from "@preact/signals";
import type { Time } from "../../../fabric/base/time.ts";
import { CAPTURED_MAX } from "../../api/replay_terms.ts";
import { api } from "../data/api.ts";
import { variant } from "../data/rack.ts";
import { shownAt } from "../data/shown.ts";
import { plural, time } from "../figures.ts";
import { order, refuse } from "../frame/notice.tsx";
import { saveAs } from "../frame/save.ts";
import { instant, run } from "../state.ts";

/** By run and cable: where a capture began that is not saved yet. */
const begun = signal<ReadonlyMap<string, Time>>(new Map());

const USUAL = 100;

export function CableCapture({ name }: { readonly name: string }) {
  const isBusy = useSignal(false), last = useSignal(USUAL);
  const id = run.value;
  if (id === undefined) return null;
  const key = `${id} ${variant.value} ${name}`, from = begun.value.get(key);

  async function save(what: { readonly from?: Time; readonly last?: number }): Promise<boolean> {
    isBusy.value = true;
    const to = instant.peek();
    const query = {
      ...{ cable: name, variant: variant.value, ...what },
      ...(to !== undefined && { to }),
    };
    const isSaved = await order(api.cableCapture(id!, query), ({ file, frames }) => {
      if (frames === 0) return `No frame passed on ${name}: there is nothing to save`;
      saveAs(`${name.replaceAll(/[^\w.-]+/g, "_")}.pcapng`, file);
      return `${plural(frames, "packet")} of ${name} saved: each frame as either end has seen it`;
    });
    isBusy.value = false;
    return isSaved;
  }

  const set = (at: Time | undefined) => {
    const others = [...begun.value].filter(([each]) => each !== key);
    begun.value = new Map(at === undefined ? others : [...others, [key, at]]);
  };

  async function stop(): Promise<void> {
    if (shownAt.peek() < from!) {
      return refuse(`The capture began at ${time(from!)}: choose a later instant to stop it at`);
    }
    if (await save({ from: from! })) set(undefined);
  }

  return (
    <>
      <h3>Capture</h3>
      <div class="acts end">
        {from === undefined
          ? (
            <button type="button" onClick={() => set(shownAt.peek())}>
              Start a capture
            </button>
          )
          : (
            <>
              <button type="button" class="go" disabled={isBusy.value} onClick={() => void stop()}>
                Stop and save
              </button>
              <button type="button" onClick={() => set(undefined)}>Give it up</button>
            </>
          )}
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            void save({ last: last.value });
          }}
        >
          <label class="row">
            Last
            <input
              type="number"
              min={1}
              max={CAPTURED_MAX}
              required
              value={last.value}
              onInput={({ currentTarget }) => last.value = currentTarget.valueAsNumber}
            />
            packets
          </label>
          <button type="submit" disabled={isBusy.value}>Save</button>
        </form>
      </div>
      <p class="quiet" role="status">
        {isBusy.value
          ? "The run is gone through again for its frames …"
          : from === undefined
          ? "As pcapng, for Wireshark: the run's replay has every frame, also of before."
          : `Capturing since ${time(from)}. Let time run, then stop.`}
      </p>
    </>
  );
}
