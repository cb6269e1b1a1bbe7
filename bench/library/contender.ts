/**
 * A lock package under test, behind one interface.
 *
 * @module
 */

/** The Redis clients that packages are measured with; locks on files need none. */
export type ClientName = "ioredis" | "node-redis" | "files";

/** The properties of a package beyond mutual exclusion: it explains differences in cost. */
export interface Capabilities {
  /** Whether each grant has a fencing token. */
  readonly fencingToken: boolean;
  /** Whether waiters are served in the order in which they came. */
  readonly queue: boolean;
  /** Whether the lock is renewed while it is held, in the way it is used here. */
  readonly renewal: boolean;
}

/** How a contender is opened. */
export interface OpenOptions {
  readonly ttlMs: number;
  /** How long a package that polls sleeps between attempts. */
  readonly pollMs: number;
}

/** A held lock. */
export interface Hold {
  release(): Promise<unknown>;
}

/** A package that is connected. */
export interface OpenContender extends AsyncDisposable {
  /** Waits for the lock as long as it takes. */
  acquire(name: string): Promise<Hold>;
}

/** A package with one client. */
export interface Contender {
  readonly name: string;
  readonly client: ClientName;
  /** The npm package; null for the bare commands. */
  readonly package: string | null;
  readonly has: Capabilities;
  /** The names of the commands that it sends, as the server counts them. */
  readonly sends: readonly string[];
  /** Connects to a server by its URL, or uses a directory by its path. */
  open(place: string, options: OpenOptions): Promise<OpenContender>;
}

/** The key of a contender among others. */
export function idOf({ name, client }: Pick<Contender, "name" | "client">): string {
  return `${name}/${client}`;
}
