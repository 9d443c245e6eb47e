import { rnicName } from "../../../fabric/rack/plan/names.ts";
import { useSignal } from "@preact/signals";
import type { Node, Topology } from "../../api/rack.ts";
import { api, type LogLine } from "../data/api.ts";
import { ended, isKept, isUp, processes } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import {
  isInstantKnown,
  queuesOf,
  shownAt,
  shownCounters,
  shownPower,
  snapshotTrouble,
  unreadText,
  waitedFor,
} from "../data/shown.ts";
import { count, counter, plural, wordsOfCounter } from "../figures.ts";
import { bringUpHere } from "../frame/resume.ts";
import { hrefOf, instant, isPast, lookAt, run, select } from "../state.ts";
import { gaugesOf, hostText, kindText } from "./device_text.ts";
import { LossNote } from "./loss.tsx";
import { Objects } from "./objects.tsx";
import { HostPrograms } from "./host_programs.tsx";
import { PowerActs } from "./power_acts.tsx";

function Counters({ name }: { readonly name: string }) {
  const all = Object.entries(shownCounters.value.get(name) ?? {});
  const counted = all.filter(([, value]) => value !== 0);
  if (all.length === 0 || shownPower.value.get(name) === false) {
    return <p class="quiet">It counts nothing without power.</p>;
  }
  return (
    <>
      <dl>
        {counted.map(([name, value]) => (
          <>
            <dt key={name}>{wordsOfCounter(name)}</dt>
            <dd>{counter(name, value)}</dd>
          </>
        ))}
      </dl>
      <p class="quiet">{plural(all.length - counted.length, "other is", "others are")} 0.</p>
    </>
  );
}

function Queues({ host }: { readonly host: string }) {
  const queues = queuesOf(host);
  if (queues.length === 0) {
    return (
      <p class="quiet">
        {isInstantKnown.value ? "None yet." : `They are ${unreadText.value}.`}
      </p>
    );
  }
  return (
    <table class="wide">
      <thead>
        <tr>
          <th>queue</th>
          <th class="num">posted</th>
          <th class="num">completed</th>
          <th>last</th>
        </tr>
      </thead>
      <tbody>
        {queues.map(({ queue, qpn, rnic = 0, posted, completed, lastStatus }) => (
          <tr key={`${rnic} ${queue} ${qpn}`}>
            <td>
              <button
                type="button"
                class="link"
                onClick={() =>
                  select({ kind: "queue pair", device: host, number: qpn })}
              >
                {queue} {qpn}
                {rnic > 0 && ` of ${rnicName(host, rnic)}`}
              </button>
            </td>
            <td class="num">{count(posted)}</td>
            <td class="num">{count(completed)}</td>
            <td>{lastStatus}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const LOG_LINES = 40;

function Log({ process }: { readonly process: string }) {
  const lines = useSignal<readonly LogLine[] | undefined>(undefined), trouble = useSignal("");
  const none = useSignal("The process has written nothing.");
  async function read(): Promise<void> {
    const id = run.value;
    if (id === undefined) return;
    try {
      const found = await api.logs(id, { node: process, last: LOG_LINES });
      lines.value = found.lines;
      if (found.none !== undefined) none.value = `${found.none}.`;
      trouble.value = "";
    } catch (error) {
      trouble.value = (error as Error).message;
    }
  }
  return (
    <>
      {trouble.value !== "" && <p class="note refused">{trouble.value}</p>}
      {lines.value?.length === 0 && <p class="quiet">{none}</p>}
      {(lines.value?.length ?? 0) > 0 && (
        <pre
          class="log"
          tabIndex={0}
          aria-label="Log"
        >{lines.value!.map(({ line }) => line).join("\n")}</pre>
      )}
      <button type="button" onClick={read}>
        {lines.value === undefined ? "Read the log" : "Read again"}
      </button>
    </>
  );
}

function stateText({ name }: Node): string {
  if (shownPower.value.get(name) === false) return "without power";
  if (ended.value !== undefined && !isPast.value) return "down";
  if (isKept.value && !isPast.value) return "on to the end";
  return waitedFor.value.has(name) ? "on, time waits for it" : "on";
}

export function DeviceSide({ node, rack }: { readonly node: Node; readonly rack: Topology }) {
  const { name, kind, process } = node;
  const isOn = shownPower.value.get(name) !== false;
  const pid = processes.value.get(process)?.pid;
  return (
    <>
      <h2>
        {name}
        <small>{kindText(kind)} · {stateText(node)}</small>
      </h2>
      {snapshotTrouble.value !== undefined && <p class="note refused">{snapshotTrouble.value}</p>}
      <dl class="first">
        <dt>Process</dt>
        <dd>{process}{pid ? `, ${pid}` : ""}</dd>
        {kind === "host" && (
          <>
            <dt>Memory</dt>
            <dd>{hostText(node)}</dd>
          </>
        )}
        {kind === "host" && isOn &&
          gaugesOf(node, shownCounters.value.get(name), shownAt.value).map((gauge) => (
            <>
              <dt key={gauge.name}>{gauge.name}</dt>
              <dd>{gauge.figure}</dd>
            </>
          ))}
      </dl>
      {kind === "host" && <LossNote node={name} />}
      <section class="do">
        <h3>Do</h3>
        {isPast.value && isUp.value && (
          <p class="quiet">
            This is the past.{" "}
            <button type="button" class="link" onClick={() => lookAt(undefined)}>Go to now</button>
            {" "}
            to act.
          </p>
        )}
        {instant.value !== undefined && isOperator.value && (
          <p class="quiet">
            <button type="button" class="link" onClick={bringUpHere}>Bring up a rack</button>{" "}
            as it stood at this instant.
          </p>
        )}
        <div class="acts">
          <PowerActs node={node} />
          <a class="button" href={hrefOf({ view: "inspect", more: {} })}>Inspect it</a>
          {kind === "rnic" && node.host !== null && (
            <button
              type="button"
              onClick={() => select({ kind: "device", name: node.host! })}
            >
              Show its host
            </button>
          )}
          {rack.cables.flatMap(({ name: cable, kind, a, b }) =>
            kind === "network" && (a.node === name || b.node === name)
              ? [
                <button
                  key={cable}
                  type="button"
                  onClick={() => select({ kind: "cable", name: cable })}
                >
                  {cable}
                </button>,
              ]
              : []
          )}
        </div>
      </section>
      {kind === "host" && isOn && isUp.value && isOperator.value && !isPast.value && (
        <Objects key={name} host={name} />
      )}
      {kind === "host" && (
        <HostPrograms
          key={name}
          host={name}
          isOn={isOn}
          planned={rack.programs.filter(({ on }) => on === name)}
        />
      )}
      {kind === "host" && (
        <>
          <h3>Queues</h3>
          <Queues host={name} />
        </>
      )}
      <h3>Counters since power-on</h3>
      <Counters name={name} />
      <h3>Log of {process}</h3>
      <Log key={process} process={process} />
    </>
  );
}
