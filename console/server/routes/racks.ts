import { createRoute, type z } from "@hono/zod-openapi";
import { SHUTDOWN_PS } from "../../../fabric/rack/plan/power.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { parseGoal } from "../../../fabric/trace/predicate.ts";
import * as orders from "../../api/orders.ts";
import * as api from "../../api/rack.ts";
import { linkFaultRequest, linkFaultsOf, orderLinkFault } from "../../rack/live/cables.ts";
import { countersOf } from "../../rack/live/counters.ts";
import { inspectDevice } from "../../rack/live/inspect.ts";
import { plainly } from "../../reports/json.ts";
import { name } from "../../api/common.ts";
import { healAll } from "../../rack/live/heal.ts";
import {
  awaitService,
  isService,
  killDevice,
  killDeviceAt,
  killService,
  startDevice,
} from "../../rack/live/power.ts";
import { shutDownHost } from "../../rack/live/shutdown.ts";
import { processesOf } from "../../rack/live/processes.ts";
import { findUp, type RackLink } from "../../rack/live/racks.ts";
import { type Driven, pause, resume, setPace, step, until } from "../../rack/live/virtual_time.ts";
import { whyOf } from "../../rack/live/why.ts";
import { clockOf } from "../documents.ts";
import { ApiFailure } from "../doors/errors.ts";
import { answers, lookAtRack, newRoutes, onRack, runNamed, runParams, takes } from "./route.ts";

const getWhy = createRoute({
  method: "get",
  path: "/racks/{run}/why",
  summary: "Why time is not moving",
  request: { params: runParams },
  responses: answers(api.why, "As `rack why` has it"),
});

const getProcesses = createRoute({
  method: "get",
  path: "/racks/{run}/processes",
  summary: "The processes of a rack",
  request: { params: runParams },
  responses: answers(api.processes, "As `rack ps` has it"),
});

const getCounters = createRoute({
  method: "get",
  path: "/racks/{run}/counters",
  summary: "What every device has counted so far",
  request: { params: runParams },
  responses: answers(api.countersOf, "By node, by name"),
});

const getDevice = createRoute({
  method: "get",
  path: "/racks/{run}/devices/{node}",
  summary: "What a device is doing: queue pairs, regions, programs, what a power cut would lose",
  request: { params: runParams.extend({ node: name }), query: api.deviceQuery },
  responses: answers(api.device, "As the device says"),
});

const getLinks = createRoute({
  method: "get",
  path: "/racks/{run}/links",
  summary: "What cables do wrong, and how many frames each fault has taken",
  request: { params: runParams },
  responses: answers(api.linkFaults, "Planned and ordered faults"),
});

const postPower = createRoute({
  method: "post",
  path: "/racks/{run}/power",
  summary: "Cuts a device's power, now or at a virtual time, or gives it back",
  request: { params: runParams, body: takes(orders.powerOrder) },
  responses: answers(orders.powerDone, "It is on record"),
});

const postTime = createRoute({
  method: "post",
  path: "/racks/{run}/time",
  summary: "Pauses, continues, steps or paces virtual time",
  request: { params: runParams, body: takes(orders.timeOrder) },
  responses: answers(orders.timeDone, "The clock after it"),
});

const postLink = createRoute({
  method: "post",
  path: "/racks/{run}/links",
  summary: "Orders a fault of a cable, or the end of its faults",
  request: { params: runParams, body: takes(orders.linkOrder) },
  responses: answers(orders.linkDone, "The fault's number, and when it begins"),
});

const postHeal = createRoute({
  method: "post",
  path: "/racks/{run}/heal",
  summary: "Heals every cable and gives every device its power back",
  request: { params: runParams },
  responses: answers(orders.healed, "What was healed, and what could not be"),
});

export function rackRoutes() {
  return newRoutes()
    .openapi(getWhy, async (c) => {
      const { status, refused, inexact } = await lookAtRack(c.req.valid("param").run, whyOf);
      const document = {
        clock: clockOf(status),
        refused: refused.map(({ by, of, subject, count }) => ({ by, of, subject, count })),
        inexact: [...inexact],
      };
      return c.json(document, 200);
    })
    .openapi(getProcesses, async (c) => {
      const { id, up } = await runNamed(c.req.valid("param").run);
      if (!up) throw new ApiFailure("not-found", `${id} is not up`);
      const { processes } = await processesOf(await findUp(id));
      const document = {
        processes: processes.map((each) => ({ ...each, nodes: [...each.nodes] })),
      };
      return c.json(document, 200);
    })
    .openapi(getCounters, async (c) => {
      const { nodes, missing } = await lookAtRack(c.req.valid("param").run, countersOf);
      return c.json({ nodes: { ...nodes }, missing: [...missing] }, 200);
    })
    .openapi(getDevice, async (c) => {
      const { run, node } = c.req.valid("param"), loss = c.req.valid("query").loss === "true";
      const found = await lookAtRack(run, (link) => inspectDevice(link, node, { loss }));
      const document: z.infer<typeof api.device> = JSON.parse(JSON.stringify(found, plainly));
      return c.json(document, 200);
    })
    .openapi(getLinks, async (c) => {
      const rows = await lookAtRack(c.req.valid("param").run, linkFaultsOf);
      const faults = rows.map(({ variant: _, directions, ...row }) => ({
        ...row,
        directions: [...directions],
      }));
      return c.json({ faults }, 200);
    })
    .openapi(postPower, async (c) => {
      const order = c.req.valid("json");
      c.set("detail", order);
      return c.json(await onRack(c.req.valid("param").run, (link) => power(link, order)), 200);
    })
    .openapi(postTime, async (c) => {
      const order = c.req.valid("json");
      c.set("detail", order);
      const { signal } = c.req.raw;
      const { status, missed } = await onRack(
        c.req.valid("param").run,
        (link) => drive(link, order, signal),
      );
      return c.json({ clock: clockOf(status), ...(missed !== undefined && { missed }) }, 200);
    })
    .openapi(postLink, async (c) => {
      const order = c.req.valid("json");
      c.set("detail", order);
      return c.json(await onRack(c.req.valid("param").run, (link) => orderFault(link, order)), 200);
    })
    .openapi(postHeal, async (c) => {
      const { healed, started, problems } = await onRack(
        c.req.valid("param").run,
        (link) => healAll(link),
      );
      const document = { healed: [...healed], started: [...started], problems: [...problems] };
      c.set("detail", document);
      return c.json(document, 200);
    });
}

async function power(link: RackLink, order: orders.PowerOrder) {
  const { node } = order;
  if (order.action === "start") {
    if (isService(node)) {
      await awaitService(link, node);
      return { nodes: [], atPs: null };
    }
    const { nodes, at } = await startDevice(link, node, {
      acceptDamage: order.acceptDamage === true,
    });
    return { nodes, atPs: at };
  }
  if (order.action === "shutdown") return await shutDown(link, order);
  if (order.atPs !== undefined) {
    await killDeviceAt(link, node, order.atPs);
    return { nodes: [node], atPs: order.atPs };
  }
  if (isService(node)) {
    killService(link.rack, node);
    return { nodes: [], atPs: null };
  }
  const { nodes, at } = await killDevice(link, node);
  return { nodes: [...nodes], atPs: at };
}

const SHUTDOWN_S = 120;

async function shutDown(
  link: RackLink,
  { node, withinPs = SHUTDOWN_PS }: Extract<orders.PowerOrder, { action: "shutdown" }>,
) {
  const held = new Error("Time is held");
  const onHeld = () => {
    throw held;
  };
  try {
    const options = { withinPs, timeoutSeconds: SHUTDOWN_S, onHeld };
    const { nodes, offAt } = await shutDownHost(link, node, options);
    return { nodes: [...nodes], atPs: offAt };
  } catch (error) {
    if (error !== held) throw error;
    // A page that waited for the end of this order would not let time go on.
    return { nodes: [], atPs: null };
  }
}

function drive(
  { control }: RackLink,
  order: orders.TimeOrder,
  signal: AbortSignal,
): Promise<Driven> {
  switch (order.order) {
    case "pause":
      return pause(control);
    case "resume":
      return resume(control);
    case "pace":
      return setPace(control, order.psPerSecond);
    case "step": {
      const { events, spanPs } = order;
      if (events !== undefined && spanPs !== undefined) {
        throw refusal("", { found: "events and spanPs", expected: "one of them" });
      }
      return step(control, spanPs === undefined ? { events: events ?? 1 } : { spanPs });
    }
    case "until": {
      const { atPs, step, breaks = step === undefined ? [] : parseGoal([step]).breaks } = order;
      if (step !== undefined && order.breaks !== undefined) {
        throw refusal("until", { found: "step and breaks", expected: "one of them" });
      }
      if (breaks.length === 0 && atPs === undefined) {
        throw refusal("until", { found: "no goal", expected: "atPs, step or breaks" });
      }
      return until(control, { breaks, ...(atPs !== undefined && { time: atPs }) }, signal);
    }
  }
}

async function orderFault({ rack, control }: RackLink, order: orders.LinkOrder) {
  const { target, action, value, atPs, forPs, untilPs, ...terms } = order;
  const needsValue = action !== "cut" && action !== "heal";
  if (needsValue !== (value !== undefined)) {
    const expected = needsValue ? `how much ${action}, as 1% or 5us` : `none with ${action}`;
    throw refusal("value", { found: value === undefined ? "nothing" : `"${value}"`, expected });
  }
  const request = linkFaultRequest(rack.file.plan, {
    target,
    action,
    terms: {
      ...(value !== undefined && { [action]: value }),
      ...(untilPs !== undefined && { until: `${untilPs}ps` }),
      ...Object.fromEntries(Object.entries(terms).filter(([, term]) => term !== undefined)),
    },
    ...(atPs !== undefined && { at: atPs }),
    ...(forPs !== undefined && { forPs }),
  });
  const ask = (verb: string, body: unknown) => control.ask(verb, body, { repeats: true });
  const answer = (await orderLinkFault(ask, request))!;
  if ("refused" in answer) throw refusal("", { found: `Cannot ${action}: ${answer.refused}` });
  const { at, fault } = answer.ok;
  return { fault, atPs: at };
}
