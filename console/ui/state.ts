/** All of the page's place is in the address, so that a view, a reload and a link keep it. */
import { computed, signal } from "@preact/signals";
import type { Time } from "../../fabric/base/time.ts";

export const VIEW_NAMES = [
  "rack",
  "operation",
  "memory",
  "inspect",
  "explore",
  "chaos",
  "runs",
  "scenario",
] as const;

export type ViewName = typeof VIEW_NAMES[number];

/** The same in every view. Devices and cables by the names that the scenario gives them. */
export type Selection =
  | { readonly kind: "device"; readonly name: string }
  /** `a-rnic/tor`, as `rack link ls` writes it. */
  | { readonly kind: "cable"; readonly name: string }
  | { readonly kind: "queue pair"; readonly device: string; readonly number: number }
  | { readonly kind: "operation"; readonly number: number }
  /** A line of 64 B of a host's SCM, by the address of its first byte. */
  | { readonly kind: "line"; readonly host: string; readonly address: number };

export interface Place {
  readonly view: ViewName;
  /** Up or kept; undefined: none is chosen. */
  readonly run?: string;
  /** Of a run that has several; undefined: the first. */
  readonly variant?: string;
  readonly select?: Selection;
  /** Shown by every view; undefined: now, and it moves as time does. */
  readonly at?: Time;
  /** Of one view, such as the run that another is compared with. */
  readonly more: Readonly<Record<string, string>>;
}

const OWN = ["run", "variant", "select", "at"];

function parseSelection(text: string | null): Selection | undefined {
  const [kind, name, number] = (text ?? "").split("~");
  const value = Number(number);
  if (kind === "device" && name) return { kind, name };
  if (kind === "cable" && name) return { kind, name };
  if (kind === "operation" && /^\d+$/.test(name ?? "")) return { kind, number: Number(name) };
  if (!name || !Number.isSafeInteger(value)) return undefined;
  if (kind === "queue pair") return { kind, device: name, number: value };
  if (kind === "line") return { kind, host: name, address: value };
  return undefined;
}

function selectionText(selection: Selection): string {
  switch (selection.kind) {
    case "device":
    case "cable":
      return `${selection.kind}~${selection.name}`;
    case "operation":
      return `operation~${selection.number}`;
    case "queue pair":
      return `queue pair~${selection.device}~${selection.number}`;
    case "line":
      return `line~${selection.host}~${selection.address}`;
  }
}

/** Missing and wrong parts are left out. */
export function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const parameters = new URLSearchParams(query);
  const view = VIEW_NAMES.find((name) => name === path) ?? "rack";
  const run = parameters.get("run"), variant = parameters.get("variant");
  const select = parseSelection(parameters.get("select"));
  const at = parameters.get("at") === null ? NaN : Number(parameters.get("at"));
  return {
    view,
    ...(run && { run }),
    ...(variant && { variant }),
    ...(select && { select }),
    ...(Number.isSafeInteger(at) && at >= 0 && { at }),
    more: Object.fromEntries([...parameters].filter(([name]) => !OWN.includes(name))),
  };
}

/** `#/rack?run=…&select=device~b`: {@link parsePlace} reads it. */
export function placeText({ view, run, variant, select, at, more }: Place): string {
  const parameters = new URLSearchParams({
    ...(run !== undefined && { run }),
    ...(variant !== undefined && { variant }),
    ...(select !== undefined && { select: selectionText(select) }),
    ...(at !== undefined && { at: String(at) }),
    ...more,
  });
  return `#/${view}${parameters.size === 0 ? "" : `?${parameters}`}`;
}

/** Changed by {@link go} and by the browser's own buttons. */
export const place = signal<Place>({ view: "rack", more: {} });

export const view = computed(() => place.value.view);
export const run = computed(() => place.value.run);
export const selection = computed(() => place.value.select);
/** Undefined: now. */
export const instant = computed(() => place.value.at);
export const isPast = computed(() => instant.value !== undefined);

/** `undefined` removes. Another view drops what the one before had added. */
export interface Change {
  readonly view?: ViewName;
  readonly run?: string | undefined;
  readonly variant?: string | undefined;
  readonly select?: Selection | undefined;
  readonly at?: Time | undefined;
  readonly more?: Readonly<Record<string, string>>;
}

export function changed(from: Place, change: Change): Place {
  const isOther = change.view !== undefined && change.view !== from.view;
  const isOtherRun = from.run !== undefined && "run" in change && change.run !== from.run;
  const isOtherVariant = "variant" in change && change.variant !== from.variant;
  const { run, variant, select, at } = {
    ...from,
    // Names and instants of one run mean nothing in another; all its variants have the same devices.
    ...(isOtherRun && { variant: undefined, select: undefined, at: undefined }),
    ...(isOtherVariant && { at: undefined }),
    ...change,
  };
  return {
    view: change.view ?? from.view,
    ...(run !== undefined && { run }),
    ...(variant !== undefined && { variant }),
    ...(select !== undefined && { select }),
    ...(at !== undefined && { at }),
    more: change.more ?? (isOther ? {} : from.more),
  };
}

/** Where only the instant differs, it adds no step to the browser's history. */
export function go(change: Change): void {
  const before = place.value, next = changed(before, change);
  const text = placeText(next);
  if (text === placeText(before) && location.hash === text) return;
  const isStep = next.view !== before.view || next.run !== before.run ||
    next.variant !== before.variant;
  history[isStep ? "pushState" : "replaceState"](null, "", text);
  place.value = next;
}

/** Changes the view's own part of the address; undefined and "" remove. */
export function changeMore(change: Readonly<Record<string, string | undefined>>): void {
  const next: Record<string, string | undefined> = { ...place.value.more, ...change };
  const given = Object.entries(next).filter((each): each is [string, string] =>
    each[1] !== undefined && each[1] !== ""
  );
  go({ more: Object.fromEntries(given) });
}

export function hrefOf(change: Change): string {
  return placeText(changed(place.value, change));
}

export function select(what: Selection | undefined): void {
  go({ select: what });
}

/** @param at undefined: now. */
export function lookAt(at: Time | undefined): void {
  go({ at });
}

export function isSelected(what: Selection): boolean {
  const now = selection.value;
  return now !== undefined && selectionText(now) === selectionText(what);
}

export function followAddress(): void {
  const read = () => {
    // The printed address, pasted into a page that is open: its token is to be used, and cleared.
    if (location.hash.startsWith("#token=")) return location.reload();
    place.value = parsePlace(location.hash);
  };
  addEventListener("hashchange", read);
  addEventListener("popstate", read);
  read();
}
