import type { ComponentChildren } from "preact";
import { topology } from "../data/rack.ts";
import type { Selection } from "../state.ts";
import { CableSide } from "../rack/cable_side.tsx";
import { DeviceSide } from "../rack/device_side.tsx";

export function Selected({ what }: { readonly what: Selection }): ComponentChildren {
  const rack = topology.value;
  if (rack === undefined) return null;
  switch (what.kind) {
    case "device": {
      const node = rack.nodes.find(({ name }) => name === what.name);
      return node === undefined
        ? <Absent what={`device ${what.name}`} />
        : <DeviceSide key={node.name} node={node} rack={rack} />;
    }
    case "cable": {
      const index = rack.cables.findIndex(({ name }) => name === what.name);
      return index < 0
        ? <Absent what={`cable ${what.name}`} />
        : <CableSide key={what.name} index={index} rack={rack} />;
    }
    case "queue pair": {
      const node = rack.nodes.find(({ name }) => name === what.device);
      return node === undefined
        ? <Absent what={`device ${what.device}`} />
        : <DeviceSide node={node} rack={rack} />;
    }
    case "line":
    case "operation":
      return (
        <p class="quiet">The selected {what.kind} is shown by the views Operation and Memory.</p>
      );
  }
}

function Absent({ what }: { readonly what: string }) {
  return <p class="quiet">This rack has no {what}.</p>;
}
