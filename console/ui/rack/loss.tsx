/**
 * The loss by a power cut, shown before the user asks for a cut, and again before it is done; of a
 * host without power, what its cut has lost.
 */
import { useSignal, useSignalEffect } from "@preact/signals";
import type { Loss } from "../../api/replay.ts";
import { api } from "../data/api.ts";
import { clock, variant } from "../data/rack.ts";
import { replayedAt, shownAt } from "../data/shown.ts";
import { bytes, sentence } from "../figures.ts";
import { memoryHref } from "../frame/causes.ts";
import { run } from "../state.ts";

const AGAIN_MS = 2_000;

export function LossNote({ node }: { readonly node: string }) {
  const loss = useSignal<Loss | undefined>(undefined), trouble = useSignal("");
  const asked = useSignal(-AGAIN_MS);
  useSignalEffect(() => {
    const id = run.value, at = shownAt.value;
    if (id === undefined || (replayedAt.value === undefined && clock.value === null)) return;
    const waitMs = Math.max(0, asked.peek() + AGAIN_MS - performance.now());
    let timer: ReturnType<typeof setTimeout>, isGone = false;
    const ask = async () => {
      asked.value = performance.now();
      try {
        loss.value = await api.loss(id, {
          nodes: node,
          ...(replayedAt.peek() !== undefined && { at }),
          variant: variant.peek(),
        });
        trouble.value = "";
      } catch (error) {
        trouble.value = (error as Error).message;
        // A rack that stands changes nothing that would ask again.
        if (!isGone) timer = setTimeout(ask, AGAIN_MS);
      }
    };
    timer = setTimeout(ask, replayedAt.value === undefined ? waitMs : 0);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  });
  if (trouble.value !== "") {
    return <p class="note quiet">What a power cut would lose is not known: {trouble.value}</p>;
  }
  if (loss.value === undefined) {
    return <p class="note quiet">What a power cut would lose is being worked out …</p>;
  }
  return <LossText loss={loss.value} />;
}

function LossText({ loss }: { readonly loss: Loss }) {
  const { lostBytes, happened, broken, lost, text } = loss, [first] = lost;
  const colour = broken.length > 0 || (happened && lostBytes > 0)
    ? "refused"
    : lostBytes > 0
    ? "would-lose"
    : "is-safe";
  return (
    <div class={`note ${colour}`} data-testid="loss">
      <p>
        {sentence(text)}. {happened && first !== undefined && (
          <a
            href={memoryHref(
              { host: first.host, address: first.from },
              { run: run.value!, variant: variant.value },
            )}
          >
            Show it
          </a>
        )}
      </p>
      {broken.length > 0 && (
        <ul>
          {broken.slice(0, 5).map((each) => (
            <li key={each.from} class="is-lost">
              Broken promise: {sentence(each.text)}, {bytes(each.to - each.from)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
