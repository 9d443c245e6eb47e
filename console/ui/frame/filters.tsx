/** Fields over a list, each with one value of its filter. */
import { SEARCHED_MAX } from "../../api/replay_terms.ts";

/** @param none what is chosen by ""; null: nothing is. */
export function Choice(
  { label, value = "", all, words, none = "all", onChoose }: {
    readonly label: string;
    readonly value?: string | undefined;
    readonly all: readonly string[];
    readonly words?: Readonly<Record<string, string>>;
    readonly none?: string | null;
    readonly onChoose: (value: string) => void;
  },
) {
  // One that is not there is said, too: nothing fits it.
  const shown = value === "" || all.includes(value) ? all : [...all, value];
  return (
    <label>
      {label}
      <select value={value} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
        {none !== null && <option value="">{none}</option>}
        {shown.map((each) => <option key={each} value={each}>{words?.[each] ?? each}</option>)}
      </select>
    </label>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (text: string) => void;
}

export function SearchField({ label, value = "", onChange }: FieldProps) {
  return (
    <label>
      {label}
      <input
        type="search"
        maxLength={SEARCHED_MAX}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}

export function NumberField({ label, value = "", onChange }: FieldProps) {
  return (
    <label>
      {label}
      <input
        type="number"
        min="0"
        step="any"
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}
