/**
 * A resource that checks fencing tokens: a table that refuses writers whose lease has ended.
 *
 * A lock alone cannot protect a resource: its holder may be suspended right before it writes, for
 * longer than its lease. The fencing token can: the table keeps the greatest token with each value, and
 * compares and writes in one statement. Any database can do the same.
 *
 * @module
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";

/** How long in ms a write waits for the writes of other processes. */
const BUSY_MS = 10_000;

const SCHEMA = `create table if not exists fenced (
  key text primary key, value text not null, fence integer not null
) strict, without rowid`;

/** `<=`, because one lease may write several times. */
const WRITE = `insert into fenced (key, value, fence) values (?, ?, ?)
on conflict (key) do update set value = excluded.value, fence = excluded.fence
where fence <= excluded.fence`;

const RAISE = `insert into fenced (key, value, fence) values (?, '', ?)
on conflict (key) do update set fence = excluded.fence where fence <= excluded.fence`;

const READ = `select value, fence from fenced where key = ?`;

/** A stored value with its token. Empty if the fence was raised before anything was written. */
export interface FencedValue {
  readonly value: string;
  /** The greatest token that has written, or raised the fence. */
  readonly fence: bigint;
}

/**
 * Values in an SQLite file, which any number of processes may open. A write is refused after a write or a
 * raised fence with a greater token, from any process.
 *
 * @example
 * ```ts
 * import { FileLock } from "@holdfast/lock/file";
 *
 * await using locks = new FileLock();
 * using store = new FencedStore("orders.db");
 *
 * await locks.request("orders:42", (lease) => {
 *   if (!store.write("orders:42", "shipped", lease.fencingToken)) {
 *     throw new Error("A later lease has already written");
 *   }
 * });
 * ```
 */
export class FencedStore {
  readonly #database: DatabaseSync;
  readonly #write: StatementSync;
  readonly #raise: StatementSync;
  readonly #read: StatementSync;

  /**
   * Opens the file; creates it if it is missing.
   *
   * @param path The path of the file. SQLite adds two files next to it, with `-wal` and `-shm` appended.
   */
  constructor(path: string) {
    this.#database = new DatabaseSync(path, { timeout: BUSY_MS });
    setUp(this.#database);
    this.#write = this.#database.prepare(WRITE);
    this.#raise = this.#database.prepare(RAISE);
    this.#read = this.#database.prepare(READ);
    this.#read.setReadBigInts(true);
  }

  /**
   * Writes the value, unless a later lease has written or raised the fence under this key.
   *
   * @param fence The fencing token of the lease, below 2⁶³.
   * @returns Whether it was written.
   * @throws {RangeError} If the token is negative or too large.
   */
  write(key: string, value: string, fence: bigint): boolean {
    return this.#write.run(key, value, checked(fence)).changes === 1;
  }

  /**
   * From now on refuses the writes of earlier leases. Call it before `read()` if what you write depends on
   * what you have read: an earlier lease could otherwise write in between.
   *
   * @param fence The fencing token of the lease, below 2⁶³.
   * @returns Whether it was raised: false after a later lease.
   * @throws {RangeError} If the token is negative or too large.
   */
  raise(key: string, fence: bigint): boolean {
    return this.#raise.run(key, checked(fence)).changes === 1;
  }

  /** The last value written under the key; null if there is none. */
  read(key: string): FencedValue | null {
    const row = this.#read.get(key);
    return row ? { value: String(row.value), fence: row.fence as bigint } : null;
  }

  /** Closes the file. */
  [Symbol.dispose](): void {
    this.#database.close();
  }
}

function checked(fence: bigint): bigint {
  if (fence >= 0n && fence < 2n ** 63n) return fence;
  throw new RangeError(`Cannot store the fencing token ${fence}: it must fit into 63 bits`);
}

/**
 * Allows readers during a write, and commits that do not wait for the disk: they survive the end of the
 * process. While another process sets the same mode, SQLite fails at once, so this tries again.
 */
function setUp(database: DatabaseSync): void {
  const giveUpMs = performance.now() + BUSY_MS;
  for (;;) {
    try {
      database.exec("pragma journal_mode = wal; pragma synchronous = normal");
      return database.exec(SCHEMA);
    } catch (error) {
      const isBusy = error instanceof Error && error.message.includes("locked");
      if (isBusy && performance.now() < giveUpMs) continue;
      database.close();
      throw error;
    }
  }
}
