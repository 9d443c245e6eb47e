import type { Signal } from "@preact/signals";
import {
  expectedOf,
  normalText,
  type OptionRow,
  type OptionTable,
  orderName,
  type OrderOf,
  readTyped,
} from "../../../fabric/rack/plan/option_rows.ts";

/** By the option's name; `on` of a switch. Absent: not given. */
export type Typed = Signal<Readonly<Record<string, string>>>;

/** Of fields that have something in them. */
export function typedOrder<Table extends OptionTable>(table: Table, typed: Typed): OrderOf<Table> {
  const members = Object.entries(table).flatMap(([name, row]) => {
    const text = typed.value[name] ?? "";
    if (text === "") return [];
    return [[orderName(name, row), row.type === "switch" ? true : readTyped(row, text)]];
  });
  return Object.fromEntries(members);
}

/** @param first names of those that most orders need: the others are behind `More`. */
export function OptionFields<Table extends OptionTable>(
  { table, first, typed }: {
    readonly table: Table;
    readonly first: readonly (keyof Table & string)[];
    readonly typed: Typed;
  },
) {
  const fieldOf = (name: string) => (
    <Field
      key={name}
      name={name}
      row={table[name]!}
      value={typed.value[name] ?? ""}
      onChange={(text) => typed.value = { ...typed.value, [name]: text }}
    />
  );
  return (
    <>
      {first.map(fieldOf)}
      <details>
        <summary>More</summary>
        <div class="row end">
          {Object.keys(table).filter((name) => !first.includes(name)).map(fieldOf)}
        </div>
      </details>
    </>
  );
}

interface FieldProps {
  readonly name: string;
  readonly row: OptionRow;
  readonly value: string;
  readonly onChange: (text: string) => void;
}

function Field({ name, row, value, onChange }: FieldProps) {
  const label = row.label ?? `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
  if (row.type === "switch") {
    return (
      <label class="check" title={row.what}>
        <input
          type="checkbox"
          checked={value !== ""}
          onChange={({ currentTarget }) => onChange(currentTarget.checked ? "on" : "")}
        />
        {label}
      </label>
    );
  }
  return (
    <label title={row.what}>
      {label}
      {row.type === "word" && (
        <select
          value={value}
          onChange={({ currentTarget }) => onChange(currentTarget.value)}
        >
          <option value="">as the scenario has it</option>
          {row.words.map((word) => <option key={word} value={word}>{word}</option>)}
        </select>
      )}
      {row.type !== "word" && <Text name={name} row={row} value={value} onChange={onChange} />}
    </label>
  );
}

function Text({ name, row, value, onChange }: FieldProps) {
  const words = row.type === "host" ? row.words : [], list = `${name}-words`;
  return (
    <>
      <input
        {...row.type === "whole"
          ? { type: "number", min: row.least, max: row.most, step: row.multipleOf ?? 1 }
          : { type: "text" }}
        {...words.length > 0 && { list }}
        placeholder={row.normal === undefined ? "" : normalText(row)}
        value={value}
        onInput={({ currentTarget }) => {
          const text = currentTarget.value;
          onChange(text);
          const isRight = text === "" || readTyped(row, text) !== undefined;
          currentTarget.setCustomValidity(isRight ? "" : expectedOf(row, text));
        }}
      />
      {words.length > 0 && (
        <datalist id={list}>{words.map((word) => <option key={word} value={word} />)}</datalist>
      )}
    </>
  );
}
