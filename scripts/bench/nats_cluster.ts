/** nats-servers of another owner for tests and the bench: one alone, a cluster, or a hub with leaf nodes. */
import { findNatsServer } from "../../console/rack/nats_server.ts";

export interface ClusterOptions {
  readonly servers: number;
  /** Each knows the others, or the first one alone (`leafnodes`); default: a cluster. */
  readonly topology?: Topology;
  /** What each configuration has besides: users, TLS. */
  readonly config?: string;
  /** How many of the servers a client is told of; default: all. */
  readonly named?: number;
  /** Default: all on this machine's loopback interface. */
  readonly place?: (server: number) => Place;
}

type Topology = "cluster" | "hub with leaf nodes";

interface Place {
  /** Words before the command's, by which it runs there. */
  readonly before: readonly string[];
  readonly host: string;
}

const HERE: Place = { before: [], host: "127.0.0.1" };

export class NatsCluster {
  readonly #servers: ClusterServer[] = [];
  readonly #options: ClusterOptions;
  readonly #folder: string;

  private constructor(folder: string, options: ClusterOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** @param folder for configurations and logs. */
  static async open(folder: string, options: ClusterOptions): Promise<NatsCluster> {
    const cluster = new NatsCluster(folder, options);
    try {
      for (let i = 0; i < options.servers; i++) await cluster.#add();
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** Of the named ones. */
  get urls(): string {
    const named = this.#servers.slice(0, this.#options.named ?? this.#servers.length);
    return named.map(({ host, port }) => {
      // By name, as certificates have it.
      const shown = host === HERE.host ? "localhost" : host;
      return `nats://${shown}:${port}`;
    }).join(",");
  }

  server(i: number): ClusterServer {
    return this.#servers[i]!;
  }

  async close(): Promise<void> {
    for (const server of this.#servers) await server.end();
  }

  async #add(): Promise<void> {
    const i = this.#servers.length, first = this.#servers[0];
    const path = `${this.#folder}/cluster-${i}.conf`;
    const place = this.#options.place?.(i) ?? HERE;
    const { topology = "cluster" } = this.#options;
    const { peers, ready } = TOPOLOGIES[topology](first, place);
    const text = `server_name: "n${i}"
host: "${place.host}"
port: -1
max_payload: 8MB
${peers}
${this.#options.config ?? ""}
`;
    await Deno.writeTextFile(path, text, { mode: 0o600 });
    this.#servers.push(await ClusterServer.start(path, { place, ready }));
  }
}

interface Peers {
  /** Of the configuration. */
  readonly peers: string;
  /** Of the log: it can be used, by its peers too. A group: the port for them. */
  readonly ready: RegExp;
}

const TOPOLOGIES: Record<Topology, (first: ClusterServer | undefined, place: Place) => Peers> = {
  cluster(first, { host }) {
    const routes = first === undefined ? "" : `routes: ["nats://${first.host}:${first.peerPort}"]`;
    return {
      peers: `cluster { name: "lab", host: "${host}", port: -1, ${routes} }`,
      ready: listening("route"),
    };
  },
  "hub with leaf nodes"(hub, { host }) {
    if (hub === undefined) {
      return { peers: `leafnodes { host: "${host}", port: -1 }`, ready: listening("leafnode") };
    }
    return {
      peers: `leafnodes { remotes: [{ url: "nats-leaf://${hub.host}:${hub.peerPort}" }] }`,
      ready: /Leafnode connection created/,
    };
  },
};

function listening(what: "client" | "route" | "leafnode"): RegExp {
  return new RegExp(`Listening for ${what} connections on .*:(\\d+)\n`);
}

class ClusterServer {
  readonly #process: Deno.ChildProcess;
  readonly #logged: Promise<void>;
  #log = "";
  readonly host: string;
  port = 0;
  /** For the servers after it; NaN for a leaf node. */
  peerPort = 0;

  private constructor(process: Deno.ChildProcess, host: string, ready: RegExp) {
    this.host = host;
    this.#process = process;
    this.#logged = this.#keepLog(ready);
  }

  static async start(
    config: string,
    { place: { before, host }, ready }: { readonly place: Place; readonly ready: RegExp },
  ): Promise<ClusterServer> {
    const words = [...before, findNatsServer(), "-c", config];
    const process = new Deno.Command(words[0]!, {
      args: words.slice(1),
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const server = new ClusterServer(process, host, ready);
    await server.#ready.promise;
    return server;
  }

  readonly #ready = Promise.withResolvers<void>();

  get log(): string {
    return this.#log;
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** For good. */
  kill(): void {
    this.#process.kill("SIGKILL");
  }

  async end(): Promise<void> {
    try {
      this.kill();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    await this.#process.status;
    await this.#logged;
  }

  async #keepLog(ready: RegExp): Promise<void> {
    for await (const text of this.#process.stderr.pipeThrough(new TextDecoderStream())) {
      this.#log += text;
      const client = listening("client").exec(this.#log), peers = ready.exec(this.#log);
      if (client === null || peers === null) continue;
      [this.port, this.peerPort] = [Number(client[1]), Number(peers[1])];
      this.#ready.resolve();
    }
    this.#ready.reject(new Error(`nats-server ended:\n${this.#log}`));
    this.#ready.promise.catch(() => {});
  }
}
