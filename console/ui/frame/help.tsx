import { signal } from "@preact/signals";
import type { Key } from "../view.ts";
import { COMMANDS } from "./commands.ts";
import { close, open } from "./dialogs.tsx";

export const keys = signal<readonly Key[]>([]);

const NAMES: Readonly<Record<string, string>> = {
  " ": "space",
  Escape: "Esc",
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
};

function Help() {
  return (
    <div>
      <div class="row apart">
        <h2 id="dialog-title">Keys</h2>
        <button type="button" class="plain" autofocus aria-label="Close" onClick={close}>✕</button>
      </div>
      <table class="keys">
        <tbody>
          {keys.value.map(({ key, what }) => (
            <tr key={key}>
              <td>
                <kbd>{NAMES[key] ?? key}</kbd>
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h3>
        Commands, after <kbd>:</kbd>
      </h3>
      <table class="keys">
        <tbody>
          {COMMANDS.map(({ usage, what }) => (
            <tr key={usage}>
              <td>
                <code>{usage}</code>
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function openHelp(): void {
  open(Help);
}
