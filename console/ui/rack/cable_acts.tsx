import type { ComponentChildren } from "preact";
import { parseTime } from "../../../fabric/base/time.ts";
import {
  type Impairment,
  IMPAIRMENT_ROWS,
  IMPAIRMENTS,
} from "../../../fabric/rack/plan/link_plan.ts";
import { api, type LinkOrderInput } from "../data/api.ts";
import { isUp } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { time } from "../figures.ts";
import { close, open } from "../frame/dialogs.tsx";
import { order, refuse } from "../frame/notice.tsx";
import { isPast, run } from "../state.ts";

function give(id: string, what: LinkOrderInput): void {
  void order(
    api.link(id, what),
    ({ atPs }) => `${what.target}: ${what.action} from ${time(atPs)} on`,
  );
}

const TITLES: Readonly<Record<Impairment, string>> = {
  loss: "Lose frames",
  corrupt: "Damage frames",
  duplicate: "Duplicate frames",
  reorder: "Reorder frames",
  delay: "Delay frames",
};

function openFault(
  id: string,
  { target, action }: { readonly target: string; readonly action: Impairment },
): void {
  const title = TITLES[action], { what, like } = IMPAIRMENT_ROWS[action];
  const [near, far] = target.split("/");
  open(() => (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const text = (name: string) => String(data.get(name) ?? "").trim();
        const span = text("for"), forPs = span === "" ? undefined : parseTime(span);
        if (span !== "" && forPs === undefined) {
          return refuse(
            `Found ${span}: expected a time as 2ms, or nothing`,
          );
        }
        close();
        give(id, {
          target: text("target"),
          action,
          value: text("value"),
          ...(forPs !== undefined && { forPs }),
        });
      }}
    >
      <h2 id="dialog-title">{title} on {target}</h2>
      <div class="row end">
        <label>
          {what}
          <input name="value" required autofocus value={like} size={10} />
        </label>
        <label>
          direction
          <select name="target">
            <option value={target}>both</option>
            <option value={`${near}->${far}`}>{near} to {far?.replace(/#.*/, "")}</option>
            <option
              value={`${far?.replace(/#.*/, "")}->${near}${/#.*/.exec(far ?? "")?.[0] ?? ""}`}
            >
              {far?.replace(/#.*/, "")} to {near}
            </option>
          </select>
        </label>
        <label>
          for so long, or until it is healed
          <input name="for" placeholder="2ms" size={10} />
        </label>
      </div>
      <div class="row">
        <button type="submit" class="danger">{title}</button>
        <button type="button" onClick={close}>Cancel</button>
      </div>
    </form>
  ));
}

export function CableActs(
  { target, isFaulty }: { readonly target: string; readonly isFaulty: boolean },
): ComponentChildren {
  const id = run.value;
  if (id === undefined || !isOperator.value || isPast.value || !isUp.value) {
    return null;
  }
  return (
    <div class="acts">
      <button type="button" class="danger" onClick={() => give(id, { target, action: "cut" })}>
        Cut
      </button>
      {IMPAIRMENTS.map((action) => (
        <button
          key={action}
          type="button"
          onClick={() => openFault(id, { target, action })}
        >
          {TITLES[action]}…
        </button>
      ))}
      <button
        type="button"
        disabled={!isFaulty}
        onClick={() => give(id, { target, action: "heal" })}
      >
        Heal
      </button>
    </div>
  );
}
