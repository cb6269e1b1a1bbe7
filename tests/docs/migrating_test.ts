/**
 * The tables of `docs/migrating.md`: an old option is refused here, and everything of ours exists.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type DistributedLock, MemoryLock } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";

const ROOT = new URL("../../", import.meta.url);
const PAGE = read("docs/migrating.md");
const API = new Set(read("docs/api.txt").match(/\w+/g));
/** Words in the code of the tables that are JavaScript, or the variables of the reader. */
const OTHERS = new Set(
  "await new null false aborted length TypeError RangeError locks lease client".split(" "),
);
const CLIENT = { send: () => Promise.reject(new Error("unused")), epoch: 0, cluster: false };

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, ROOT));
}

/** The rows of the tables whose head begins with a text, as cells. */
function rowsOf(page: string, head: RegExp): string[][] {
  return page.split(/\n{2,}/).filter((block) => head.test(block.trimStart())).flatMap((block) =>
    block.trim().split("\n").slice(2).map((line) =>
      line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
    )
  );
}

function codeIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
}

Deno.test("RedisLock refuses each old option of the page about migrating", () => {
  const rows = rowsOf(PAGE, /^\| option of /);
  const names = rows.flatMap(([old = ""]) => codeIn(old)).filter((name) => name !== "keyPrefix");
  assert(names.length >= 30, `${names.length} options: too few`);
  for (const name of names) {
    const error = assertThrows(() => new RedisLock(CLIENT, { [name]: 1 }), TypeError);
    assert(error.message.includes(`'${name}'`), error.message);
  }
});

Deno.test("the calls that the page about migrating names refuse an old option", async () => {
  const old: object = { retryCount: 1 };
  const redis = new RedisLock(CLIENT);
  await using memory = new MemoryLock();
  for (const locks of [redis, memory]) {
    await assertRejects(() => locks.acquire("n", old), TypeError, "retryCount");
    await assertRejects(() => locks.tryAcquire("n", old), TypeError, "retryCount");
    await assertRejects(() => locks.query("n", old), TypeError, "retryCount");
    const { request } = locks as DistributedLock;
    await assertRejects(() => request("n", old, () => {}), TypeError, "retryCount");
  }
  await assertRejects(() => redis.request("n", old, () => {}), TypeError, "retryCount");
  await assertRejects(() => memory.request("n", old, () => {}), TypeError, "retryCount");
  await assertRejects(() => redis.attach("n", crypto.randomUUID(), old), TypeError, "retryCount");
});

Deno.test("the rows of the page about migrating with ifAvailable run no callback without the lock", () => {
  const calls = rowsOf(PAGE, /^\| /).flatMap(([, ours = ""]) => codeIn(ours)).filter((code) =>
    /ifAvailable.*callback/.test(code)
  );
  assertEquals(calls.length, 2);
  for (const call of calls) assert(call.endsWith("(lease) => lease && callback())"), call);
});

Deno.test("everything of ours in the tables about migrating is in the public API", () => {
  const rows = rowsOf(
    PAGE,
    /^\| (?:option of )?(?:redlock|redis-semaphore|redlock-universal|redis-py|verrou|Cache::lock) /,
  );
  assert(rows.length > 60, `${rows.length} rows: too few`);
  const words = rows.flatMap(([, ours = ""]) => codeIn(ours)).flatMap((code) =>
    code.match(/[a-z]\w*/gi)!
  );
  assertEquals([...new Set(words)].filter((word) => !API.has(word) && !OTHERS.has(word)), []);
});
