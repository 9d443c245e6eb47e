import { ended, runs, topology, trouble } from "../data/rack.ts";
import { Empty, Loading } from "../frame/empty.tsx";
import { plural } from "../figures.ts";
import { SaveAsScenario } from "../scenario/save_run.tsx";
import { hrefOf, run } from "../state.ts";
import type { View } from "../view.ts";
import { Picture } from "./picture.tsx";
import { Start } from "./start.tsx";

function Page() {
  const rack = topology.value;
  if (run.value === undefined && runs.value !== undefined) return <Start />;
  if (rack === undefined && trouble.value !== undefined) {
    return (
      <Empty
        title="No rack to show"
        act={<a class="button" href={hrefOf({ view: "runs" })}>Choose another run</a>}
      >
        {trouble.value}.
      </Empty>
    );
  }
  if (rack === undefined) return <Loading what="the rack" />;
  const count = (kind: string) => rack.nodes.filter((node) => node.kind === kind).length;
  return (
    <>
      <div class="row apart">
        <h1>
          Rack
          <small>
            {plural(count("host"), "host")} · {plural(count("rnic"), "card")} ·{" "}
            {plural(count("switch"), "switch", "switches")}
            {ended.value !== undefined && " · down"}
          </small>
        </h1>
        <SaveAsScenario />
      </div>
      <Picture />
    </>
  );
}

export const RACK: View = {
  title: "Rack",
  icon: "M3 3h14v4H3zM3 9h6v8H3zM11 9h6v8h-6z",
  Page,
};
