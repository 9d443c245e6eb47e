/** Those who use this console: who is signed in, invitations, whose the shown rack is, the audit log. */
import { type Signal, useSignal } from "@preact/signals";
import type { LockOrder, Role } from "../../api/session.ts";
import { USER_LETTERS_MAX } from "../../api/page_terms.ts";
import { api } from "../data/api.ts";
import { isUp } from "../data/rack.ts";
import { isOperator, session } from "../data/session.ts";
import { go, run } from "../state.ts";
import { when } from "../figures.ts";
import { close, open } from "./dialogs.tsx";
import { Loading } from "./empty.tsx";
import { useFetched } from "./fetched.ts";

const AUDIT_SHOWN = 100;

function Team() {
  const changes = useSignal(0), trouble = useSignal("");
  const id = isUp.value ? run.value : undefined;

  async function during<T>(answer: Promise<T>): Promise<T | undefined> {
    trouble.value = "";
    try {
      return await answer;
    } catch (error) {
      trouble.value = (error as Error).message;
      return undefined;
    } finally {
      changes.value++;
    }
  }

  const me = session.value!;
  return (
    <div class="team">
      <div class="row apart">
        <h2 id="dialog-title">Team</h2>
        <button type="button" class="plain" autofocus aria-label="Close" onClick={close}>✕</button>
      </div>
      <p>
        You are <strong>{me.name}</strong>: {me.role === "operator"
          ? "an operator, who may give orders and invite others."
          : "a viewer, who may look at everything and change nothing."}
      </p>
      {trouble.value !== "" && <p class="note refused" role="alert">{trouble.value}</p>}
      <Users changes={changes} />
      {isOperator.value && <Invite during={during} />}
      {id !== undefined && <Lock id={id} changes={changes} during={during} />}
      {isOperator.value && <Attach during={during} />}
      {isOperator.value && <Audit changes={changes} />}
    </div>
  );
}

interface Changes {
  /** Counts what was changed here: what is shown is read anew. */
  readonly changes: Signal<number>;
}

interface During {
  readonly during: <T>(answer: Promise<T>) => Promise<T | undefined>;
}

function Users({ changes }: Changes) {
  const { value, trouble } = useFetched("users", api.users, `${changes}`).value;
  if (value === undefined) return trouble === undefined ? <Loading what="who is here" /> : null;
  return (
    <>
      <h3>Signed in</h3>
      <table class="wide list" aria-label="Who is signed in">
        <tbody>
          {value.users.map(({ session, name, role }) => (
            <tr key={session}>
              <td>{name}</td>
              <td>{role}</td>
              <td class="quiet">{session}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Invite({ during }: During) {
  const name = useSignal(""), role = useSignal<Role>("viewer"), url = useSignal("");
  return (
    <form
      aria-label="Invite"
      onSubmit={async (event) => {
        event.preventDefault();
        const made = await during(api.invite({ role: role.value, name: name.value }));
        url.value = made?.url ?? "";
      }}
    >
      <h3>Invite</h3>
      <div class="row end">
        <label>
          Name
          <input
            value={name.value}
            maxLength={USER_LETTERS_MAX}
            onInput={({ currentTarget }) => name.value = currentTarget.value}
          />
        </label>
        <label>
          Role
          <select
            value={role.value}
            onChange={({ currentTarget }) =>
              role.value = currentTarget.value === "operator" ? "operator" : "viewer"}
          >
            <option value="viewer">viewer</option>
            <option value="operator">operator</option>
          </select>
        </label>
        <button type="submit">Make an address</button>
      </div>
      {url.value !== "" && (
        <label>
          It signs in one browser, once, within 24 hours
          <input class="wide" readOnly value={url.value} />
        </label>
      )}
    </form>
  );
}

function Lock({ id, changes, during }: { readonly id: string } & Changes & During) {
  const { value } = useFetched(id, () => api.lockOf(id), `${changes}`).value;
  const { value: all } = useFetched("heirs", api.users, `${changes}`).value;
  if (value === undefined) return null;
  const { owner, isLocked, isHere, since = "" } = value, mine = session.value!.session;
  // Two consoles number their sessions alike.
  const isOwn = isHere && owner?.session === mine, isMine = owner === null || isOwn;
  const others = all?.users.filter(({ session, role }) => session !== mine && role === "operator");
  const give = (order: LockOrder) => void during(api.lock(id, order));
  return (
    <section aria-label="The rack's owner">
      <h3>{id}</h3>
      <p>
        {owner === null
          ? "It is nobody's"
          : isOwn
          ? "It is yours"
          : `It is ${owner.name}'s${isHere ? "" : ", who is not signed in here"}`}
        {isLocked
          ? `, and locked since ${
            when(since)
          }: orders of others are refused, also those of the command line.`
          : ": every operator may give orders."}
      </p>
      {isOperator.value && !isMine && !isHere && (
        <div class="acts">
          <button type="button" onClick={() => give({ action: "take over" })}>Take it over</button>
        </div>
      )}
      {isOperator.value && isMine && (
        <div class="acts">
          <button type="button" onClick={() => give({ action: isLocked ? "unlock" : "lock" })}>
            {isLocked ? "Unlock it" : "Lock it"}
          </button>
          {others !== undefined && others.length > 0 && (
            <select
              aria-label="Hand it over to"
              value=""
              onChange={({ currentTarget }) =>
                give({ action: "hand over", to: currentTarget.value })}
            >
              <option value="">hand it over to …</option>
              {others.map(({ session, name }) => (
                <option key={session} value={session}>{name}</option>
              ))}
            </select>
          )}
        </div>
      )}
    </section>
  );
}

function Attach({ during }: During) {
  const url = useSignal(""), named = useSignal(""), isBusy = useSignal(false);
  return (
    <form
      aria-label="Attach"
      onSubmit={async (event) => {
        event.preventDefault();
        isBusy.value = true;
        const run = named.value.trim();
        const found = await during(
          api.attach({ url: url.value.trim(), ...(run !== "" && { run }) }),
        );
        isBusy.value = false;
        if (found === undefined) return;
        close();
        go({ view: "rack", run: found.run, more: {} });
      }}
    >
      <h3>A rack of another machine</h3>
      <div class="row end">
        <label>
          Its broker, with the supervisor's credential
          <input
            type="password"
            autocomplete="off"
            required
            placeholder="nats://_supervisor:PASSWORD@host:4222"
            value={url.value}
            onInput={({ currentTarget }) => url.value = currentTarget.value}
          />
        </label>
        <label>
          Run
          <input
            placeholder="the only one"
            value={named.value}
            onInput={({ currentTarget }) => named.value = currentTarget.value}
          />
        </label>
        <button type="submit" disabled={isBusy.value}>
          {isBusy.value ? "Attaching …" : "Attach it"}
        </button>
      </div>
    </form>
  );
}

function Audit({ changes }: Changes) {
  const { value, trouble } = useFetched("audit", api.audit, `${changes}`).value;
  if (value === undefined) {
    return trouble === undefined ? <Loading what="the audit log" /> : <p>{trouble}</p>;
  }
  return (
    <>
      <h3>Audit log</h3>
      <div class="scroll audit" tabIndex={0} role="region" aria-label="Audit log">
        <table class="wide list">
          <thead>
            <tr>
              <th>when</th>
              <th>who</th>
              <th>what</th>
              <th>to what</th>
              <th>result</th>
            </tr>
          </thead>
          <tbody>
            {value.entries.slice(0, AUDIT_SHOWN).map((
              { number, at, session, name = session, action, target, result },
            ) => (
              <tr key={number}>
                <td class="num">{new Date(at).toLocaleTimeString()}</td>
                <td>{name === "" ? "nobody" : name}</td>
                <td>{action}</td>
                <td>{target}</td>
                <td class={result === "done" ? "" : "is-lost"}>{result}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

export function openTeam(): void {
  open(Team);
}
