import { useSignal, useSignalEffect } from "@preact/signals";
import type { Topology } from "../../api/rack.ts";
import { api, type LinkFault } from "../data/api.ts";
import { flowKey, isUp, links } from "../data/rack.ts";
import { inFlight, shownFaults, shownFlows } from "../data/shown.ts";
import { bitRate, bytes, count, roughTime, sentence } from "../figures.ts";
import { isPast, run } from "../state.ts";
import { CableActs } from "./cable_acts.tsx";

function Way(
  { index, from, to }: { readonly index: number; readonly from: string; readonly to: string },
) {
  const key = flowKey(index, from), flow = shownFlows.value.get(key);
  const frames = inFlight.value.get(key) ?? [];
  return (
    <>
      <h3>{from} to {to}</h3>
      {flow === undefined
        ? <p class="quiet">Counted by replays only: select an instant in the time line.</p>
        : (
          <dl>
            {isUp.value && !isPast.value && (
              <>
                <dt>Rate</dt>
                <dd>{bitRate(flow.bitsPerSecond)}</dd>
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
  const { name, a, b, bitsPerSecond, latencyPs } = rack.cables[index]!;
  const now = shownFaults.value.get(index) ?? [];
  const record = useFaults(name);
  return (
    <>
      <h2>
        {name}
        <small>cable · {bitRate(bitsPerSecond)} · {roughTime(latencyPs)}</small>
      </h2>
      <Way index={index} from={a.node} to={b.node} />
      <Way index={index} from={b.node} to={a.node} />
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
      <h3>Do</h3>
      <CableActs target={name} isFaulty={now.length > 0} />
    </>
  );
}
