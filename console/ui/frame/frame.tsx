/** Bar, rail, view, side and time line never move; the view in the middle changes. */
import { effect, useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { connection } from "../data/connection.ts";
import { isUp, topology } from "../data/rack.ts";
import { isOperator, signedIn } from "../data/session.ts";
import { go, hrefOf, isPast, lookAt, place, run, select, selection, view } from "../state.ts";
import type { Key } from "../view.ts";
import { viewOf, VIEWS } from "../views.ts";
import { Bar, healAll } from "./bar.tsx";
import { RackSide } from "../rack/rack_side.tsx";
import { dialog, OpenDialog } from "./dialogs.tsx";
import { Empty, Loading } from "./empty.tsx";
import { keys, openHelp } from "./help.tsx";
import { NoticeLine } from "./notice.tsx";
import { openSearch } from "./search.tsx";
import { Selected } from "./selected.tsx";
import { toggleTheme } from "./theme.ts";
import { canDrive, runOrPause, stepEvent, stepSpan } from "./time.ts";
import { openTeam } from "./team.tsx";
import { TimeLine } from "./time_line.tsx";
import { openUntil } from "./until.tsx";

function Rail() {
  return (
    <nav class="rail" aria-label="Views">
      {VIEWS.map(({ name, title, icon }) => (
        <a
          key={name}
          href={hrefOf({ view: name, more: {} })}
          aria-current={name === view.value ? "page" : undefined}
        >
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <path d={icon} />
          </svg>
          {title}
        </a>
      ))}
      <button type="button" title="Who is here, invitations, locks, audit log" onClick={openTeam}>
        <svg viewBox="0 0 20 20" aria-hidden="true">
          <path d="M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 17c0-4 2-6 5-6s5 2 5 6M14 9a2 2 0 1 0 0-5M14 12c3 0 4 2 4 5" />
        </svg>
        Team
      </button>
    </nav>
  );
}

function Side() {
  const what = selection.value;
  const shown = viewOf(view.value), own = shown.side;
  const isOpen = what !== undefined && shown?.isApart === undefined;
  return (
    <aside
      class={`side ${isOpen ? "is-open" : ""}`}
      aria-label="Selection"
      tabIndex={0}
    >
      {what !== undefined && (
        <button
          type="button"
          class="plain close"
          aria-label="Close"
          onClick={() => select(undefined)}
        >
          ✕
        </button>
      )}
      {what === undefined
        ? topology.value !== undefined && <RackSide rack={topology.value} />
        : own?.(what) ?? <Selected what={what} />}
    </aside>
  );
}

const ofTime: readonly Key[] = [
  { key: " ", what: "let time run, or stop it", act: () => void runOrPause() },
  { key: ".", what: "one instant with events", act: () => void stepEvent() },
  { key: "n", what: "a microsecond", act: () => void stepSpan() },
  { key: "u", what: "run until a time or a step", act: openUntil },
];

function keysNow(): Key[] {
  const own = viewOf(view.value).keys ?? [];
  return [
    { key: "?", what: "this list", act: openHelp },
    { key: "/", what: "search devices, cables, runs, views", act: () => openSearch("") },
    { key: ":", what: "a command, as rack takes it", act: () => openSearch(":") },
    ...VIEWS.map(({ name, title }, i) => ({
      key: String(i + 1),
      what: title,
      act: () => go({ view: name, more: {} }),
    })),
    ...(canDrive.value ? ofTime : []),
    ...(isOperator.value && isUp.value
      ? [{ key: "h", what: "heal every cable, start every device", act: healAll }]
      : []),
    {
      key: "Escape",
      what: "back to now, then nothing selected",
      act: () => isPast.value ? lookAt(undefined) : select(undefined),
    },
    { key: "t", what: "dark or light", act: toggleTheme },
    ...own,
  ];
}

/** The view is about another run than the time line and the selection: they would be taken for its. */
function isOfAnother(): boolean {
  const { show } = place.value.more;
  return view.value === "runs" && show !== undefined && show !== run.value;
}

function onKey(event: KeyboardEvent): void {
  const { target, ctrlKey, metaKey, altKey } = event;
  const isTyping = target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));
  if (
    event.defaultPrevented || isTyping || ctrlKey || metaKey || altKey || dialog.value !== undefined
  ) return;
  // Space and Enter press the button that has the focus.
  if (target instanceof HTMLButtonElement && event.key === " ") return;
  const found = keys.value.find(({ key }) => key === event.key);
  if (found === undefined) return;
  event.preventDefault();
  found.act();
}

function SignedOut({ why }: { readonly why: string }) {
  return (
    <main class="view alone">
      <Empty title="Not signed in">
        {why}. Open the address that <code>rack console</code>{" "}
        prints when it starts: it signs in one browser, once.
      </Empty>
    </main>
  );
}

export function Frame() {
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  // Not the hook of signals: it would ask for a frame whenever the clock moves, though no key changes.
  useEffect(() =>
    effect(() => {
      keys.value = keysNow();
    }), []);
  const isStale = useComputed(() => connection.value.state === "interrupted");
  const who = signedIn.value;
  if (who.state === "out") return <SignedOut why={who.why} />;
  if (who.state === "asking") {
    return (
      <main class="view alone">
        <Loading what="the session" />
      </main>
    );
  }
  const { Page } = viewOf(view.value);
  return (
    <>
      <div
        class={`frame ${isStale.value ? "is-stale" : ""} ${
          run.value === undefined || isOfAnother() ? "is-empty" : ""
        }`}
      >
        <Bar />
        <Rail />
        <main class="view">
          <Page />
          <NoticeLine />
        </main>
        <Side />
        <TimeLine />
      </div>
      <OpenDialog />
    </>
  );
}
