import { askWhichKeeps } from "./responder.ts";

/** Beside what a host has lost. */
export function WhichKeeps({ host }: { readonly host: string }) {
  return (
    <button
      type="button"
      title={`Every method on a machine like ${host}, its power cut at every instant`}
      onClick={() => askWhichKeeps(host)}
    >
      Which method keeps it?
    </button>
  );
}
