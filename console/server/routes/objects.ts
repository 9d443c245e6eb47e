/**
 * Objects in a host's SCM, by RDMA. Each of these starts a program on the rack, so all are orders.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { formatTime } from "../../../fabric/base/time.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { valuesIn } from "../../../fabric/rack/plan/option_rows.ts";
import { TRANSFER_CHOICES } from "../../../fabric/rack/plan/vocabulary.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { name } from "../../api/common.ts";
import * as api from "../../api/orders.ts";
import { RackError } from "../../base/rack_error.ts";
import { listObjects, putObject, readObject, removeObject } from "../../rack/live/transfer.ts";
import { OBJECT_BYTES_MAX } from "../doors/guards.ts";
import { ApiFailure } from "../doors/errors.ts";
import { answers, bytesAnswer, bytesContent, newRoutes, onRack, runParams } from "./route.ts";

const hostParams = runParams.extend({ host: name });
const objectParams = hostParams.extend({ object: z.string().min(1).max(400) });

const list = createRoute({
  method: "post",
  path: "/racks/{run}/objects/{host}/list",
  summary: "Lists the objects in a host's SCM, as its service tells another host",
  request: { params: hostParams, query: api.onQuery },
  responses: answers(api.objects, "The objects"),
});

const put = createRoute({
  method: "put",
  path: "/racks/{run}/objects/{host}/{object}",
  summary: "Makes the body persistent in a host's SCM, under a name",
  request: {
    params: objectParams,
    query: api.putQuery,
    body: { required: true, content: bytesContent },
  },
  responses: answers(api.putDone, "What was confirmed and promised"),
});

const get = createRoute({
  method: "post",
  path: "/racks/{run}/objects/{host}/{object}/get",
  summary: "Reads an object out of a host's SCM",
  request: { params: objectParams, query: api.getQuery },
  responses: bytesAnswer,
});

const remove = createRoute({
  method: "delete",
  path: "/racks/{run}/objects/{host}/{object}",
  summary: "Removes an object from a host's SCM",
  request: { params: objectParams, query: api.onQuery },
  responses: answers(api.removed, "It is gone"),
});

/** A rack's time may be paused, and its caller may wait for it to move. */
const TIMEOUT_S = 120;

/** @param program of the transfer, for its message. */
function refuseHeld(program: string, { now }: Pick<ClockStatus, "now">): never {
  const held = `Time is held at ${formatTime(now)}`;
  throw new RackError(`${held}: ${program} needs it to move. Resume it, or ask with wait=true`);
}

function transferOptions(
  { on, wait }: { readonly on?: string | undefined; readonly wait?: string | undefined },
) {
  return {
    ...(on !== undefined && { on }),
    timeoutSeconds: TIMEOUT_S,
    ...(wait !== "true" && { onHeld: refuseHeld }),
  };
}

export function objectRoutes() {
  return newRoutes()
    .openapi(list, async (c) => {
      const { run, host } = c.req.valid("param");
      const options = { ...transferOptions(c.req.valid("query")), from: host };
      const { host: asked, objects } = await onRack(run, (link) => listObjects(link, options));
      const rows = objects.map(({ name, length, incomplete }) => ({
        name,
        length,
        ...(incomplete && { incomplete }),
      }));
      return c.json({ host: asked, objects: rows }, 200);
    })
    .openapi(put, async (c) => {
      const { run, host, object } = c.req.valid("param");
      const { method, on, wait, ...transfer } = c.req.valid("query");
      const content = new Uint8Array(await c.req.arrayBuffer());
      c.set("detail", { method, bytes: content.length });
      if (content.length === 0) throw refusal("The body", { found: "empty", expected: "bytes" });
      if (content.length > OBJECT_BYTES_MAX) {
        throw new ApiFailure("too-large", `The object has more than ${OBJECT_BYTES_MAX} bytes`);
      }
      const outcome = await onRack(run, (link) =>
        putObject(link, {
          ...transferOptions({ on, wait }),
          ...valuesIn(TRANSFER_CHOICES, transfer),
          to: host,
          file: object,
          name: object,
          content,
          method,
        }));
      const { promises, confirmedMessages, messages, withdrawn, sha256, startPs, endPs } = outcome;
      const document = {
        host: outcome.host,
        bytes: content.length,
        startPs,
        endPs,
        sha256,
        promises,
        confirmedMessages,
        messages,
        ...(withdrawn !== undefined && { withdrawn }),
      };
      return c.json(document, 200);
    })
    .openapi(get, async (c) => {
      const { run, host, object } = c.req.valid("param");
      const { on, wait, partial, ...transfer } = c.req.valid("query");
      const { content } = await onRack(run, (link) =>
        readObject(link, {
          ...transferOptions({ on, wait }),
          ...valuesIn(TRANSFER_CHOICES, transfer),
          from: host,
          object,
          partial: partial === "true",
        }));
      return c.body(content, 200, {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": "attachment",
      });
    })
    .openapi(remove, async (c) => {
      const { run, host, object } = c.req.valid("param");
      const options = transferOptions(c.req.valid("query"));
      const removed = await onRack(
        run,
        (link) => removeObject(link, { ...options, from: host, object }),
      );
      return c.json({ host: removed.host, from: host, name: object }, 200);
    });
}
