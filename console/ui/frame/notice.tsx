import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { connection, NO_ANSWER } from "../data/connection.ts";
import { ordersUnderWay } from "../data/session.ts";
import { view } from "../state.ts";

export interface Notice {
  readonly text: string;
  readonly isRefusal: boolean;
}

const notice = signal<Notice | undefined>(undefined);

export function say(text: string): void {
  notice.value = { text, isRefusal: false };
}

export function refuse(error: unknown): void {
  notice.value = { text: error instanceof Error ? error.message : String(error), isRefusal: true };
}

/** The notice is the answer, or why the order was refused. True where it was carried out. */
export async function order<T>(answer: Promise<T>, done: (value: T) => string): Promise<boolean> {
  try {
    const text = done(await answer);
    if (text !== "") say(text);
    return true;
  } catch (error) {
    refuse(error);
    return false;
  }
}

const STAYS_MS = 6_000;

/** What has been ordered and has no answer yet. */
function UnderWay() {
  const orders = ordersUnderWay.value;
  if (orders.length === 0) return null;
  const isAway = connection.value.state === "interrupted";
  return (
    <div role="status" class="notice note under-way" data-testid="under-way">
      <span>
        {orders.join(", ")}: under way …{isAway && ` ${NO_ANSWER}.`}
      </span>
    </div>
  );
}

export function NoticeLine() {
  return (
    <>
      <UnderWay />
      <LastNotice />
    </>
  );
}

function LastNotice() {
  const now = notice.value;
  // A notice of another view counts as read.
  useEffect(() => () => void (notice.value = undefined), [view.value]);
  if (now === undefined) return null;
  // A refusal stays until it is read.
  if (!now.isRefusal) {
    setTimeout(() => notice.peek() === now && (notice.value = undefined), STAYS_MS);
  }
  return (
    <div role="status" class={`notice note ${now.isRefusal ? "refused" : "is-safe"}`}>
      <span>{now.text}</span>
      <button
        type="button"
        class="plain"
        aria-label="Close this message"
        onClick={() => notice.value = undefined}
      >
        ✕
      </button>
    </div>
  );
}
