/** Errors as answers: their kind decides the status, `console/rack/failure.ts` the words. */
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { BusError } from "../../../fabric/bus/bus.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { ORDER_NAMES } from "../../../fabric/rack/plan/option_rows.ts";
import { formatProblem, type Problem, Refusal } from "../../../fabric/rack/plan/problem.ts";
import { type ApiError, PROBLEM_TYPE } from "../../api/common.ts";
import { RackError } from "../../base/rack_error.ts";
import { explain } from "../../rack/failure.ts";
import { ReplaysBusy } from "../replays.ts";

type Kind = ApiError["kind"];

const STATUS = {
  "bad-request": 400,
  "not-signed-in": 401,
  "not-allowed": 403,
  "not-found": 404,
  "failed": 409,
  "too-large": 413,
  "wrong-host": 421,
  "refused": 422,
  "too-many": 429,
  "internal": 500,
  "no-answer": 503,
} as const satisfies Record<Kind, number>;

const TITLES = {
  "bad-request": "The request does not fit its schema",
  "not-signed-in": "Sign in first",
  "not-allowed": "Not allowed",
  "not-found": "There is no such thing",
  "failed": "It was tried, and has failed",
  "too-large": "Too large",
  "wrong-host": "Another server is meant",
  "refused": "The input is refused",
  "too-many": "Too many",
  "internal": "A bug of the console",
  "no-answer": "The rack does not answer",
} as const satisfies Record<Kind, string>;

export class ApiFailure extends Error {
  override readonly name = "ApiFailure";
  readonly kind: Kind;

  /** When the request may come again. */
  readonly waitMs: number | undefined;

  constructor(kind: Kind, message: string, { waitMs }: { readonly waitMs?: number } = {}) {
    super(message);
    this.kind = kind;
    this.waitMs = waitMs;
  }
}

export function failureResponse(error: unknown, c: Context): Response {
  const { kind, message, ...rest } = failureOf(error);
  if (kind === "not-signed-in") c.header("WWW-Authenticate", "Bearer");
  const waitMs = error instanceof ApiFailure ? error.waitMs : undefined;
  if (waitMs !== undefined) c.header("Retry-After", `${Math.ceil(waitMs / 1_000)}`);
  return problemResponse(c, { kind, detail: message, ...rest });
}

function problemResponse(
  c: Context,
  { kind, ...rest }: Pick<ApiError, "kind" | "detail" | "problems" | "exitCode">,
): Response {
  const status = STATUS[kind];
  const body: ApiError = {
    type: `urn:rackmesh:${kind}`,
    title: TITLES[kind],
    status,
    kind,
    ...rest,
  };
  return c.body(JSON.stringify(body), status, { "Content-Type": PROBLEM_TYPE });
}

function failureOf(error: unknown): {
  readonly kind: Kind;
  readonly message: string;
  readonly problems: Problem[];
  readonly exitCode: number;
} {
  if (error instanceof ApiFailure) {
    return { kind: error.kind, message: error.message, problems: [], exitCode: EXIT.usage };
  }
  if (error instanceof ReplaysBusy) return failureOf(new ApiFailure("too-many", error.message));
  if (error instanceof Refusal) {
    const { message, problems } = error.inNames(ORDER_NAMES);
    return { kind: "refused", message, problems: [...problems], exitCode: EXIT.usage };
  }
  if (error instanceof HTTPException) {
    // Hono's own: a body that is no JSON.
    return { kind: "bad-request", message: error.message, problems: [], exitCode: EXIT.usage };
  }
  const { message, code } = explain(error);
  const kind = error instanceof BusError
    ? "no-answer"
    : error instanceof RackError
    ? "failed"
    : "internal";
  // `serve.ts` writes the stack into the console's own log.
  const said = kind === "internal" ? message.split("\n")[0]! : message;
  return { kind, message: said, problems: [], exitCode: code };
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  /** Of a rule between members: see `rule` in `console/api/common.ts`. */
  readonly params?: Partial<Pick<Problem, "found" | "expected">> | undefined;
}

/** Names each member that does not fit the schema. */
export function invalidResponse(
  result: { readonly error: { readonly issues: readonly Issue[] } },
  c: Context,
): Response {
  const problems = result.error.issues.map(({ path, message, params }): Problem => ({
    path: path.map(String).join("."),
    found: message,
    expected: "",
    ...params,
  }));
  const text = problems.map((problem) => {
    if (problem.expected !== "") return formatProblem(problem);
    return problem.path === "" ? problem.found : `${problem.path}: ${problem.found}`;
  });
  const detail = text.join("; ");
  return problemResponse(c, { kind: "bad-request", detail, problems, exitCode: EXIT.usage });
}
