/**
 * The loss by a power cut, shown before the user asks for a cut, and again before it is done; of a
 * host without power, what its cut has lost.
 */
import type { Loss } from "../../api/replay.ts";
import { api } from "../data/api.ts";
import { variant } from "../data/rack.ts";
import { useReplayed } from "../data/replayed.ts";
import { bytes, sentence } from "../figures.ts";
import { WhichKeeps } from "../explore/which_keeps.tsx";
import { memoryHref } from "../frame/causes.ts";
import { run } from "../state.ts";

export function LossNote({ node }: { readonly node: string }) {
  const { value: loss, trouble } =
    useReplayed((run, query) => api.loss(run, { nodes: node, ...query })).value;
  if (trouble !== "") {
    return <p class="note quiet">What a power cut would lose is not known: {trouble}</p>;
  }
  if (loss === undefined) {
    return <p class="note quiet">What a power cut would lose is being worked out …</p>;
  }
  return <LossText loss={loss} />;
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
        {sentence(text)}.
      </p>
      <div class="acts">
        {happened && first !== undefined && (
          <a
            class="button"
            href={memoryHref(
              { host: first.host, address: first.from },
              { run: run.value!, variant: variant.value },
            )}
          >
            Show it
          </a>
        )}
        {happened && lostBytes > 0 && <WhichKeeps host={loss.hosts[0]!} />}
      </div>
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
