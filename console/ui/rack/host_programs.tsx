/** Programs of a host at the instant that is shown: state, what they reported, what they logged. */
import { useSignal } from "@preact/signals";
import type { Topology } from "../../api/rack.ts";
import type { ProgramProgress, Programs } from "../../api/replay.ts";
import { api } from "../data/api.ts";
import { useReplayed } from "../data/replayed.ts";
import { shownAt } from "../data/shown.ts";
import { jsonOf, Value } from "../frame/value.tsx";
import { count, plural, sentence, time } from "../figures.ts";

export function HostPrograms({ host, isOn, planned }: {
  readonly host: string;
  readonly isOn: boolean;
  readonly planned: Topology["programs"];
}) {
  // The instant at which the waits are looked up, whatever that takes.
  const exact = useSignal<number | undefined>(undefined);
  const { value, trouble } = useReplayed((run, query) => {
    const isExact = exact.value !== undefined && exact.value === shownAt.peek();
    return api.programs(run, { host, ...query, ...(isExact && { exact: "true" }) });
  }, exact).value;
  return (
    <>
      {planned.length > 0 && (
        <>
          <h3>Programs</h3>
          <ul class="plain">
            {planned.map(({ run, options }, i) => (
              <li key={i}>
                {run}{" "}
                <code>
                  {Object.entries(options).map(([key, value]) => `${key} ${value}`).join(", ")}
                </code>
              </li>
            ))}
          </ul>
        </>
      )}
      {trouble !== "" && (
        <p class="note quiet">What its programs have come to is not known: {trouble}</p>
      )}
      {value === undefined
        ? trouble === "" && (
          <p class="quiet">What its programs have come to is being worked out …</p>
        )
        : <Progress found={value} isOn={isOn} onExact={() => exact.value = shownAt.peek()} />}
    </>
  );
}

function Progress({ found, isOn, onExact }: {
  readonly found: Programs;
  readonly isOn: boolean;
  readonly onExact: () => void;
}) {
  const { programs, isWhole, reports, moreReports, log, moreLog } = found;
  return (
    <div data-testid="programs">
      {!isOn && <p class="quiet">It has no power: programs that ran were cut off.</p>}
      <ul class="plain">
        {programs.map((each) => (
          <li key={each.program}>
            <code>{each.program}</code> <State program={each} />
          </li>
        ))}
      </ul>
      {!isWhole && (
        <p class="quiet">
          What its programs wait for was not looked up: too much happened before this instant.{" "}
          <button type="button" class="link" onClick={onExact}>Look it up</button>
        </p>
      )}
      {reports.length > 0 && (
        <>
          <h3>Reported by programs</h3>
          <Earlier more={moreReports} what="report" />
          <table class="wide">
            <tbody>
              {reports.map(({ at, topic, text, isCut }, i) => (
                <tr key={i}>
                  <td class="num">{time(at)}</td>
                  <td>{topic}</td>
                  <td>
                    <Reported text={text} />
                    {isCut && " (only its beginning)"}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      {log.length > 0 && (
        <>
          <h3>Logged by programs</h3>
          <Earlier more={moreLog} what="line" />
          <pre class="log" tabIndex={0} aria-label="Log of programs">
            {log.map(({ at, text }) => `${time(at)}  ${text}`).join("\n")}
          </pre>
        </>
      )}
    </div>
  );
}

function Reported({ text }: { readonly text: string }) {
  const whole = jsonOf(text);
  return whole === undefined ? <code>{text}</code> : <Value value={whole.value} />;
}

function Earlier({ more, what }: { readonly more: number; readonly what: string }) {
  if (more === 0) return null;
  return <p class="quiet">The latest ones; {plural(more, `earlier ${what}`)} not shown.</p>;
}

function State({ program }: { readonly program: ProgramProgress }) {
  const { state, since, text, line, stack } = program;
  const [, file, number] = /^(.*?):(\d+):\d+$/.exec(line ?? "") ?? [];
  const where = file === undefined ? "" : ` at line ${count(Number(number))} of ${file}`;
  switch (state) {
    case "failed":
      return (
        <>
          <span class="is-lost">✗ failed{where}</span>, {time(since)}: {sentence(text)}
          {stack !== undefined && (
            <details>
              <summary>Where</summary>
              <pre class="log" tabIndex={0} aria-label="Stack">{stack}</pre>
            </details>
          )}
        </>
      );
    case "ended":
      return <>✓ ended, {time(since)}</>;
    case "stopped":
      return <>stopped as its host shut down, {time(since)}</>;
    case "serves":
      // What it waits for is its author's words for events.
      return <span title={`waits for ${text}`}>serves, waits for its clients{where}</span>;
    case "waits":
      return <>waits for {text}{where}, since {time(since)}</>;
  }
}
