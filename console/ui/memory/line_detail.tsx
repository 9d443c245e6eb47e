import type { MemoryLine, MemorySpan, MemoryView, WriteRef } from "../../api/replay.ts";
import { time } from "../figures.ts";
import { lookAt } from "../state.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { type LineState, LOOKS } from "./memory_map.ts";

/** @param detail undefined until the bytes are read. */
export function LineDetail(
  { view, address, detail }: {
    readonly view: MemoryView;
    readonly address: number;
    readonly detail: MemoryView | undefined;
  },
) {
  const line = view.lines.find(({ at }) => at === address);
  const bytes = detail?.lines.find(({ at }) => at === address);
  return (
    <>
      <h2>
        <span class="num">0x{address.toString(16)}</span>
        <small>{LINE_BYTES} B of {view.host}</small>
      </h2>
      {line === undefined ? <p class="quiet">Nothing has been written here by now.</p> : (
        <>
          {line.torn && (
            <p class="note refused">
              <strong class="is-lost">Torn</strong>: a power cut now would leave a part of a write
              here.
            </p>
          )}
          {line.spans.map((span) => <Span key={span.from} span={span} view={view} />)}
          {bytes?.seen !== undefined && <Bytes line={bytes} />}
        </>
      )}
    </>
  );
}

function Span({ span, view }: { readonly span: MemorySpan; readonly view: MemoryView }) {
  const { from, to, place, survives, since, write } = span;
  const isKept = (place === "llc" || place === "iio") && survives;
  const state: LineState = isKept ? `${place}-safe` : place;
  const { words, tone } = LOOKS[state];
  return (
    <section>
      <h3 class="num">
        0x{from.toString(16)} to 0x{to.toString(16)}
      </h3>
      <p class={`is-${tone}`}>{words}</p>
      <dl>
        {since > 0 && (
          <>
            <dt>its newest copy is there since</dt>
            <dd>{time(since)}</dd>
          </>
        )}
        <dt>after a power cut now</dt>
        <dd>{survives ? "there" : "lost"}</dd>
      </dl>
      {since > 0 && (
        <div class="acts">
          <button type="button" onClick={() => lookAt(since + 1)}>
            Show when it came there
          </button>
        </div>
      )}
      {write !== undefined && view.writes[write] !== undefined && (
        <Write write={view.writes[write]} />
      )}
    </section>
  );
}

const STANDINGS: Readonly<Record<WriteRef["standing"], string>> = {
  posted: "posted: nothing is known of it yet",
  visible: "visible, and not promised",
  claimed: "claimed by its method, and not promised",
  promised: "promised to survive a power cut",
};

function Write({ write }: { readonly write: WriteRef }) {
  const { by, id, node, standing, standingAt, issuedAt } = write;
  return (
    <p class={standing === "promised" ? "" : "quiet"}>
      Write {id} of {by} on {node}, posted at <span class="num">{time(issuedAt)}</span>:{" "}
      <span class={standing === "promised" ? "is-durable" : ""}>{STANDINGS[standing]}</span>
      {standing !== "posted" && (
        <>
          {" "}since <span class="num">{time(standingAt)}</span>
        </>
      )}.
    </p>
  );
}

const ROW_BYTES = 8;

function Bytes({ line }: { readonly line: MemoryLine }) {
  const seen = line.seen!.match(/../g) ?? [], left = (line.left ?? line.seen!).match(/../g) ?? [];
  const rows = Array.from({ length: Math.ceil(seen.length / ROW_BYTES) }, (_, i) => i * ROW_BYTES);
  const isSame = seen.every((byte, i) => byte === left[i]);
  return (
    <section>
      <h3>Bytes{isSame ? "" : ", and what a cut would leave"}</h3>
      <table class="bytes">
        <tbody>
          {rows.map((at) => (
            <tr key={at}>
              <th class="num">+{at.toString(16).padStart(2, "0")}</th>
              <td class="num">
                {seen.slice(at, at + ROW_BYTES).map((byte, i) => (
                  <span key={i} class={byte === left[at + i] ? "" : "is-changed"}>{byte}</span>
                ))}
                {!isSame && (
                  <div class="left">
                    {left.slice(at, at + ROW_BYTES).map((byte, i) => (
                      <span key={i} class={byte === seen[at + i] ? "is-same" : "is-lost"}>
                        {byte}
                      </span>
                    ))}
                  </div>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
