/** At a checkpoint of a run, a rack of processes comes up as it stood. */
import { api } from "../data/api.ts";
import { runs } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { count, time } from "../figures.ts";
import { useFetched } from "../frame/fetched.ts";
import { ask } from "../frame/dialogs.tsx";
import { order } from "../frame/notice.tsx";
import { bringUpAt } from "../frame/resume.ts";

/** Asks first. */
export function askToDeleteCheckpoint(id: string, name: string, variant?: string): void {
  ask({
    title: `Delete the checkpoint ${name}`,
    body: <p>No rack can be brought up there by its name any more. The run {id} stays.</p>,
    act: `Delete ${name}`,
    stay: "Leave it",
    onSure: () => void order(api.removeCheckpoint(id, name, variant), () => `${name} is deleted`),
  });
}

export function Checkpoints({ id, isUp }: { readonly id: string; readonly isUp: boolean }) {
  const names = runs.value?.runs.find((each) => each.id === id)?.checkpoints ?? [];
  const { value, trouble } = useFetched(id, () => api.checkpoints(id), names.join(" ")).value;
  const all = value?.checkpoints ?? [];
  const take = () =>
    void order(api.checkpoint(id, {}), ({ name, atPs }) => `${name}: ${time(atPs)}`);
  if (all.length === 0 && !(isUp && isOperator.value) && trouble === undefined) return null;
  return (
    <>
      <div class="row apart">
        <h2>Checkpoints</h2>
        {isUp && isOperator.value && <button type="button" onClick={take}>Checkpoint here</button>}
      </div>
      {trouble !== undefined && <p class="note refused">{trouble}</p>}
      {value !== undefined && all.length === 0 && (
        <p class="quiet">A checkpoint keeps where the rack stands, to bring one up there again.</p>
      )}
      {all.length > 0 && (
        <table class="list" aria-label="Checkpoints">
          <tbody>
            {all.map(({ name, atPs, events, digest }) => (
              <tr key={name}>
                <td class="name">{name}</td>
                <td class="num">{time(atPs)}</td>
                <td class="num">{count(events)} events</td>
                <td class="quiet num">{digest ?? ""}</td>
                <td>
                  {isOperator.value && (
                    <>
                      <button
                        type="button"
                        onClick={() => bringUpAt(id, { at: name })}
                      >
                        Bring up a rack here
                      </button>{" "}
                      <button
                        type="button"
                        aria-label={`Delete the checkpoint ${name}`}
                        onClick={() => askToDeleteCheckpoint(id, name)}
                      >
                        Delete
                      </button>
                    </>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
