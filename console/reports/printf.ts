/** Formats of printf(3) that other programs' output needs. */

/** `%-7s` */
export function left(value: string | number, width: number): string {
  return String(value).padEnd(width);
}

/** `%g`: six significant digits, without zeros at the end. */
export function shortest(value: number): string {
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(5).split("e")[1]);
  if (exponent >= -4 && exponent < 6) return String(Number(value.toPrecision(6)));
  const [digits, power] = value.toExponential(5).split("e") as [string, string];
  const sign = power.startsWith("-") ? "-" : "+";
  const trimmed = digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
  return `${trimmed}e${sign}${power.replace(/^[+-]/, "").padStart(2, "0")}`;
}
