import type { Report } from "../../api/report.ts";
import type { RunDetail } from "../../api/runs.ts";
import { api } from "../data/api.ts";
import { runs } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import {
  bitRate,
  bytes,
  count,
  plural,
  roughOr,
  roughTime,
  sentence,
  time,
  wordsOfVariant,
} from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { ask } from "../frame/dialogs.tsx";
import { order, refuse } from "../frame/notice.tsx";
import { csv, saveAs } from "../frame/save.ts";
import { Value } from "../frame/value.tsx";
import { go, hrefOf } from "../state.ts";
import { Checkpoints } from "./checkpoints.tsx";
import { Findings } from "./findings.tsx";
import { MethodBars } from "./method_bars.tsx";
import { hintColumns, leadColumns, queueColumns } from "./report_columns.ts";
import { ReportTable } from "./report_table.tsx";
import { SoFar } from "./so_far.tsx";
import { Throughput } from "./throughput.tsx";
import { Verdict } from "./verdict.tsx";

export function OneRun({ id }: { readonly id: string }) {
  // A rack that is up goes down, and a run is kept and released, while one looks at it.
  const { state, mark } = runs.value?.runs.find((each) => each.id === id) ?? {};
  const detail = useFetched(id, () => api.run(id), `${state} ${mark}`).value;
  const hasReport = detail.value?.hasReport === true;
  const report = useFetched(hasReport ? id : undefined, () => api.report(id)).value;
  return (
    <div class="scroll page" tabIndex={0} role="region" aria-label={`Run ${id}`}>
      <p>
        <a href={hrefOf({ more: {} })}>All runs</a>
      </p>
      <h1>
        {detail.value?.scenario ?? id}
        {detail.value?.scenario !== undefined && <small>{id}</small>}
      </h1>
      {detail.trouble !== undefined && <p class="note refused">{detail.trouble}</p>}
      {detail.value === undefined ? detail.trouble === undefined && <Loading what="the run" /> : (
        <>
          <Facts detail={detail.value} report={report.value} />
          <Acts detail={detail.value} />
          {detail.value.variants.length === 0 && (
            <Checkpoints id={id} isUp={detail.value.state === "up"} />
          )}
        </>
      )}
      {detail.value?.hasReport === false && detail.value.state !== "running" &&
        detail.value.variants.length < 2 && <SoFar run={detail.value} />}
      {report.trouble !== undefined && <p class="note refused">{report.trouble}</p>}
      {report.value !== undefined && detail.value !== undefined && (
        <Reported report={report.value} run={detail.value} />
      )}
      {detail.value !== undefined && hasReport && (
        <Throughput run={id} variant={detail.value.variants[0]} />
      )}
      {detail.trouble === undefined && <Files id={id} state={state ?? ""} />}
    </div>
  );
}

function Facts(
  { detail, report }: { readonly detail: RunDetail; readonly report: Report | undefined },
) {
  const { state, verdict, seed, digest, damage, ended } = detail;
  return (
    <>
      <dl class="facts">
        <dt>verdict</dt>
        <dd>
          <Verdict verdict={verdict} />
        </dd>
        <dt>state</dt>
        <dd>{state}</dd>
        <dt>seed</dt>
        <dd>{seed ?? "unknown"}</dd>
        <dt>digest</dt>
        <dd>{digest ?? "none yet"}</dd>
        {report !== undefined && (
          <>
            <dt>virtual time</dt>
            <dd>{time(report.virtualPs)}</dd>
            <dt>events</dt>
            <dd>{count(report.events)}</dd>
          </>
        )}
      </dl>
      {damage !== undefined && <p class="note refused">{damage}</p>}
      {ended !== "" && <p class="note">{ended}</p>}
    </>
  );
}

function askToTakeDown({ id, scenario }: RunDetail): void {
  ask({
    title: `Take ${scenario ?? id} down`,
    body: (
      <p>
        Its processes end, and what its programs were doing is not finished. What is on record stays
        as a run, {id}, at whose instants a rack can be brought up again.
      </p>
    ),
    act: "Take it down",
    stay: "Leave it up",
    onSure: () =>
      void order(
        api.down(id),
        ({ processes }) => `It is down: ${processes} processes have ended`,
      ),
  });
}

function askToDelete({ id, bytes: size, checkpoints, mark }: RunDetail): void {
  const kept = mark === undefined ? "" : ` It is kept${mark === "" ? "" : ` as "${mark}"`}.`;
  const points = checkpoints.length === 0 ? "" : `, ${plural(checkpoints.length, "checkpoint")}`;
  ask({
    title: `Delete ${id}`,
    body: (
      <p>
        Its report, captures, logs, what was in its memories{points}: {bytes(size)}, for good.{kept}
      </p>
    ),
    act: "Delete it",
    stay: "Leave it",
    onSure: () =>
      void order(api.remove(id), () => `${id} is deleted`).then((done) => done && go({ more: {} })),
  });
}

function Acts({ detail }: { readonly detail: RunDetail }) {
  const { id, state, mark, variants } = detail;
  return (
    <div class="acts">
      {variants.length === 0
        ? (
          <a class="button" href={hrefOf({ view: "rack", run: id, more: {} })}>
            Look at it in every view
          </a>
        )
        : (
          <select
            aria-label="Look at a variant in every view"
            onChange={({ currentTarget }) =>
              go({ view: "rack", run: id, variant: currentTarget.value, more: {} })}
          >
            <option value="">Look at a variant in every view …</option>
            {variants.map((name) => <option key={name} value={name}>{wordsOfVariant(name)}
            </option>)}
          </select>
        )}
      {variants.length > 1 && (
        <a
          class="button"
          href={hrefOf({ more: { show: id, with: id, withOf: variants[1]! } })}
        >
          Compare two of its variants
        </a>
      )}
      {isOperator.value && state === "kept" && (
        <button
          type="button"
          onClick={() =>
            void order(
              api.keep(id, mark === undefined),
              () => mark === undefined ? "It stays" : "It may go when others come",
            )}
        >
          {mark === undefined ? "Keep it" : "Release it"}
        </button>
      )}
      {isOperator.value && state === "up" && (
        <button
          type="button"
          class="danger"
          onClick={() => askToTakeDown(detail)}
        >
          Take it down
        </button>
      )}
      {isOperator.value && state !== "up" && state !== "running" && (
        <button
          type="button"
          class="danger"
          onClick={() => askToDelete(detail)}
        >
          Delete it
        </button>
      )}
    </div>
  );
}

const COLUMNS: readonly (readonly [
  name: string,
  figure: (row: Report["methods"][number]) => string,
  raw: (row: Report["methods"][number]) => number | string | null,
])[] = [
  ["median", ({ latencyPs }) => roughTime(latencyPs.median), ({ latencyPs }) => latencyPs.median],
  ["p99", ({ latencyPs }) => roughTime(latencyPs.p99), ({ latencyPs }) => latencyPs.p99],
  [
    "throughput",
    ({ throughputBps }) => bitRate(throughputBps),
    ({ throughputBps }) => throughputBps,
  ],
  [
    "bytes/message",
    ({ bytesPerMessage }) => roughOr(bytesPerMessage),
    ({ bytesPerMessage }) => bytesPerMessage,
  ],
  [
    "packets/message",
    ({ packetsPerMessage }) => roughOr(packetsPerMessage),
    ({ packetsPerMessage }) => packetsPerMessage,
  ],
  [
    "CPU, both",
    ({ cpuPs }) => roughTime(cpuPs.requester + cpuPs.responder),
    ({ cpuPs }) => cpuPs.requester + cpuPs.responder,
  ],
];

function Methods({ report }: { readonly report: Report }) {
  const rows = report.methods;
  const save = () =>
    saveAs(
      `${report.run}.csv`,
      csv([
        ["method", "ddio", ...COLUMNS.map(([name]) => name), "intact", "error"],
        ...rows.map((row) => [
          row.method,
          row.ddio,
          ...COLUMNS.map(([, , raw]) => raw(row)),
          row.intact,
          row.error,
        ]),
      ]),
    );
  return (
    <>
      <div class="row apart">
        <h2>Methods</h2>
        <button type="button" onClick={save}>Save as CSV</button>
      </div>
      <table class="wide list">
        <thead>
          <tr>
            <th>method</th>
            <th>DDIO</th>
            <th>promises</th>
            {COLUMNS.map(([name]) => <th key={name} class="num">{name}</th>)}
            <th>after a cut</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              <td>{row.method}</td>
              <td>{row.ddio}</td>
              <td>{row.promises ? "yes" : "no"}</td>
              {COLUMNS.map(([name, figure]) => <td key={name} class="num">{figure(row)}</td>)}
              <td>
                {row.error !== null
                  ? <span class="is-lost">✗ {row.error}</span>
                  : row.loss !== null
                  ? <span class="is-lost">✗ lost what it reported</span>
                  : row.intact
                  ? <span class="is-durable">✓ intact</span>
                  : <span class="is-volatile">not all is there</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** What programs came to, but for objects that were put: these are the methods' rows. */
function Results({ report, run }: { readonly report: Report; readonly run: RunDetail }) {
  const hasVariants = run.variants.length > 1;
  return (
    <>
      <h2>Results of programs</h2>
      <table class="wide list">
        <tbody>
          {report.results.map(({ node, variant, value }, i) => (
            <tr key={i}>
              {hasVariants && <td class="name">{variant}</td>}
              <td class="name">{node}</td>
              <td>
                <Result value={value} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Result({ value }: { readonly value: unknown }) {
  const { program, message, stack } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof message !== "string" || typeof stack !== "string") {
    return <Value value={value} />;
  }
  return (
    <>
      <span class="is-lost">✗ {String(program)} failed</span>: {sentence(message)}
      <details>
        <summary>Where</summary>
        <pre class="log" tabIndex={0} aria-label="Stack">{stack}</pre>
      </details>
    </>
  );
}

function Reported({ report, run }: { readonly report: Report; readonly run: RunDetail }) {
  return (
    <>
      {report.checks.length > 0 && (
        <>
          <h2>Checks</h2>
          <table class="wide list">
            <tbody>
              {report.checks.map((check) => {
                const { name, promise, holds } = check;
                return (
                  <tr key={name}>
                    <td class="name">
                      {holds
                        ? <span class="is-durable">✓ holds</span>
                        : <span class="is-lost">✗ fails</span>}
                    </td>
                    <td class="name">{name}</td>
                    <td class={holds ? "quiet" : ""}>
                      {holds ? promise : <Findings check={check} detail={run} />}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </>
      )}
      {report.unchecked?.map(({ variant, why }) => (
        <p key={variant} class="note would-lose">{variant}: the checks say nothing: {why}</p>
      ))}
      {report.warnings?.map(({ node, variant, text }) => (
        <p key={`${variant} ${node} ${text}`} class="note would-lose">{node}, {variant}: {text}</p>
      ))}
      {report.results.length > 0 && <Results report={report} run={run} />}
      {report.methods.length > 0 && (
        <>
          <Methods report={report} />
          <MethodBars rows={report.methods} />
        </>
      )}
      {report.queues !== undefined && report.queues.length > 0 && (
        <ReportTable
          title="Queues"
          file={`${report.run}-queues.csv`}
          columns={queueColumns(report.queues)}
          rows={report.queues}
        />
      )}
      {report.hints !== undefined && report.hints.length > 0 && (
        <ReportTable
          title="Hints"
          file={`${report.run}-hints.csv`}
          columns={hintColumns(report.hints)}
          rows={report.hints}
        />
      )}
      {report.hintLeads !== undefined && report.hintLeads.length > 0 && (
        <ReportTable
          title="Hints: lead times of operations"
          file={`${report.run}-hint-leads.csv`}
          columns={leadColumns(report.hintLeads)}
          rows={report.hintLeads}
        />
      )}
    </>
  );
}

async function download(id: string, path: string): Promise<void> {
  try {
    saveAs(path.split("/").at(-1)!, await (await api.file(id, path)).blob());
  } catch (error) {
    refuse(error);
  }
}

function Files({ id, state }: { readonly id: string; readonly state: string }) {
  const { value, trouble } = useFetched(id, () => api.files(id), state).value;
  if (trouble !== undefined) return <p class="note refused">{trouble}</p>;
  if (value === undefined) return <Loading what="the list of files" />;
  return (
    <>
      <h2>Files</h2>
      {value.files.length === 0 ? <p class="quiet">The run has left none.</p> : (
        <table class="list">
          <tbody>
            {value.files.map(({ path, bytes: size, kind }) => (
              <tr key={path}>
                <td>
                  <button type="button" class="link" onClick={() => void download(id, path)}>
                    {path}
                  </button>
                </td>
                <td>{kind}</td>
                <td class="num">{bytes(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
