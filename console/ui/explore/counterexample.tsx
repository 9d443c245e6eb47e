import type { Counterexample } from "../../api/jobs.ts";
import { disturbedTexts } from "../../api/explore_text.ts";
import { bytes, sentence, time } from "../figures.ts";
import { Ladders } from "../operation/ladder.tsx";
import { useState } from "preact/hooks";

type Span = Counterexample["places"][number];

const PLACES: Readonly<
  Record<Span["place"], { readonly tone: string; readonly letter: string; readonly words: string }>
> = {
  "not there yet": { tone: "flight", letter: "N", words: "on the network or in a card" },
  "local cache": { tone: "flight", letter: "L", words: "in the local cache of the card" },
  bus: { tone: "flight", letter: "B", words: "on the bus" },
  iio: { tone: "volatile", letter: "I", words: "in the I/O controller" },
  llc: { tone: "volatile", letter: "C", words: "in the cache" },
  memory: { tone: "durable", letter: "M", words: "in the write queue or on the medium" },
};

export function CounterexampleDetail(
  { found, command, onOpen }: {
    readonly found: Counterexample;
    readonly command: string | null;
    /** Runs it again as a run of which every view shows any instant; undefined: that cannot be. */
    readonly onOpen: (() => void) | undefined;
  },
) {
  const [row, setRow] = useState<number | undefined>(undefined);
  const { hosts, atPs, checker, promised, places, operation, ladder, again, holds } = found;
  const disturbed = disturbedTexts(found);
  return (
    <section class="counterexample">
      <div class="note refused row apart">
        <p>
          {holds === undefined && hosts.length === 0
            ? <strong class="is-lost">It fails without a power failure</strong>
            : holds === undefined
            ? <strong class="is-lost">The power of {hosts.join(", ")} fails</strong>
            : <strong class="is-lost">Programs interleave so, and the last goes on</strong>} at{" "}
          <span class="num">{time(atPs)}</span>. {checker}: {sentence(found.found)}
          {again !== undefined && " It fails again in the middle of the recovery."}
        </p>
        {onOpen !== undefined && (
          <div class="acts">
            <button type="button" onClick={onOpen}>Run it, and look at it</button>
          </div>
        )}
      </div>
      {disturbed.length > 0 && (
        <>
          <h3>What differs from the plain run</h3>
          <ul class="plain-list">
            {disturbed.map((text) => <li key={text}>{sentence(text)}</li>)}
          </ul>
        </>
      )}
      {promised.length > 0 && (
        <>
          <h3>What had been promised</h3>
          <ul class="plain-list">{promised.map((text) => <li key={text}>{sentence(text)}</li>)}</ul>
        </>
      )}
      {places.length > 0 && (
        <>
          <h3>Where the bytes were, and which of them survived</h3>
          <Places places={places} />
        </>
      )}
      {(operation !== null || ladder !== "") && <h3>The operation</h3>}
      {operation !== null
        ? (
          <div class="scroll">
            <Ladders
              instant={undefined}
              shown={[{ ladder: operation, selected: row, onSelect: setRow }]}
            />
            {row !== undefined && <p class="quiet">{sentence(operation.rows[row]?.text ?? "")}</p>}
          </div>
        )
        : ladder !== "" && <pre class="scroll">{ladder}</pre>}
      {command !== null && (
        <>
          <h3>To see it again</h3>
          <pre class="scroll" tabIndex={0}>{command}</pre>
        </>
      )}
    </section>
  );
}

const BAR_PX = 640;

/** Of each write as a bar: colour and letter show the place, a cross lost bytes. */
function Places({ places }: { readonly places: readonly Span[] }) {
  const writes = Map.groupBy(places, ({ by, id, host }) => `write ${id} of ${by}, to ${host}`);
  return (
    <>
      {[...writes].map(([name, spans]) => {
        const from = spans[0]!.from, to = spans.at(-1)!.to;
        const scale = BAR_PX / Math.max(1, to - from);
        return (
          <figure key={name} class="places">
            <figcaption>
              {name}: <span class="num">0x{from.toString(16)}</span>, {bytes(to - from)}
            </figcaption>
            <svg
              viewBox={`0 0 ${BAR_PX} 34`}
              role="img"
              aria-label={spans.map(spanText).join("; ")}
            >
              {spans.map((span) => {
                const x = (span.from - from) * scale, width = (span.to - span.from) * scale;
                const { tone, letter } = PLACES[span.place];
                return (
                  <g key={span.from}>
                    <title>{spanText(span)}</title>
                    <rect
                      x={x}
                      y={0}
                      width={Math.max(1, width - 1)}
                      height={18}
                      class={`fill-${tone}`}
                    />
                    {width > 14 && <text x={x + width / 2} y={13} class="letter">{letter}</text>}
                    <path
                      class={span.survived ? "found" : "gone"}
                      d={`M${x} 24h${Math.max(1, width - 1)}`}
                    />
                  </g>
                );
              })}
            </svg>
          </figure>
        );
      })}
      <ul class="legend">
        {Object.values(PLACES).map(({ tone, letter, words }) => (
          <li key={letter}>
            <i class={`key of-${tone}`} aria-hidden="true">{letter}</i> {words}
          </li>
        ))}
        <li>
          <Stroke of="found" /> found after the cut
        </li>
        <li>
          <Stroke of="gone" /> gone
        </li>
      </ul>
    </>
  );
}

function Stroke({ of }: { readonly of: "found" | "gone" }) {
  return (
    <svg class="stroke" viewBox="0 0 32 4" aria-hidden="true">
      <path class={of} d="M0 2h32" />
    </svg>
  );
}

function spanText({ from, to, place, survived }: Span): string {
  const range = `0x${from.toString(16)} to 0x${to.toString(16)}`;
  return `${range}: ${PLACES[place].words}, ${survived ? "found" : "gone"} after the cut`;
}
