/** Two runs: what differs in figures, and the first event at which they part. */
import type { EventRow } from "../../replay/types.ts";
import { api } from "../data/api.ts";
import { count, grouped, time } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { hrefOf } from "../state.ts";

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

export function Compared({ one, other }: { readonly one: string; readonly other: string }) {
  const { value, trouble } = useFetched(`${one} ${other}`, () => api.compare(one, other)).value;
  return (
    <div class="scroll page" tabIndex={0} role="region" aria-label="Comparison">
      <p>
        <a href={hrefOf({ more: {} })}>All runs</a>
      </p>
      <h1>Two runs</h1>
      <p class="quiet">
        {one} and {other}
      </p>
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
            <a href={hrefOf({ view: "rack", run: one, at: value.first.at, more: {} })}>
              Show that instant of the first
            </a>
          </p>
          <div class="two">
            <Rows title={one} rows={value.first.here} />
            <Rows title={other} rows={value.first.there} />
          </div>
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
                  <td>{name}</td>
                  <td class="num">{here === null ? "–" : grouped(String(here))}</td>
                  <td class="num">{there === null ? "–" : grouped(String(there))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}
