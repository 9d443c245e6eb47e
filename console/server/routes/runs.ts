/**
 * Racks that are up and kept runs: the list, reports, files, logs; actions on a run's directory.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { done, name } from "../../api/common.ts";
import { topology } from "../../api/rack.ts";
import { report as reportSchema } from "../../api/report.ts";
import { runsIn } from "../../api/run_filter.ts";
import * as api from "../../api/runs.ts";
import { existingNats } from "../../rack/existing_nats.ts";
import { attach } from "../../rack/remote/attach.ts";
import { takeRacksDown } from "../../rack/live/take_down.ts";
import {
  type Checkpoint,
  checkpointNames,
  checkpointsIn,
  deleteCheckpoint,
} from "../../replay/checkpoints.ts";
import { takeCheckpoint } from "../../replay/resume/take_checkpoint.ts";
import {
  hasLogs,
  keepRun,
  type KeptRun,
  keptRuns,
  logLines,
  noteRun,
  releaseRun,
  removeRuns,
} from "../../rack/kept_runs.ts";
import { bytesOf, readEnd, readRunFile, stateOf } from "../../rack/run_directory.ts";
import {
  filesOf,
  NOTHING_KNOWN,
  readReport,
  type RunSummary,
  summaryOf,
  variantFolder,
  variantsOf,
} from "../../reports/run_summary.ts";
import { finite } from "../../reports/json.ts";
import { isThere } from "../../base/files.ts";
import { cacheRoot, ROOT } from "../../base/paths.ts";
import type { Console } from "../context.ts";
import { topologyOf } from "../documents.ts";
import { ApiFailure } from "../doors/errors.ts";
import { hideSecrets, hidingSecrets, LETTERS_LEAST, secretsOf } from "../secrets.ts";
import { answers, bytesAnswer, newRoutes, runNamed, runParams, takes } from "./route.ts";

const list = createRoute({
  method: "get",
  path: "/runs",
  summary: "Racks that are up and kept runs",
  request: { query: api.runsQuery },
  responses: answers(api.runs, "Those that fit"),
});

const one = createRoute({
  method: "get",
  path: "/runs/{run}",
  summary: "A run",
  request: { params: runParams },
  responses: answers(api.runDetail, "What its directory tells"),
});

const variantQuery = z.object({
  variant: name.optional().describe(
    "of a run with several: name or number from 1; default: the first",
  ),
});

const getTopology = createRoute({
  method: "get",
  path: "/runs/{run}/topology",
  summary: "What the rack of a run consists of",
  request: { params: runParams, query: variantQuery },
  responses: answers(topology, "Nodes, cables and programs"),
});

const getReport = createRoute({
  method: "get",
  path: "/runs/{run}/report",
  summary: "The report of a run that has ended",
  request: { params: runParams },
  responses: answers(reportSchema, "As `rack run --json` prints it"),
});

const getLogs = createRoute({
  method: "get",
  path: "/runs/{run}/logs",
  summary: "The last lines that the processes of a run have written",
  request: { params: runParams, query: api.logsQuery },
  responses: answers(api.logs, "The last lines, log by log"),
});

const getFiles = createRoute({
  method: "get",
  path: "/runs/{run}/files",
  summary: "The files of a run: captures, timeline, records, logs",
  request: { params: runParams },
  responses: answers(api.files, "All but those with credentials"),
});

const fileQuery = z.object({ path: z.string().min(1).max(1_000) });

const getFile = createRoute({
  method: "get",
  path: "/runs/{run}/file",
  summary: "A file of a run",
  request: { params: runParams, query: fileQuery },
  responses: bytesAnswer,
});

const keep = createRoute({
  method: "post",
  path: "/runs/{run}/keep",
  summary: "Keeps a run until it is removed by name, or lets it go again",
  request: { params: runParams, body: takes(api.keepOrder) },
  responses: answers(done, "Done"),
});

const setNote = createRoute({
  method: "post",
  path: "/runs/{run}/note",
  summary: "Writes down the user's own words about a run",
  request: { params: runParams, body: takes(api.noteOrder) },
  responses: answers(done, "Done"),
});

const listCheckpoints = createRoute({
  method: "get",
  path: "/runs/{run}/checkpoints",
  summary: "Where a rack can be brought up again",
  request: { params: runParams, query: variantQuery },
  responses: answers(api.checkpoints, "The run's checkpoints"),
});

const postCheckpoint = createRoute({
  method: "post",
  path: "/runs/{run}/checkpoints",
  summary: "Keeps where a rack stands, or stood at an instant of a run",
  request: { params: runParams, body: takes(api.checkpointOrder) },
  responses: answers(api.checkpoint, "The checkpoint"),
});

const removeCheckpoint = createRoute({
  method: "delete",
  path: "/runs/{run}/checkpoints/{checkpoint}",
  summary: "Deletes a checkpoint; the run stays kept",
  request: { params: runParams.extend({ checkpoint: name }), query: variantQuery },
  responses: answers(done, "It is gone"),
});

const remove = createRoute({
  method: "delete",
  path: "/runs/{run}",
  summary: "Removes the directory of a run that has ended",
  request: { params: runParams },
  responses: answers(done, "It is gone"),
});

const postAttach = createRoute({
  method: "post",
  path: "/racks",
  summary: "Puts a rack that runs on another machine into the list, as `rack attach` does",
  request: { body: takes(api.attachOrder) },
  responses: answers(api.attached, "Its name; taking it down lets go of it"),
});

const down = createRoute({
  method: "post",
  path: "/runs/{run}/down",
  summary: "Takes a rack down",
  request: { params: runParams },
  responses: answers(api.down, "It is down"),
});

function shown(row: KeptRun, own: ReadonlySet<string>): api.Run {
  const { id, state, started, bytes, mark, damage, path } = row;
  return {
    id,
    state,
    started,
    bytes,
    ...(mark !== undefined && { mark }),
    ...(damage !== undefined && { damage }),
    ...(row.note !== undefined && { note: row.note }),
    ...summaryShown(row.isForeign ? NOTHING_KNOWN : summaryOf(path)),
    isOwn: own.has(id),
    checkpoints: row.isForeign || damage !== undefined ? [] : checkpointNames(path),
  };
}

function summaryShown({ methods, ddio, ...summary }: RunSummary) {
  return { ...summary, methods: [...methods], ddio: [...ddio] };
}

function checkpointShown({ name, at, taken, events, digest }: Checkpoint): api.Checkpoint {
  return { name, atPs: at, taken, events, digest };
}

export function runRoutes({ jobs, projects, replays }: Console) {
  /** What goes out of a run in none of its files: see `secrets.ts`; and the server's folders. */
  async function hiddenOf(id: string): Promise<readonly string[]> {
    const { place } = projects;
    const folders = [...(place === undefined ? [] : [place]), cacheRoot().path, ROOT];
    return [
      ...await secretsOf(id),
      ...folders.map((path) => `${path}/`).filter(({ length }) => length >= LETTERS_LEAST),
    ];
  }

  return newRoutes()
    .openapi(list, async (c) => {
      const { runs, limits } = await keptRuns();
      const document = {
        runs: runsIn(runs.map((row) => shown(row, jobs.own)), c.req.valid("query")),
        limits: { runs: finite(limits.runs), bytes: finite(limits.bytes) },
      };
      return c.json(document, 200);
    })
    .openapi(one, async (c) => {
      const row = await runNamed(c.req.valid("param").run), { path } = row;
      const variants = variantsOf(path);
      const traces = [path, ...variants.map((variant) => `${path}/${variant}`)]
        .map((folder) => `${folder}/trace`);
      const document = {
        ...shown({ ...row, state: stateOf(row), bytes: bytesOf(path) }, jobs.own),
        variants,
        hasReport: isThere(`${path}/report.json`),
        hasTrace: traces.some((folder) =>
          isThere(folder) && [...Deno.readDirSync(folder)].length > 0
        ),
        ended: readEnd(path)?.message ?? "",
      };
      return c.json(document, 200);
    })
    .openapi(getTopology, async (c) => {
      const row = await runNamed(c.req.valid("param").run);
      const file = readRunFile(variantFolder(row, c.req.valid("query").variant));
      if (file === undefined) throw new ApiFailure("not-found", `${row.id} has no run file`);
      return c.json(topologyOf(file, row.id), 200);
    })
    .openapi(getReport, async (c) => {
      const { id, path } = await runNamed(c.req.valid("param").run);
      const report = readReport(path);
      if (report === undefined) throw new ApiFailure("not-found", `${id} has left no report`);
      return c.json(report as unknown as z.infer<typeof reportSchema>, 200);
    })
    .openapi(getLogs, async (c) => {
      const { id, path } = await runNamed(c.req.valid("param").run);
      if (!hasLogs(path)) {
        const none = "The run was in one process, which writes no log";
        return c.json({ lines: [], none }, 200);
      }
      const { node, last } = c.req.valid("query");
      const lines: { log: string; line: string }[] = [];
      for await (
        const { log, line } of logLines({ run: id, ...(node !== undefined && { node }) })
      ) {
        lines.push({ log, line });
        if (lines.length > 2 * last) lines.splice(0, last);
      }
      const secrets = await secretsOf(id);
      const shown = lines.slice(-last).map(({ log, line }) => {
        return { log, line: hideSecrets(line, secrets) };
      });
      return c.json({ lines: shown }, 200);
    })
    .openapi(getFiles, async (c) => {
      const { path } = await runNamed(c.req.valid("param").run);
      return c.json({ files: filesOf(path) }, 200);
    })
    .openapi(getFile, async (c) => {
      const { id, path } = await runNamed(c.req.valid("param").run);
      const wanted = c.req.valid("query").path;
      const found = filesOf(path).find((each) => each.path === wanted);
      if (found === undefined) throw new ApiFailure("not-found", `${id} has no file ${wanted}`);
      c.set("isAudited", true);
      c.set("detail", { path: found.path });
      const secrets = await hiddenOf(id);
      const { readable: whole } = await Deno.open(`${path}/${found.path}`);
      const readable = secrets.length === 0 ? whole : whole.pipeThrough(hidingSecrets(secrets));
      const file = `${id}-${found.path.replaceAll(/[^\w.-]/g, "_")}`;
      // A run's file is never shown in place: it is no page of ours.
      return c.body(readable, 200, {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": `attachment; filename="${file}"`,
      });
    })
    .openapi(keep, async (c) => {
      const { id } = await runNamed(c.req.valid("param").run);
      const order = c.req.valid("json");
      c.set("detail", order);
      if (order.keep) await keepRun(id, order.name);
      else await releaseRun(id);
      jobs.tellRuns();
      return c.json({ done: true as const }, 200);
    })
    .openapi(setNote, async (c) => {
      const { id } = await runNamed(c.req.valid("param").run);
      const { note } = c.req.valid("json");
      c.set("detail", { note });
      await noteRun(id, note);
      jobs.tellRuns();
      return c.json({ done: true as const }, 200);
    })
    .openapi(listCheckpoints, async (c) => {
      const row = await runNamed(c.req.valid("param").run);
      const all = checkpointsIn(variantFolder(row, c.req.valid("query").variant));
      return c.json({ checkpoints: all.map(checkpointShown) }, 200);
    })
    .openapi(postCheckpoint, async (c) => {
      const row = await runNamed(c.req.valid("param").run);
      const { name, variant: named, atPs: at } = c.req.valid("json");
      c.set("detail", c.req.valid("json"));
      const variant = variantFolder(row, named).slice(row.path.length + 1);
      const { checkpoint } = await takeCheckpoint({
        ...{ run: row.id, name, variant, at },
        askReplay: (target, question) =>
          replays.ask(target, async (replay) => {
            await replay.advance();
            return await question(replay);
          }),
      });
      jobs.tellRuns();
      return c.json(checkpointShown(checkpoint), 200);
    })
    .openapi(removeCheckpoint, async (c) => {
      const { run, checkpoint } = c.req.valid("param"), row = await runNamed(run);
      const { variant } = c.req.valid("query");
      c.set("detail", { checkpoint, ...(variant !== undefined && { variant }) });
      deleteCheckpoint(variantFolder(row, variant), checkpoint);
      jobs.tellRuns();
      return c.json({ done: true as const }, 200);
    })
    .openapi(remove, async (c) => {
      const { id } = await runNamed(c.req.valid("param").run);
      await removeRuns({ id });
      jobs.tellRuns();
      return c.json({ done: true as const }, 200);
    })
    .openapi(postAttach, async (c) => {
      const { url, run } = c.req.valid("json"), nats = existingNats({ nats: url })!;
      // Without the credential.
      c.set("detail", { url: nats.address.url, run });
      const { runFile } = await attach({ nats, run, signal: c.req.raw.signal });
      jobs.tellRuns();
      return c.json({ run: runFile.run }, 200);
    })
    .openapi(down, async (c) => {
      const { id } = await runNamed(c.req.valid("param").run);
      const [ended] = await takeRacksDown({ run: id, overrideLock: true });
      jobs.tellRuns();
      return c.json(ended!, 200);
    });
}
