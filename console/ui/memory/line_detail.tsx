import type {
  MemoryLine,
  MemorySpan,
  MemoryView,
  WriteRef,
  WriteStanding,
} from "../../api/replay.ts";
import { time } from "../figures.ts";
import { hrefOf, lookAt } from "../state.ts";
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
              <strong class="is-lost">Torn</strong>: {line.spans.some(({ lost }) => lost)
                ? "the power cut has left a part of a write here."
                : "a power cut now would leave a part of a write here."}
            </p>
          )}
          {line.spans.map((span) =>
            span.lost
              ? <LostSpan key={span.from} span={span} view={view} />
              : <Span key={span.from} span={span} view={view} />
          )}
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

/** What a power failure took, whose it was, and what had been said of it. */
function LostSpan({ span, view }: { readonly span: MemorySpan; readonly view: MemoryView }) {
  const { from, to, lost, write } = span, { at, place } = lost!;
  const ref = write === undefined ? undefined : view.writes[write];
  return (
    <section data-testid="lost">
      <h3 class="num">
        0x{from.toString(16)} to 0x{to.toString(16)}
      </h3>
      <p class="is-lost">
        Lost by the power cut at <span class="num">{time(at)}</span>
      </p>
      <dl>
        <dt>it was</dt>
        <dd>{LOOKS[place].words.replace(/:.*/, "")}</dd>
        <dt>here is</dt>
        <dd>{span.since > 0 ? `bytes of ${time(span.since)}` : "what was here before the run"}</dd>
      </dl>
      {ref === undefined
        ? <p class="quiet">No program has said that it writes here.</p>
        : <Write write={ref} />}
      <p class={ref?.standing === "promised" ? "is-lost" : ""}>
        {VERDICTS[ref?.standing ?? "posted"]}
      </p>
      <div class="acts">
        <button type="button" onClick={() => lookAt(at)}>Show the instant before</button>
      </div>
    </section>
  );
}

/** As the check of persistence judges a lost write. */
const VERDICTS: Readonly<Record<WriteStanding, string>> = {
  promised: "A promise is broken: survives-what-was-reported fails.",
  claimed: "No promise is broken. Judged by its claim, survives-what-was-reported fails.",
  visible: "No promise is broken: it was visible, and that says nothing of a power cut.",
  posted: "No promise is broken: nothing was said of it.",
};

const STANDINGS: Readonly<Record<WriteRef["standing"], string>> = {
  posted: "posted: nothing is known of it yet",
  visible: "visible, and not promised",
  claimed: "claimed by its method, and not promised",
  promised: "promised to survive a power cut",
};

function Write({ write }: { readonly write: WriteRef }) {
  const { by, id, node, standing, standingAt, issuedAt, operation } = write;
  return (
    <p class={standing === "promised" ? "" : "quiet"}>
      Write {id} of {by} on {node}, posted at <span class="num">{time(issuedAt)}</span>:{" "}
      <span class={standing === "promised" ? "is-durable" : ""}>{STANDINGS[standing]}</span>
      {standing !== "posted" && (
        <>
          {" "}(since <span class="num">{time(standingAt)}</span>)
        </>
      )}. {operation !== undefined && (
        <a
          href={hrefOf({
            view: "operation",
            select: { kind: "operation", number: operation },
            more: { number: String(operation) },
          })}
        >
          Its ladder and frames
        </a>
      )}
    </p>
  );
}

const ROW_BYTES = 8;

function Bytes({ line }: { readonly line: MemoryLine }) {
  // After a power failure: what was there, and what it has left.
  const seen = (line.was ?? line.seen!).match(/../g) ?? [];
  const left = (line.was === undefined ? line.left : line.seen)?.match(/../g) ?? seen;
  const rows = Array.from({ length: Math.ceil(seen.length / ROW_BYTES) }, (_, i) => i * ROW_BYTES);
  const isSame = seen.every((byte, i) => byte === left[i]);
  return (
    <section>
      <h3>
        {line.was === undefined
          ? `Bytes${isSame ? "" : ", and what a cut would leave"}`
          : "Bytes as they were, and what is left"}
      </h3>
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
