/** The loss by a kill is shown before it is done. */
import type { Node } from "../../api/rack.ts";
import { api } from "../data/api.ts";
import { isUp } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { shownPower } from "../data/shown.ts";
import { time } from "../figures.ts";
import { close, open } from "../frame/dialogs.tsx";
import { order } from "../frame/notice.tsx";
import { orderShutdown } from "../frame/shutdown.ts";
import { isPast, lookAt, run } from "../state.ts";
import { LossNote } from "./loss.tsx";

function kill(id: string, node: string): void {
  close();
  void order(
    api.power(id, { action: "kill", node }),
    ({ nodes, atPs }) =>
      `${nodes.join(", ") || node}: without power${atPs === null ? "" : ` since ${time(atPs)}`}`,
  );
}

function shutDown(id: string, node: string): void {
  close();
  orderShutdown(id, { node });
}

function openKill({ name, kind, process }: Node): void {
  const id = run.value;
  if (id === undefined) return;
  lookAt(undefined);
  open(() => (
    <div>
      <h2 id="dialog-title">Kill {name}</h2>
      <p>
        The process {process} is ended at once: power fails
        {kind === "host" ? ", and what is in caches and buffers is lost" : ""}. It stays without
        power until you start it.
      </p>
      {kind === "switch"
        ? <p class="note">A switch loses the frames in its queues.</p>
        : <LossNote node={name} />}
      <div class="row">
        <button type="button" class="danger" onClick={() => kill(id, name)}>Kill {name}</button>
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
    : <button type="button" class="danger" onClick={() => openKill(node)}>Kill {node.name}…
    </button>;
}
