import type { FrameField, LadderDocument, LadderFrame } from "../../api/operations.ts";
import { bytes as byteText, time } from "../figures.ts";
import { lookAt } from "../state.ts";
import { sinceText } from "./ladder.tsx";

export function StepDetail(
  { ladder, index }: { readonly ladder: LadderDocument; readonly index: number },
) {
  const row = ladder.rows[index];
  if (row === undefined) return <p class="quiet">Select a step to see its frame.</p>;
  const frame = row.frame === undefined ? undefined : ladder.frames[row.frame];
  return (
    <>
      <h2>
        {row.step}
        <small>{row.to === undefined ? row.node : `${row.node} → ${row.to}`}</small>
      </h2>
      {row.document !== null && <p>{row.document}</p>}
      <p class="quiet">{row.text}</p>
      <dl>
        <dt>at</dt>
        <dd>{time(row.time)}</dd>
        <dt>since the operation began</dt>
        <dd>{sinceText(row.sincePs)}</dd>
      </dl>
      <div class="acts">
        <button type="button" onClick={() => lookAt(row.time + 1)}>Show this instant</button>
      </div>
      {frame === undefined
        ? <p class="quiet">No frame carries this step: it happens inside {row.node}.</p>
        : <FrameDetail frame={frame} />}
    </>
  );
}

function FrameDetail({ frame }: { readonly frame: LadderFrame }) {
  const groups = Map.groupBy(frame.fields, ({ header }) => header);
  return (
    <>
      <h3>Frame, {byteText(frame.length)}</h3>
      <p class="num">{frame.text}</p>
      <table class="passes">
        <tbody>
          {frame.passes.map(({ node, kind, startPs, effect }, i) => (
            <tr key={i}>
              <td>{kind === "sent" ? "leaves" : "reaches"} {node}</td>
              <td class="num">{time(startPs)}</td>
              {effect !== undefined && <td class="is-lost">{effect}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {[...groups].map(([header, fields]) => (
        <Header
          key={header}
          {...{ header, fields, frame }}
        />
      ))}
    </>
  );
}

function Header(
  { header, fields, frame }: {
    readonly header: string;
    readonly fields: readonly FrameField[];
    readonly frame: LadderFrame;
  },
) {
  const from = Math.floor(fields[0]!.bit / 8);
  const last = fields.at(-1)!;
  const to = Math.ceil((last.bit + last.bits) / 8);
  return (
    <section class="header-fields">
      <h3>
        {header === "Frame" ? "Behind the headers" : header}
        <small class="num quiet">
          {from}–{to - 1}
        </small>
      </h3>
      {header !== "Frame" && <code class="hex">{hexOf(frame.bytes, from, to)}</code>}
      <dl class="fields">
        {fields.map(({ name, value, meaning, bits }, i) => (
          <div key={i} class={meaning === "reserved" ? "is-reserved" : ""}>
            <dt title={`${bits} bit${bits === 1 ? "" : "s"}`}>{wordsOf(name)}</dt>
            <dd>{value}</dd>
            {meaning !== "" && meaning !== "reserved" && <dd class="meaning">{meaning}</dd>}
          </div>
        ))}
      </dl>
      {header === "Frame" && frame.bytes.length < frame.length * 2 && (
        <p class="quiet">The first {frame.bytes.length / 2} bytes are kept here.</p>
      )}
    </section>
  );
}

function hexOf(bytes: string, from: number, to: number): string {
  return bytes.slice(2 * from, 2 * to).replace(/(..)(?=.)/g, "$1 ").replace(/((?:.. ){4})/g, "$1 ")
    .trimEnd();
}

const ACRONYMS = new Set("qpn psn msn va crc ttl dscp ecn fecn becn icrc".split(" "));

function wordsOf(name: string): string {
  if (name === "") return "reserved";
  const words = name.replace(/([A-Z])/g, " $1").toLowerCase().split(" ");
  return words.map((word) => ACRONYMS.has(word) ? word.toUpperCase() : word).join(" ");
}
