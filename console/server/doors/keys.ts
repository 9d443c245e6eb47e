/**
 * A one-time token stands in the fragment of an address that is printed once; a browser that shows
 * it gets a key, and the token is spent. Keys are held as hashes, in memory only: they end with the
 * console, after a time without use, or when their owner signs out.
 */
import type { Role, SignedIn } from "../../api/session.ts";

export interface Caller {
  readonly session: string;
  readonly role: Role;
  /** The user's; as long as nobody has said one, the session's. */
  readonly name: string;
}

export interface KeysOptions {
  readonly wallMs: () => number;
  /** Key and token of an operator, for a console in a container; never spent. */
  readonly fixed?: string;
  /** Tokens and keys end after so long without use. */
  readonly tokenMs?: number;
  readonly keyMs?: number;
}

const TOKEN_MS = 24 * 3_600_000, KEY_MS = 12 * 3_600_000;
const KEYS_MAX = 200, TOKENS_MAX = 200;
export const FIXED_KEY_LETTERS = 32;

interface Known extends Caller {
  usedMs: number;
}

export class Keys {
  readonly #options: KeysOptions;
  readonly #tokens = new Map<
    string,
    { readonly role: Role; readonly name: string; readonly sinceMs: number }
  >();
  readonly #keys = new Map<string, Known>();
  readonly #id = crypto.randomUUID();
  #fixed: string | undefined;
  #sessions = 0;

  constructor(options: KeysOptions) {
    this.#options = options;
  }

  /** Signs one browser in, once. @param name the user's; empty: its session's. */
  async newToken(role: Role, name = ""): Promise<string> {
    const token = randomText();
    dropOldest(this.#tokens, TOKENS_MAX);
    this.#tokens.set(await hashOf(token), { role, name, sinceMs: this.#options.wallMs() });
    return token;
  }

  /** Undefined where the token is none, is spent, or is too old. */
  async signIn(token: string): Promise<SignedIn | undefined> {
    const hash = await hashOf(token);
    const found = this.#tokens.get(hash);
    this.#tokens.delete(hash);
    const { wallMs, tokenMs = TOKEN_MS } = this.#options;
    const isFresh = found !== undefined && wallMs() - found.sinceMs < tokenMs;
    const role = isFresh ? found.role : await this.#isFixed(hash) ? "operator" : undefined;
    if (role === undefined) return undefined;
    const key = randomText();
    const session = `${role}-${++this.#sessions}`;
    const name = found?.name || session;
    dropOldest(this.#keys, KEYS_MAX);
    this.#keys.set(await hashOf(key), { session, role, name, usedMs: wallMs() });
    return { key, session, role, name };
  }

  async callerOf(key: string): Promise<Caller | undefined> {
    const { wallMs, keyMs = KEY_MS } = this.#options;
    const hash = await hashOf(key);
    const known = this.#keys.get(hash);
    if (known === undefined) return await this.#isFixed(hash) ? FIXED : undefined;
    if (wallMs() - known.usedMs > keyMs) {
      this.#keys.delete(hash);
      return undefined;
    }
    known.usedMs = wallMs();
    return callerIn(known);
  }

  /** Who may come without signing in anew, by the order in which they came. */
  users(): Caller[] {
    const { wallMs, keyMs = KEY_MS, fixed } = this.#options;
    const known = [...this.#keys.values()].filter(({ usedMs }) => wallMs() - usedMs <= keyMs);
    return [...fixed === undefined ? [] : [FIXED], ...known.map(callerIn)];
  }

  /** To which console a session belongs: each numbers its own; the owner's own key is one of all. */
  console(session: string): string {
    return session === FIXED.session ? FIXED.session : this.#id;
  }

  async signOut(key: string): Promise<void> {
    this.#keys.delete(await hashOf(key));
  }

  async #isFixed(hash: string): Promise<boolean> {
    const { fixed } = this.#options;
    if (fixed === undefined) return false;
    return hash === (this.#fixed ??= await hashOf(fixed));
  }
}

const FIXED: Caller = { session: "fixed-key", role: "operator", name: "fixed-key" };

function callerIn({ session, role, name }: Known): Caller {
  return { session, role, name };
}

/** 256 bits. */
function randomText(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toBase64({
    alphabet: "base64url",
    omitPadding: true,
  });
}

/** Comparing hashes tells an attacker nothing about how near a guess is. */
export async function hashOf(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(bytes).toHex();
}

function dropOldest(map: Map<string, unknown>, most: number): void {
  const [oldest] = map.keys();
  if (map.size >= most && oldest !== undefined) map.delete(oldest);
}
