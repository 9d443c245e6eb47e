/**
 * The client's connection over Deno's TCP and TLS. Its own transport (transport-node 3.4.0) uses
 * Node's sockets: a tenth more CPU for each hop of a rack, 3 MB and 8 ms for each process, and a
 * socket that is given up may end the process, as all its listeners are removed first.
 */
import {
  checkOptions,
  type ConnectionOptions,
  deferred,
  errors,
  INFO,
  type Msg,
  type NatsConnection,
  NatsConnectionImpl,
  type Server,
  type ServerInfo,
  setTransportFactory,
  type Transport,
} from "@nats-io/nats-core/internal";
import { type Hear, Incoming, Outgoing } from "./nats_frames.ts";
import { nextTurn } from "./wall_time.ts";

/**
 * Messages bypass the client: its parser and buffers cost half as much again as `nats_frames.ts`.
 */
export class TcpConnection {
  readonly client: NatsConnection;
  readonly #protocol: NatsConnectionImpl["protocol"];
  readonly #hearers: Map<number, Hear>;

  private constructor(client: NatsConnection, hearers: Map<number, Hear>) {
    this.client = client;
    this.#protocol = (client as NatsConnectionImpl).protocol;
    this.#hearers = hearers;
  }

  /** @param options.ca certificates in PEM that sign the servers' own. */
  static async connect(
    options: ConnectionOptions & { readonly ca?: string },
  ): Promise<TcpConnection> {
    setTransportFactory({ factory: () => new DenoTransport() });
    const hearers = new Map<number, Hear>();
    const withHearers: OptionsWithHearers = { ...options, hearers };
    return new TcpConnection(await NatsConnectionImpl.connect(withHearers), hearers);
  }

  /** Sends before this turn of the event loop ends. Dropped while the client is not connected. */
  publish(subject: string, payload: Uint8Array, reply?: string): void {
    const { connected, transport } = this.#protocol;
    if (connected) (transport as DenoTransport).publish(subject, payload, reply);
  }

  knows(subject: string): boolean {
    return (this.#protocol.transport as DenoTransport).outgoing.knows(subject);
  }

  /**
   * @param onNotice takes the server's own answers, which are no plain messages.
   * @returns a function that ends the subscription.
   */
  subscribe(pattern: string, hear: Hear, onNotice?: (message: Msg) => void): () => void {
    const subscription = this.client.subscribe(pattern, {
      callback: (error, message) => {
        // The connection's status also reports this error (a forbidden subject).
        if (error === null) onNotice?.(message);
      },
    });
    const sid = subscription.getID();
    this.#hearers.set(sid, hear);
    // Else the client would send it behind messages published in this turn.
    this.client.flush().catch(() => {});
    return () => {
      this.#hearers.delete(sid);
      subscription.unsubscribe();
    };
  }
}

type OptionsWithHearers = ConnectionOptions & {
  readonly hearers: ReadonlyMap<number, Hear>;
  readonly ca?: string;
};

class DenoTransport implements Transport {
  readonly lang = "deno";
  readonly version = Deno.version.deno;
  closeError?: Error;
  readonly #closed = deferred<void | Error>();
  #socket: Deno.Conn | undefined;
  #isEncrypted = false;
  #isConnected = false;
  #isDone = false;
  readonly outgoing = new Outgoing();
  #incoming: Incoming | undefined;
  #first: readonly Uint8Array[] = [];
  #isWriting = false;
  #isWriteDue = false;

  get isClosed(): boolean {
    return this.#isDone;
  }

  async connect(server: Server, options: ConnectionOptions): Promise<void> {
    const { hearers, ca } = options as OptionsWithHearers;
    this.#incoming = new Incoming(hearers);
    try {
      const socket = await Deno.connect({ hostname: server.hostname, port: server.port });
      this.#take(socket);
      socket.setNoDelay(true);
      const info = await this.#peekInfo();
      checkOptions(info, options);
      if (info.tls_required === true || (info.tls_available === true && options.tls !== null)) {
        const secure = await Deno.startTls(socket, {
          hostname: server.tlsName || server.hostname,
          ...(ca !== undefined && { caCerts: [ca] }),
        });
        this.#take(secure);
        // Without this, an untrusted certificate would look like a server that does not answer.
        await secure.handshake();
        this.#isEncrypted = true;
      }
      this.#isConnected = true;
    } catch (error) {
      this.discard();
      if (!(error instanceof Deno.errors.ConnectionRefused)) throw error;
      throw new errors.ConnectionError("connection refused", { cause: error });
    }
  }

  async *[Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    yield* this.#first;
    try {
      for (let others = await this.#read(); others !== undefined; others = await this.#read()) {
        if (others.length > 0) yield* others;
      }
      this.#end();
    } catch (error) {
      this.#end(error as Error);
    }
  }

  isEncrypted(): boolean {
    return this.#isEncrypted;
  }

  send(frame: Uint8Array): void {
    if (this.#isDone) return;
    this.outgoing.append(frame);
    this.#write();
  }

  publish(subject: string, payload: Uint8Array, reply?: string): void {
    if (this.#isDone) return;
    this.outgoing.publish(subject, payload, reply);
    if (this.#isWriteDue) return;
    this.#isWriteDue = true;
    queueMicrotask(() => {
      this.#isWriteDue = false;
      this.#write();
    });
  }

  close(error?: Error): Promise<void> {
    if (this.#isConnected) this.#end(error);
    else this.discard();
    return Promise.resolve();
  }

  disconnect(): void {
    this.#end();
  }

  closed(): Promise<void | Error> {
    return this.#closed;
  }

  discard(): void {
    this.#isDone = true;
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
  }

  #take(socket: Deno.Conn): void {
    if (!this.#isDone) {
      this.#socket = socket;
      return;
    }
    socket.close();
    throw new errors.ConnectionError("given up while connecting");
  }

  /** INFO is the server's first message: its properties, and whether it requires TLS. */
  async #peekInfo(): Promise<ServerInfo> {
    for (let read = await this.#read(); read !== undefined; read = await this.#read()) {
      if (read.length === 0) continue;
      this.#first = read;
      const found = INFO.exec(new TextDecoder().decode(read[0]));
      if (found === null) throw new errors.ConnectionError("unexpected response from server");
      return JSON.parse(found[1]!);
    }
    throw new errors.ConnectionError("the server hung up");
  }

  /** Delivers messages. @returns the other operations; undefined at the end of the stream. */
  async #read(): Promise<readonly Uint8Array[] | undefined> {
    if (this.#socket === undefined) return undefined;
    const incoming = this.#incoming!;
    const count = await this.#socket.read(incoming.room);
    return count === null ? undefined : incoming.take(count);
  }

  /** One write at a time, as it may be partial. */
  #write(): void {
    if (!this.#isWriting && !this.outgoing.isEmpty) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    try {
      while (!this.outgoing.isEmpty && this.#socket !== undefined) {
        let rest = this.outgoing.take();
        while (rest.length > 0) rest = rest.subarray(await this.#socket.write(rest));
      }
      this.#isWriting = false;
    } catch {
      // The reading side reports the error. Until then nothing more is written: it would follow a
      // part of an operation.
    }
  }

  #end(error?: Error): void {
    if (this.#isDone) return;
    if (error !== undefined) this.closeError = error;
    this.discard();
    // The client may have heard in this turn that it is connected. Until its dial has returned, it
    // assumes that this dial replaces the ended connection, and never dials again.
    nextTurn(() => this.#closed.resolve(error));
  }
}
