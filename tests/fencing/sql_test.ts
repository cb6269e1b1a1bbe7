/**
 * Runs the SQL of `docs/fencing.md` for PostgreSQL and SQLite, read from that page, on SQLite. Of that for MySQL
 * only the text is checked.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";

const DOCUMENT = Deno.readTextFileSync(new URL("../../docs/fencing.md", import.meta.url));
const LAST = 2n ** 63n - 1n;

/** Reads the SQL statements in the section with this heading. */
function statementsOf(heading: string): string[] {
  const section = DOCUMENT.split(`\n### ${heading}\n`)[1]!.split(/\n##/)[0]!;
  return Array.from(section.matchAll(/```sql\n(.*?)```/gs), ([, sql]) => sql!);
}

/** The statement for a table that exists stands above the sections of the databases. */
const [, ALTER = ""] = /```sql\n(alter table [^]*?)```/.exec(DOCUMENT)!;

const [SCHEMA, UPDATE, UPSERT, RAISE, CHECK] = statementsOf("PostgreSQL and SQLite") as [
  string,
  string,
  string,
  string,
  string,
];

/** A table of fences for rows that are deleted. */
const [FENCES, RAISE_THERE] = statementsOf("Deleted rows") as [string, string];

/** Opens a SQLite database and prepares the statements of the page. */
function open(path: string) {
  const database = new DatabaseSync(path, { timeout: 10_000 });
  const write = (sql: string) => (id: string, state: string, fence: bigint) => {
    const { changes } = database.prepare(sql).run({ $1: state, $2: fence, $3: id });
    return changes === 1;
  };
  return {
    exec: (sql: string) => database.exec(sql),
    update: write(UPDATE),
    upsert: write(UPSERT),
    check: write(CHECK),
    raise: (id: string, fence: bigint) =>
      database.prepare(RAISE).get({ $1: fence, $2: id } as Record<string, SQLInputValue>)?.state,
    raiseThere: (id: string, fence: bigint) =>
      database.prepare(RAISE_THERE).get({ $1: fence, $2: id }) !== undefined,
    read(id: string) {
      const query = database.prepare("select state, fence from orders where id = ?");
      query.setReadBigInts(true);
      const row = query.get(id);
      return row && [row.state, row.fence];
    },
    [Symbol.dispose]: () => database.close(),
  };
}

Deno.test("docs/fencing.md: the update and the upsert reject a stale token and accept an equal one", () => {
  for (const kind of ["update", "upsert"] as const) {
    using orders = open(":memory:");
    orders.exec(SCHEMA);
    assertEquals(orders[kind]("42", "new", 5n), kind === "upsert", "the row is missing");
    orders.exec("insert or ignore into orders (id, state) values ('42', 'new')");
    assert(orders[kind]("42", "paid", 5n));
    assert(orders[kind]("42", "shipped", 5n), "one lease may write twice");
    assert(!orders[kind]("42", "late", 4n));
    assertEquals(orders.read("42"), ["shipped", 5n]);
    assert(orders[kind]("42", "almost", LAST - 1n)); // LAST - 1 and LAST are equal as floating-point numbers
    assert(orders[kind]("42", "last", LAST));
    assert(!orders[kind]("42", "late", LAST - 1n));
    assertEquals(orders.read("42"), ["last", LAST]);
  }
});

Deno.test("docs/fencing.md: a table that exists gets a fence, which the first token exceeds", () => {
  using orders = open(":memory:");
  orders.exec("create table orders (id text primary key, state text not null)");
  orders.exec("insert into orders (id, state) values ('42', 'new')");
  orders.exec(ALTER);
  assertEquals(orders.read("42"), ["new", 0n]);
  assert(orders.update("42", "paid", 1n));
  assertEquals(orders.read("42"), ["paid", 1n]);
});

Deno.test("docs/fencing.md: the read raises the fence, so that the earlier holder cannot write", () => {
  using orders = open(":memory:");
  orders.exec(SCHEMA);
  orders.upsert("42", "paid", 5n);
  assertEquals(orders.raise("42", 6n), "paid");
  assert(!orders.update("42", "late", 5n), "the earlier holder cannot write");
  assertEquals(orders.raise("42", 5n), undefined);
  assertEquals(orders.raise("42", 6n), "paid");
});

Deno.test("docs/fencing.md: a late upsert makes a deleted row again, unless its fence is in a table of its own", () => {
  using orders = open(":memory:");
  orders.exec(SCHEMA);
  orders.exec(FENCES);
  orders.upsert("42", "paid", 5n);
  orders.exec("delete from orders where id = '42'");
  assert(orders.upsert("42", "late", 4n), "the limit that the page names");
  assert(orders.raiseThere("42", 5n));
  orders.exec("delete from orders where id = '42'");
  assert(!orders.raiseThere("42", 4n));
  assert(orders.raiseThere("42", 5n), "one lease may write twice");
  assert(orders.raiseThere("42", 6n));
});

Deno.test("docs/fencing.md: writes under shared leases do not lock each other out, and a later writer does", () => {
  using orders = open(":memory:");
  orders.exec(SCHEMA);
  orders.upsert("42", "new", 5n);
  assert(orders.check("42", "of reader B", 7n));
  assert(orders.check("42", "of reader A", 6n), "the fence was not raised");
  assertEquals(orders.read("42"), ["of reader A", 5n]);
  assertEquals(orders.raise("42", 8n), "of reader A");
  assert(!orders.check("42", "late", 7n));
  assertEquals(orders.read("42"), ["of reader A", 8n]);
});

Deno.test("docs/fencing.md: the upsert never goes back to a smaller token over two connections", async () => {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  try {
    using first = open(`${dir}/orders.db`);
    first.exec("pragma journal_mode = wal; pragma synchronous = off");
    first.exec(SCHEMA);
    using second = open(`${dir}/orders.db`);
    let greatest = -1n;
    for (let i = 0n; i < 400n; i++) {
      const token = (i * 7919n) % 400n; // each number once, in mixed order
      const isTaken = (i % 2n === 0n ? first : second).upsert("k", `of ${token}`, token);
      assertEquals(isTaken, token > greatest);
      if (isTaken) greatest = token;
      assertEquals(first.read("k"), [`of ${greatest}`, greatest]);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("docs/fencing.md: on MySQL a locking read tells whether the upsert was taken, as a snapshot may not know", () => {
  const statements = statementsOf("MySQL and MariaDB");
  assert(statements.some((sql) => /^select fence .* for update\n$/.test(sql)));
});
