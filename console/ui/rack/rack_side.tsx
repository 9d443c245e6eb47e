/** The side where nothing is selected: what the rack does as a whole, and where to look closer. */
import type { ComponentChildren } from "preact";
import type { Topology } from "../../api/rack.ts";
import { ended, flowKey, isUp } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { queuedBytes, shownFaults, shownFlows, shownPower, unreadText } from "../data/shown.ts";
import { bitRate, bytes, percent, plural } from "../figures.ts";
import { select } from "../state.ts";
import { hostWords, isAtWork, shownActivities } from "./activity.ts";
import { byNumber } from "./layout.ts";

const HOSTS = 12, CABLES = 5;

export function RackSide({ rack }: { readonly rack: Topology }) {
  const hosts = rack.nodes.filter(({ kind }) => kind === "host")
    .sort((x, y) => byNumber(x.name, y.name));
  const off = hosts.filter(({ name }) => shownPower.value.get(name) === false);
  const on = hosts.filter((each) => !off.includes(each));
  const atWork = on.filter(({ name }) => isAtWork(name));
  const idle = on.filter((each) => !atWork.includes(each));
  const shown = [...off, ...atWork, ...idle].slice(0, HOSTS);
  // While time moves most hosts have said nothing.
  const isUnread = shownActivities.value === undefined && ended.value === undefined;
  const told = isUnread
    ? shown.filter(({ name }) => off.some((each) => each.name === name) || hostWords(name) !== "")
    : shown;
  return (
    <div data-testid="overview">
      <h2>
        {rack.scenario}
        <small>seed {rack.seed}</small>
      </h2>
      <h3>What hosts do</h3>
      <table class="wide">
        <tbody>
          {told.map(({ name }) => (
            <tr key={name}>
              <th scope="row">
                <Device name={name} />
              </th>
              <td>
                <Words host={name} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {isUnread && told.length < hosts.length && (
        <p class="quiet">
          {told.length === 0 ? "It is" : "Of others it is"} {unreadText.value}.
        </p>
      )}
      {!isUnread && hosts.length > shown.length && (
        <p class="quiet">{plural(hosts.length - shown.length, "more host")} in the picture.</p>
      )}
      <Busiest rack={rack} />
      <Queues rack={rack} />
      <Faults rack={rack} />
      <p class="hint quiet">
        Click a device or a cable for its figures{isOperator.value && isUp.value
          ? ", and to act on it"
          : ""}. {isOperator.value && isUp.value &&
          (
            <>
              <kbd>Space</kbd> runs and stops time, <kbd>.</kbd> steps it.{" "}
            </>
          )}
        <kbd>?</kbd> shows all keys.
      </p>
    </div>
  );
}

function Device({ name }: { readonly name: string }) {
  return (
    <button type="button" class="link" onClick={() => select({ kind: "device", name })}>
      {name}
    </button>
  );
}

function CableLink({ name }: { readonly name: string }) {
  return (
    <button type="button" class="link" onClick={() => select({ kind: "cable", name })}>
      {name}
    </button>
  );
}

function Words({ host }: { readonly host: string }) {
  if (shownPower.value.get(host) === false) return <span class="is-lost">without power</span>;
  const text = hostWords(host);
  if (text !== "") return <span class={isAtWork(host) ? "" : "quiet"}>{text}</span>;
  if (ended.value !== undefined) return <span class="quiet">down</span>;
  return <span class="quiet">–</span>;
}

function Rows({ title, children }: {
  readonly title: string;
  readonly children: readonly ComponentChildren[];
}) {
  if (children.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <table class="wide">
        <tbody>{children}</tbody>
      </table>
    </>
  );
}

function Busiest({ rack }: { readonly rack: Topology }) {
  const found = rack.cables.flatMap(({ kind, name, a, b, bitsPerSecond }, index) => {
    if (kind !== "network") return [];
    const rate = Math.max(
      ...[a.node, b.node].map((from) =>
        shownFlows.value.get(flowKey(index, from))?.bitsPerSecond ?? 0
      ),
    );
    return rate === 0 ? [] : [{ name, rate, share: rate / bitsPerSecond }];
  }).sort((x, y) => y.share - x.share).slice(0, CABLES);
  return (
    <Rows title="Busiest cables">
      {found.map(({ name, rate, share }) => (
        <tr key={name}>
          <td>
            <CableLink name={name} />
          </td>
          <td class="num">{percent(share)}</td>
          <td class="num">{bitRate(rate)}</td>
        </tr>
      ))}
    </Rows>
  );
}

function Queues({ rack }: { readonly rack: Topology }) {
  const found = rack.cables.flatMap(({ kind, name, a, b }) =>
    kind !== "network" ? [] : [a, b].map((end) => ({ name, end, queued: queuedBytes(end) }))
  ).filter(({ queued }) => queued > 0).sort((x, y) => y.queued - x.queued).slice(0, CABLES);
  return (
    <Rows title="Waits in switches">
      {found.map(({ name, end, queued }) => (
        <tr key={`${end.node} ${end.port}`}>
          <td>
            <CableLink name={name} />
          </td>
          <td class="num">{bytes(queued)}</td>
        </tr>
      ))}
    </Rows>
  );
}

function Faults({ rack }: { readonly rack: Topology }) {
  const found = [...shownFaults.value].flatMap(([cable, faults]) => {
    const name = rack.cables[cable]?.name;
    const actions = [...new Set(faults.map(({ action }) => action))].join(", ");
    return name === undefined || actions === "" ? [] : [{ name, actions }];
  });
  return (
    <Rows title="Faults in force">
      {found.map(({ name, actions }) => (
        <tr key={name}>
          <td>
            <CableLink name={name} />
          </td>
          <td class="is-lost">{actions}</td>
        </tr>
      ))}
    </Rows>
  );
}
