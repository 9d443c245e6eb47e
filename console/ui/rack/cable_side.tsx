import { useSignal, useSignalEffect } from "@preact/signals";
import type { Topology } from "../../api/rack.ts";
import { api, type LinkFault } from "../data/api.ts";
import { hasSeen, seenOf } from "../data/cable_history.ts";
import { flowKey, isUp, links, variant } from "../data/rack.ts";
import { stand, timeline } from "../data/timeline.ts";
import { inFlight, queuedBytes, shownFaults, shownFlows } from "../data/shown.ts";
import { bitRate, bytes, count, percent, roughTime, sentence } from "../figures.ts";
import { useFetched } from "../frame/fetched.ts";
import { instant, isPast, run } from "../state.ts";
import { CableCapture } from "./cable_capture.tsx";
import { CableChart } from "./cable_chart.tsx";
import { CableActs } from "./cable_acts.tsx";

/** From the replay; while time moves, what this page has seen. */
function History({ index, rack }: { readonly index: number; readonly rack: Topology }) {
  const { name } = rack.cables[index]!, id = run.value, known = timeline.value;
  const isReplayed = known !== undefined &&
    (isPast.value || !isUp.value || stand.value !== undefined);
  const replayed = useFetched(
    isReplayed && id !== undefined ? `${id} ${variant.value} ${name}` : undefined,
    () => api.cableHistory(id!, { cable: name, variant: variant.value }),
    String(known?.events),
  ).value;
  const history = isReplayed ? replayed.value : hasSeen.value ? seenOf(rack, index) : undefined;
  if (replayed.trouble !== undefined) return <p class="note quiet">{replayed.trouble}</p>;
  if (history === undefined || history.at.length < 2) {
    return <p class="quiet">Its use over time is shown as soon as something has passed.</p>;
  }
  return <CableChart history={history} instant={instant.value} />;
}

function Way({ index, rack, end }: {
  readonly index: number;
  readonly rack: Topology;
  readonly end: "a" | "b";
}) {
  const cable = rack.cables[index]!, { bitsPerSecond } = cable;
  const from = cable[end].node, to = cable[end === "a" ? "b" : "a"].node;
  const isSwitch = rack.nodes.find(({ name }) => name === from)?.kind === "switch";
  const queue = isSwitch ? cable[end] : undefined;
  const key = flowKey(index, from), flow = shownFlows.value.get(key);
  const frames = inFlight.value.get(key) ?? [];
  return (
    <>
      <h3>{from} to {to}</h3>
      {flow === undefined
        ? <p class="quiet">Counted by replays only: select an instant in the time line.</p>
        : (
          <dl>
            <dt>Rate</dt>
            <dd>
              {percent(flow.bitsPerSecond / bitsPerSecond)}, {bitRate(flow.bitsPerSecond)}
            </dd>
            {queue && (
              <>
                <dt>Waits in {from}</dt>
                <dd>{bytes(queuedBytes(queue))}</dd>
              </>
            )}
            <dt>Frames</dt>
            <dd>{count(flow.frames)}</dd>
            <dt>Bytes</dt>
            <dd>{bytes(flow.bytes)}</dd>
          </dl>
        )}
      {frames.length > 0 && (
        <ul class="plain">
          {frames.map(({ text }, i) => (
            <li key={i}>
              <code>{text}</code>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function useFaults(name: string) {
  const faults = useSignal<readonly LinkFault[]>([]);
  useSignalEffect(() => {
    const id = run.value, known = links.value.length;
    if (id === undefined || known === 0 || !isUp.value) return;
    const read = () => void api.links(id).then((all) => faults.value = all.faults, () => {});
    read();
    const timer = setInterval(read, 2_000);
    return () => clearInterval(timer);
  });
  const ends = name.split("/");
  return faults.value.filter(({ target }) =>
    target === name || ends.every((end) => target.includes(end))
  );
}

export function CableSide({ index, rack }: { readonly index: number; readonly rack: Topology }) {
  const { name, bitsPerSecond, latencyPs } = rack.cables[index]!;
  const now = shownFaults.value.get(index) ?? [];
  const record = useFaults(name);
  return (
    <>
      <h2>
        {name}
        <small>cable · {bitRate(bitsPerSecond)} · {roughTime(latencyPs)}</small>
      </h2>
      <History index={index} rack={rack} />
      <Way index={index} rack={rack} end="a" />
      <Way index={index} rack={rack} end="b" />
      <CableCapture key={name} name={name} />
      <h3>Faults</h3>
      {record.length === 0 && now.length === 0 ? <p class="quiet">None.</p> : (
        <table class="wide">
          <thead>
            <tr>
              <th>fault</th>
              <th class="num">hit</th>
              <th class="num">of</th>
            </tr>
          </thead>
          <tbody>
            {record.map(({ fault, action, terms, seen, hit }) => (
              <tr
                key={fault}
                class={now.some((each) => each.fault === fault) ? "" : "quiet"}
              >
                <td>{action} {sentence(terms)}</td>
                <td class="num">{count(hit)}</td>
                <td class="num">{count(seen)}</td>
              </tr>
            ))}
            {now.filter((each) => record.every(({ fault }) => fault !== each.fault)).map((
              { fault, action, atPs },
            ) => (
              <tr key={fault}>
                <td>{action} from {roughTime(atPs)}</td>
                <td class="num">–</td>
                <td class="num">–</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <section class="do">
        <h3>Do</h3>
        <CableActs target={name} isFaulty={now.length > 0} />
      </section>
    </>
  );
}
