/** The time line of the whole run. */
export function TimeLine() {
  return <footer class="line" aria-label="Time line" />;
}
