/**
 * The address that the command prints carries a one-time token in its fragment, which goes to no
 * server log: it is exchanged once for a key. The key is in localStorage, which no other port of
 * this host can read, as it could read a cookie.
 */
import { computed, signal } from "@preact/signals";
import { NO_ANSWER, whileAnswered } from "./connection.ts";
import type { ApiError } from "../../api/common.ts";
import type { Session, SignedIn } from "../../api/session.ts";

const KEY = "rackmesh-key";
/** In a tab's sessionStorage: a sign-in after the key's end goes back there. */
const PLACE = "rackmesh-place";

export type SignIn =
  | { readonly state: "asking" }
  | { readonly state: "in"; readonly session: Session }
  /** `why` is a sentence for the page. */
  | { readonly state: "out"; readonly why: string };

export const signedIn = signal<SignIn>({ state: "asking" });

export const session = computed(() =>
  signedIn.value.state === "in" ? signedIn.value.session : undefined
);

/** A window of a tablet: it reads. */
const isNarrow = signal(false);

const NARROW = "(max-width: 1023px)";

export function followWidth(): void {
  const query = matchMedia(NARROW), read = () => isNarrow.value = query.matches;
  query.addEventListener("change", read);
  read();
}

/** May act here. */
export const isOperator = computed(() => session.value?.role === "operator" && !isNarrow.value);

/** Why nothing can be changed here; undefined: it can. */
export const readsOnly = computed(() => {
  if (session.value === undefined) return undefined;
  if (session.value.role !== "operator") {
    return { what: "viewer", why: "This key may look, and change nothing: an operator's may" };
  }
  return isNarrow.value
    ? { what: "reading", why: "A window of less than 1024 px shows everything and changes nothing" }
    : undefined;
});

/** Its message is the server's, or says that the server did not answer. */
class RequestError extends Error {
  readonly detail: ApiError | undefined;
  constructor(message: string, options: { cause?: unknown; detail?: ApiError } = {}) {
    super(message, { cause: options.cause });
    this.name = "RequestError";
    this.detail = options.detail;
  }
}

/** Another page cannot send this header without asking this server first. */
const OWN_HEADER = { "X-Rackmesh": "1" };

export interface Request {
  /** It is answered as long as the page is there, and watches the server itself. */
  readonly isFeed?: boolean;
  /** A sign-in: it goes without the key, and says nothing of it where it is refused. */
  readonly isSignIn?: boolean;
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly body?: unknown;
  readonly bytes?: Blob;
  readonly signal?: AbortSignal;
}

/** `path` is below `/api/v1`. @throws RequestError; DOMException where it is aborted. */
export async function request(path: string, options: Request = {}): Promise<Response> {
  const { method = "GET", body, bytes, isSignIn = false, isFeed = false } = options;
  const what = method === "GET" || isSignIn ? undefined : orderWords(method, path, body);
  const answered = isFeed ? undefined : whileAnswered();
  const given = [options.signal, answered?.signal].filter((each) => each !== undefined);
  const signal = AbortSignal.any(given);
  const told = what !== undefined
    ? underWay(what)
    : OF_REPLAY.test(path)
    ? whileAwaited()
    : undefined;
  const key = isSignIn ? null : localStorage.getItem(KEY);
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      cache: "no-store",
      headers: {
        ...OWN_HEADER,
        ...(key !== null && { Authorization: `Bearer ${key}` }),
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(bytes !== undefined && { "Content-Type": "application/octet-stream" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(bytes !== undefined && { body: bytes }),
      signal,
    });
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    const unknown = "whether it was carried out is not known: look when the server answers again";
    const message = what === undefined ? NO_ANSWER : `${what}: ${NO_ANSWER}, and ${unknown}`;
    throw new RequestError(message, { cause });
  } finally {
    answered?.end();
    told?.();
  }
  if (response.ok) return response;
  const detail = await response.json().then((answer: ApiError) => answer, () => undefined);
  // Another tab may have signed in meanwhile.
  if (response.status === 401 && key !== null && key === localStorage.getItem(KEY)) {
    signOut("The key of this browser is not valid any more");
  }
  const message = detail?.detail ?? `${method} ${path}: the server answers ${response.status}`;
  throw new RequestError(message, { ...(detail !== undefined && { detail }) });
}

/** Questions that a replay answers; how far that is, is asked beside them. */
const OF_REPLAY =
  /^\/runs\/[^/]+\/(?:snapshot|programs|verdicts|memory|memory-map|loss|ladder|events|find)\b/;

/** Answers of a replay that have taken a while. */
export const answersAwaited = signal(0);

function whileAwaited(): () => void {
  let counted = 0;
  const timer = setTimeout(() => {
    counted = 1;
    answersAwaited.value++;
  }, UNDER_WAY_MS);
  return () => {
    clearTimeout(timer);
    answersAwaited.value -= counted;
  };
}

/** Orders that have taken a while, as one would say them: "kill b". */
export const ordersUnderWay = signal<readonly string[]>([]);

const UNDER_WAY_MS = 500;

/** @returns what says that it is over. */
function underWay(what: string): () => void {
  let isShown = false;
  const timer = setTimeout(() => {
    isShown = true;
    ordersUnderWay.value = [...ordersUnderWay.peek(), what];
  }, UNDER_WAY_MS);
  return () => {
    clearTimeout(timer);
    const all = ordersUnderWay.peek();
    if (isShown) ordersUnderWay.value = all.toSpliced(all.indexOf(what), 1);
  };
}

function orderWords(method: string, path: string, body: unknown): string {
  const { action, order, kind, node, target } = Object(body) as Record<string, unknown>;
  const last = path.split("?")[0]!.split("/").at(-1)!;
  const verb = action ?? order ?? kind ?? (method === "DELETE" ? "delete" : undefined);
  const named = node ?? target ?? (method === "DELETE" || method === "PUT" ? last : undefined);
  const words = [verb ?? (named === undefined ? last : "put"), named];
  return words.filter((word) => word !== undefined).map((word) => decodeURIComponent(String(word)))
    .join(" ");
}

function signOut(why: string): void {
  localStorage.removeItem(KEY);
  sessionStorage.setItem(PLACE, location.hash);
  signedIn.value = { state: "out", why };
}

/** By the token of the address, else the browser's key. Clears the address. */
export async function signIn(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    const place = sessionStorage.getItem(PLACE) ?? "";
    sessionStorage.removeItem(PLACE);
    history.replaceState(null, "", `${location.pathname}${place}`);
  }
  try {
    if (token !== undefined) await exchange(token);
    if (localStorage.getItem(KEY) === null) {
      signOut("This browser has not been signed in");
      return;
    }
    const response = await request("/session");
    signedIn.value = { state: "in", session: await response.json() };
  } catch (error) {
    if (signedIn.value.state === "out") return;
    signedIn.value = { state: "out", why: (error as Error).message };
  }
}

/**
 * A used address still opens the page where the browser has a key, and so does one that another page
 * has made up: neither touches the key.
 */
async function exchange(token: string): Promise<void> {
  try {
    const response = await request("/session", { method: "POST", body: { token }, isSignIn: true });
    const { key }: SignedIn = await response.json();
    localStorage.setItem(KEY, key);
  } catch (error) {
    if (localStorage.getItem(KEY) === null) throw error;
  }
}
