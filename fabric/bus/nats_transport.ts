/** The client's connection over Deno's TCP and TLS: README.md has why not over transport-node. */
import {
  checkOptions,
  type ConnectionOptions,
  DataBuffer,
  deferred,
  errors,
  extractProtocolMessage,
  INFO,
  type NatsConnection,
  NatsConnectionImpl,
  type Server,
  type ServerInfo,
  setTransportFactory,
  type Transport,
} from "@nats-io/nats-core/internal";
import { nextTurn } from "./wall_time.ts";

/** Connects over a Deno socket. */
export function connectOverTcp(options: ConnectionOptions): Promise<NatsConnection> {
  setTransportFactory({ factory: () => new DenoTransport() });
  return NatsConnectionImpl.connect(options);
}

/** Payloads are views of the read buffer, so its memory is never reused. */
const SLAB_BYTES = 64 * 1024;
const LEAST_READ_BYTES = 8 * 1024;

class DenoTransport implements Transport {
  readonly lang = "deno";
  readonly version = Deno.version.deno;
  closeError?: Error;
  readonly #closed = deferred<void | Error>();
  #socket: Deno.Conn | undefined;
  #isEncrypted = false;
  #isConnected = false;
  #isDone = false;
  /** The bytes that arrived with the server's INFO: the client parses INFO again. */
  readonly #first: Uint8Array[] = [];
  #slab = new Uint8Array(SLAB_BYTES);
  #slabUsed = 0;
  /** Frames queued behind the current write. */
  #waiting: Uint8Array[] = [];
  #isWriting = false;

  get isClosed(): boolean {
    return this.#isDone;
  }

  async connect(server: Server, options: ConnectionOptions): Promise<void> {
    try {
      const socket = await Deno.connect({ hostname: server.hostname, port: server.port });
      this.#take(socket);
      socket.setNoDelay(true);
      const info = await this.#peekInfo();
      checkOptions(info, options);
      if (info.tls_required === true || (info.tls_available === true && options.tls !== null)) {
        const secure = await Deno.startTls(socket, { hostname: server.tlsName || server.hostname });
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
      for (let frame = await this.#read(); frame !== undefined; frame = await this.#read()) {
        yield frame;
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
    this.#waiting.push(frame);
    if (!this.#isWriting) void this.#write();
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

  /** Closes the connection without notifying the client, which has initiated it. */
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

  /** Reads INFO, the server's first message: its properties, and whether it requires TLS. */
  async #peekInfo(): Promise<ServerInfo> {
    for (let frame = await this.#read(); frame !== undefined; frame = await this.#read()) {
      this.#first.push(frame);
      const line = extractProtocolMessage(DataBuffer.concat(...this.#first));
      if (line === "") continue;
      const found = INFO.exec(line);
      if (found === null) throw new errors.ConnectionError("unexpected response from server");
      return JSON.parse(found[1]!);
    }
    throw new errors.ConnectionError("the server hung up");
  }

  /** The next bytes; undefined at the end of the stream. */
  async #read(): Promise<Uint8Array | undefined> {
    if (this.#socket === undefined) return undefined;
    if (SLAB_BYTES - this.#slabUsed < LEAST_READ_BYTES) {
      this.#slab = new Uint8Array(SLAB_BYTES);
      this.#slabUsed = 0;
    }
    const from = this.#slabUsed;
    const count = await this.#socket.read(this.#slab.subarray(from));
    if (count === null) return undefined;
    this.#slabUsed = from + count;
    return this.#slab.subarray(from, from + count);
  }

  /** One write at a time, as it may be partial; frames queued meanwhile form the next one. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    try {
      while (this.#waiting.length > 0 && this.#socket !== undefined) {
        const frames = this.#waiting;
        this.#waiting = [];
        let rest = frames.length === 1 ? frames[0]! : DataBuffer.concat(...frames);
        while (rest.length > 0) rest = rest.subarray(await this.#socket.write(rest));
      }
    } catch {
      // The reading side reports the error.
    }
    this.#isWriting = false;
  }

  #end(error?: Error): void {
    if (this.#isDone) return;
    if (error !== undefined) this.closeError = error;
    this.discard();
    // The client may have heard in this turn that it is connected. Until its dial has returned, it
    // takes the end for one that this dial makes good, and never dials again.
    nextTurn(() => this.#closed.resolve(error));
  }
}
