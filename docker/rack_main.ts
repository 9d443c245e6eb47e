/**
 * `rack` in the container of the service `console`, without the container's credentials: the rack's
 * are in its directory, and racks of processes have brokers of their own.
 */
import { VIEWER_PASSWORD } from "../console/rack/containers/compose_file.ts";

for (const name of Object.keys(Deno.env.toObject())) {
  if (name.startsWith("RACKMESH_NATS_") || name === VIEWER_PASSWORD) Deno.env.delete(name);
}
await import("../scripts/rack.ts");
