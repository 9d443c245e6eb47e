/** The loss by a kill is shown before it is done. */
import type { Time } from "../../../fabric/base/time.ts";
import type { Node } from "../../api/rack.ts";
import { api } from "../data/api.ts";
import { isUp, topology } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { shownPower } from "../data/shown.ts";
import { time } from "../figures.ts";
import { close, open } from "../frame/dialogs.tsx";
import { order } from "../frame/notice.tsx";
import { orderShutdown } from "../frame/shutdown.ts";
import { isPast, lookAt, run } from "../state.ts";
import { LossNote } from "./loss.tsx";

function kill(id: string, node: string, atPs: Time | undefined): void {
  close();
  void order(
    api.power(id, { action: "kill", node, ...(atPs !== undefined && { atPs }) }),
    ({ nodes, atPs: at }) =>
      `${nodes.join(", ") || node}: without power${at === null ? "" : ` since ${time(at)}`}`,
  );
}

function shutDown(id: string, node: string): void {
  close();
  orderShutdown(id, { node });
}

/**
 * Asks, and says what would be lost.
 * @param name a device, or another process of the rack.
 * @param atPs when; absent: now.
 */
export function openKill(name: string, atPs?: Time): void {
  const id = run.value;
  const { kind, process = name } = topology.value?.nodes.find((each) => each.name === name) ?? {};
  if (id === undefined) return;
  lookAt(undefined);
  open(() => (
    <div>
      <h2 id="dialog-title">Kill {name}</h2>
      <p>
        The process {process} is ended{" "}
        {atPs === undefined ? "at once" : `at ${time(atPs)}`}: power fails
        {kind === "host" ? ", and what is in caches and buffers is lost" : ""}. It stays without
        power until you start it.
      </p>
      {kind === "switch"
        ? <p class="note">A switch loses the frames in its queues.</p>
        : kind === undefined
        ? <p class="note">It is no device: nothing of a memory is lost.</p>
        : (
          <>
            {atPs !== undefined && <p class="quiet">What is lost then is not known yet; now:</p>}
            <LossNote node={name} />
          </>
        )}
      <div class="row">
        <button type="button" class="danger" onClick={() => kill(id, name, atPs)}>
          Kill {name}
        </button>
        {kind === "host" && (
          <button
            type="button"
            title="Its programs end, its shared regions go home, its caches to SCM; then its power goes off"
            onClick={() => shutDown(id, name)}
          >
            Shut it down in order
          </button>
        )}
        <button type="button" autofocus onClick={close}>Leave it on</button>
      </div>
    </div>
  ));
}

function start(id: string, node: string): void {
  void order(
    api.power(id, { action: "start", node }),
    ({ nodes }) => `${nodes.join(", ") || node}: power is back`,
  );
}

export function PowerActs({ node }: { readonly node: Node }) {
  const id = run.value;
  if (id === undefined || !isOperator.value || isPast.value || !isUp.value) {
    return null;
  }
  return shownPower.value.get(node.name) === false
    ? <button type="button" onClick={() => start(id, node.name)}>Start {node.name}</button>
    : (
      <button type="button" class="danger" onClick={() => openKill(node.name)}>
        Kill {node.name}…
      </button>
    );
}
