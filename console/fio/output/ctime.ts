/** As ctime(3) has it, in UTC: `Sat Nov  7 05:06:07 2026`. */
export function ctime(now: Date): string {
  const [weekday, day, month, year, time] = now.toUTCString().replace(",", "").split(" ");
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`;
}
