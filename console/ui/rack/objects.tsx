/** Objects in a host's SCM, by the service that the command `rack put` and its kin ask. */
import { signal, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { METHODS } from "../../../fabric/rack/plan/vocabulary.ts";
import type { Objects as Listed } from "../../api/orders.ts";
import { api } from "../data/api.ts";
import { clock } from "../data/rack.ts";
import { isHeld } from "../frame/time.ts";
import { bytes, plural, time } from "../figures.ts";
import { ask } from "../frame/dialogs.tsx";
import { order } from "../frame/notice.tsx";
import { saveAs } from "../frame/save.ts";
import { run } from "../state.ts";

/** By run and host, as they were listed last: a window that grows narrow and wide again has them. */
const lists = signal<ReadonlyMap<string, Listed["objects"]>>(new Map());

/** Each is a program of another host, so that it takes virtual time. */
export function Objects({ host }: { readonly host: string }) {
  const busy = useSignal(""), method = useSignal<string>("persist-opcode");
  const file = useRef<HTMLInputElement>(null);
  const id = run.value;
  if (id === undefined) return null;
  const key = `${id} ${host}`, listed = lists.value.get(key);

  async function during<T>(what: string, answer: Promise<T>, done: (value: T) => string) {
    busy.value = what;
    await order(answer, done);
    busy.value = "";
  }

  const list = () =>
    during("Listing", api.objects(id, host), ({ objects }) => {
      lists.value = new Map([...lists.peek(), [key, objects]]);
      return "";
    });

  async function put(): Promise<void> {
    const content = file.current?.files?.[0];
    if (content === undefined) return;
    await during(
      `Putting ${content.name}`,
      api.putObject(id!, { host, name: content.name, content, method: method.value }),
      ({ startPs, endPs, promises, messages }) =>
        `${content.name} is on ${host}: ${plural(messages, "message")} in ${
          time(endPs - startPs)
        }, ${promises ? "promised to survive a power cut" : "claimed by its method, not promised"}`,
    );
    file.current!.value = "";
    await list();
  }

  const get = (name: string) =>
    during(`Getting ${name}`, api.getObject(id, { host, name }), (content) => {
      saveAs(name, content);
      return `${name}: ${bytes(content.size)}`;
    });

  function remove(name: string): void {
    ask({
      title: `Remove ${name}`,
      body: <p>The object goes out of the SCM of {host}. It cannot be had back.</p>,
      act: `Remove ${name}`,
      stay: "Keep it",
      onSure: async () => {
        await during(
          `Removing ${name}`,
          api.removeObject(id!, { host, name }),
          () => `${name} is removed from ${host}`,
        );
        await list();
      },
    });
  }

  return (
    <section aria-label={`Objects on ${host}`}>
      <h3>Objects in its SCM</h3>
      {listed?.length === 0 && <p class="quiet">There is none.</p>}
      {(listed?.length ?? 0) > 0 && (
        <table class="wide">
          <tbody>
            {listed!.map(({ name, length, incomplete }) => (
              <tr key={name}>
                <td>
                  {name}
                  {incomplete && <span class="is-lost">, incomplete</span>}
                </td>
                <td class="num">{bytes(length)}</td>
                <td class="num">
                  <button type="button" class="link" onClick={() => void get(name)}>get</button>
                  {" "}
                  <button type="button" class="link" onClick={() => remove(name)}>remove…</button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <div class="acts">
        <button type="button" disabled={busy.value !== ""} onClick={() => void list()}>
          {listed === undefined ? "List them" : "List again"}
        </button>
        <button
          type="button"
          disabled={busy.value !== ""}
          onClick={() => file.current?.click()}
        >
          Put a file…
        </button>
        <select
          aria-label="Method of a put"
          value={method.value}
          onChange={({ currentTarget }) => method.value = currentTarget.value}
        >
          {METHODS.map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
        <input
          ref={file}
          type="file"
          hidden
          aria-label={`A file for ${host}`}
          onChange={() => void put()}
        />
      </div>
      {busy.value !== "" && (
        <p class="quiet" role="status">
          {busy.value} … {clock.value !== null && isHeld.value &&
            "It takes virtual time, which stands: let it run."}
        </p>
      )}
    </section>
  );
}
