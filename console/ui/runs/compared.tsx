import type { EventRow } from "../../api/replay.ts";
import { api } from "../data/api.ts";
import { count, counter, time, wordsOfCounter, wordsOfVariant } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { go, hrefOf, place } from "../state.ts";

function Rows({ title, rows }: { readonly title: string; readonly rows: readonly EventRow[] }) {
  return (
    <div>
      <h3>{title}</h3>
      {rows.length === 0 ? <p class="quiet">Nothing happens here.</p> : (
        <ul class="plain">
          {rows.map(({ node, name, text }, i) => (
            <li key={i}>
              <strong>{node}</strong> {name} <code>{text}</code>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** All digits: two counters that differ look different. */
function exact(name: string, value: number): string {
  if (name.endsWith("Ps")) return time(value);
  return /bytes/i.test(name) ? `${count(value)}\u202fB` : counter(name, value);
}

function isAlike(
  { here, there }: { readonly here: readonly EventRow[]; readonly there: readonly EventRow[] },
): boolean {
  const key = (rows: readonly EventRow[]) =>
    JSON.stringify(rows.map(({ node, name, text }) => [node, name, text]));
  return here.length > 0 && key(here) === key(there);
}

function Side({ id, member }: { readonly id: string; readonly member: "of" | "withOf" }) {
  const { more } = place.value, { value } = useFetched(id, () => api.run(id)).value;
  const variants = value?.variants ?? [];
  if (variants.length < 2) return <span>{id}</span>;
  return (
    <label class="row">
      {id}
      <select
        aria-label={member === "of" ? "Variant of the first" : "Variant of the second"}
        value={more[member] ?? variants[0]!}
        onChange={({ currentTarget }) => go({ more: { ...more, [member]: currentTarget.value } })}
      >
        {variants.map((name) => <option key={name} value={name}>{wordsOfVariant(name)}</option>)}
      </select>
    </label>
  );
}

export function Compared({ one, other }: { readonly one: string; readonly other: string }) {
  const { of: variant, withOf: withVariant } = place.value.more;
  const { value, trouble } = useFetched(
    `${one} ${variant} ${other} ${withVariant}`,
    () => api.compare(one, { variant, with: other, withVariant }),
  ).value;
  return (
    <div class="scroll page" tabIndex={0} role="region" aria-label="Comparison">
      <p>
        <a href={hrefOf({ more: {} })}>All runs</a>
      </p>
      <h1>{one === other ? "Two variants" : "Two runs"}</h1>
      <div class="row quiet">
        <Side id={one} member="of" />
        and
        <Side id={other} member="withOf" />
      </div>
      {trouble !== undefined && <p class="note refused">{trouble}</p>}
      {value === undefined && trouble === undefined && <Loading what="both replays" />}
      {value?.isSame === true && (
        <p class="note is-safe">They are the same: digest {value.here.digest}.</p>
      )}
      {value !== undefined && value.first !== null && (
        <>
          <h2>
            They part at {time(value.first.at)}
            <small>{value.first.nodes.join(", ")}</small>
          </h2>
          <p>
            <a href={hrefOf({ view: "rack", run: one, variant, at: value.first.at, more: {} })}>
              Show that instant of the first
            </a>
          </p>
          <div class="two">
            <Rows title="The first" rows={value.first.here} />
            <Rows title="The second" rows={value.first.there} />
          </div>
          {isAlike(value.first) && (
            <p class="quiet">
              Both read alike here: what differs is in the bytes of a message, such as its packet
              sequence number, which follows from the seed.
            </p>
          )}
        </>
      )}
      {value !== undefined && !value.isSame && (
        <>
          <h2>Figures</h2>
          <table class="list">
            <thead>
              <tr>
                <th>device</th>
                <th>counter</th>
                <th class="num">first</th>
                <th class="num">second</th>
              </tr>
            </thead>
            <tbody>
              <tr>
                <td>all</td>
                <td>events</td>
                <td class="num">{count(value.here.events)}</td>
                <td class="num">{count(value.there.events)}</td>
              </tr>
              <tr>
                <td>all</td>
                <td>end</td>
                <td class="num">{time(value.here.endPs)}</td>
                <td class="num">{time(value.there.endPs)}</td>
              </tr>
              {value.figures.map(({ node, name, here, there }) => (
                <tr key={`${node} ${name}`}>
                  <td>{node}</td>
                  <td title={name}>{wordsOfCounter(name)}</td>
                  <td class="num">{here === null ? "–" : exact(name, here)}</td>
                  <td class="num">{there === null ? "–" : exact(name, there)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}
