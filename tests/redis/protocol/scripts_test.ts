import { assert, assertEquals } from "@std/assert";
import { ASK, LEAVE, RENEW, type Script, STEAL } from "../../../redis/protocol/scripts.ts";
import { bundle, generate } from "../../../tools/embed_lua.ts";
import { startRedis } from "../../../testing/servers/redis.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";

const SCRIPTS = new URL("../../../redis/protocol/scripts/", import.meta.url);

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, SCRIPTS));
}

function used(text: string, kind: "KEYS" | "ARGV"): string[] {
  return [...new Set(text.match(new RegExp(`${kind}\\[[0-9]+\\]`, "g")))].sort();
}

Deno.test("the scripts' headers name the keys and arguments that they use", () => {
  for (const { name } of Deno.readDirSync(SCRIPTS)) {
    if (name.startsWith("_")) continue;
    const source = read(name);
    const header = source.slice(0, source.search(/^[^-]/m));
    const code = bundle(source, read);
    for (const kind of ["KEYS", "ARGV"] as const) {
      assertEquals(used(header, kind), used(code, kind), `${name}: ${kind}`);
    }
    assert(!/KEYS\[[^0-9]|ipairs\(KEYS/.test(code), `${name} computes a key`);
    assert(/^-- Returns/m.test(header), `${name} does not say what it returns`);
    const lines = source.split("\n").filter((line) => !line.startsWith("-- "));
    assert(lines.length <= 40, `${name} is too long`);
  }
});

Deno.test("the generated scripts hold what the sources say", () => {
  // The layout is checked by the gate; here only what the server will get.
  const text = generate();
  for (const { source, sha1 } of [ASK, STEAL]) {
    assert(text.includes(sha1));
    assert(text.includes(JSON.stringify(source.split("\n")[0])));
  }
});

interface AskArgs {
  owner: string;
  nonce?: string;
  ttlMs?: number;
  notAfterMs?: number;
  mode?: "wait" | "try" | "attach";
  inbox?: string;
  listens?: boolean;
  ticket?: number;
}

/** The scripts on a real server, without a client's help. */
async function open() {
  const server = await startRedis();
  const run = (script: Script, ...args: (string | number)[]) =>
    server.command("EVAL", script.source, 4, "l", "q", "w", "f", ...args) as Promise<number[]>;
  const ask = ({ owner, mode = "wait", inbox = "-i", ...more }: AskArgs) => {
    const { nonce = "n", ttlMs = 5_000, notAfterMs = 0, listens = false, ticket = 0 } = more;
    const claimMs = Math.min(ttlMs, 3_000);
    const place = [mode, claimMs, inbox, listens ? 1 : 0, ticket];
    return run(ASK, owner, nonce, ttlMs, notAfterMs, ...place);
  };
  const leave = async (owner: string, tombstoneMs = 0, handoff = 1) =>
    (await run(LEAVE, `${owner}#n`, tombstoneMs, handoff))[0];
  const holder = () => server.command("GET", "l");
  /** Nothing that waits is kept for ever. */
  const isMortal = async () => {
    for (const key of ["q", "w"]) {
      const leftMs = Number(await server.command("PTTL", key));
      assert(leftMs > 0 && leftMs <= 30_000, `${key} lives for ${leftMs} ms`);
    }
  };
  const queue = () => server.command("ZRANGE", "q", 0, -1);
  return { ...server, run, ask, leave, holder, isMortal, queue, command: server.command };
}

Deno.test("an ask or a steal that is executed too late does nothing", async () => {
  await using redis = await open();
  for (const late of [true, false]) {
    const notAfterMs = Date.now() + (late ? -60_000 : 60_000);
    const [state, serverMs] = await redis.ask({ owner: "a", notAfterMs });
    assertEquals(state, late ? -1 : 1);
    assert(Math.abs(serverMs! - Date.now()) < 60_000);
    await redis.command("DEL", "l", "f");
    const [stolen] = await redis.run(STEAL, "a", "n", 1_000, notAfterMs, "victim");
    assertEquals(stolen, late ? -1 : 1);
    assertEquals(await redis.command("EXISTS", "l"), late ? 0 : 1);
    await redis.command("DEL", "l", "f");
  }
});

Deno.test("a replayed ask prolongs but never shortens, and keeps its token", async () => {
  await using redis = await open();
  const [, , , token] = await redis.ask({ owner: "a", ttlMs: 60_000 });
  const [state, , left, again] = await redis.ask({ owner: "a", ttlMs: 1_000 });
  assertEquals([state, again], [1, token]);
  assert(left! > 50_000 && Number(await redis.command("PTTL", "l")) > 50_000);
  const [taken, , , next] = await redis.ask({ owner: "a", nonce: "m", ttlMs: 1_000 });
  assertEquals(taken, 1);
  assert(BigInt(next!) > BigInt(token!), "a new call of the same owner is a new grant");
  assert(Number(await redis.command("PTTL", "l")) > 50_000);
});

Deno.test("the last token outlives the lock by a minute and is forgotten then", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  const left = Number(await redis.command("PTTL", "f"));
  assert(left > 60_000 && left <= 65_000, `${left} ms`);
});

Deno.test("a release hands over to the first waiter, and leaves nothing when all have gone", async () => {
  await using redis = await open();
  assertEquals((await redis.ask({ owner: "a" }))[0], 1);
  for (const [i, owner] of ["b", "c", "d"].entries()) {
    const [state, , left, ticket, position, waiters, , ours] = await redis.ask({ owner });
    assertEquals([state, ticket, position, waiters], [2, i + 1, i + 1, i + 1]);
    assertEquals((await redis.ask({ owner, ticket: i + 1 }))[6], i + 1, "known of this inbox");
    assert(left! > 4_000 && ours === 0); // "n" is no nonce of ours
  }
  assertEquals(await redis.leave("c"), -1);
  assertEquals(await redis.leave("a"), 1);
  assertEquals(await redis.holder(), "b#n");
  assert(Number(await redis.command("PTTL", "l")) <= 3_000, "a claim");
  assertEquals(await redis.queue(), ["d#n"]);
  assertEquals(await redis.leave("a"), -1, "a release is done once");
  assertEquals(await redis.leave("b"), 1);
  assertEquals(await redis.leave("d"), 1);
  assertEquals(await redis.command("KEYS", "*"), ["f"]);
});

Deno.test("nobody barges past those who wait", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  await redis.command("DEL", "l"); // as its expiry does
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], 0);
  assertEquals(await redis.holder(), "b#n");
  await redis.command("DEL", "l");
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], 1, "nobody waits any more");
});

Deno.test("a waiter comes back to its place, and moves forward only", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  await redis.ask({ owner: "c" });
  await redis.ask({ owner: "d" });
  await redis.command("ZREM", "q", "c#n"); // as its parking does
  const [, , , ticket, position] = await redis.ask({ owner: "c" });
  assertEquals([ticket, position], [2, 2], "the server kept the ticket");
  await redis.leave("c");
  assertEquals((await redis.ask({ owner: "c", ticket: 2 }))[4], 2, "the waiter kept the ticket");
  assertEquals((await redis.ask({ owner: "c", ticket: 9 }))[4], 2, "never back");
  assertEquals(await redis.queue(), ["b#n", "c#n", "d#n"]);
});

Deno.test("tickets that are still about come before new ones when the queue was lost", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "c", ticket: 41 });
  await redis.ask({ owner: "new" });
  await redis.ask({ owner: "b", ticket: 40 });
  assertEquals(await redis.queue(), ["b#n", "c#n", "new#n"]);
});

Deno.test("a tombstone refuses the asks of one that has left", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  assertEquals(await redis.leave("a", 200), 1);
  assertEquals((await redis.ask({ owner: "a" }))[0], -2);
  assertEquals((await redis.run(STEAL, "a", "n", 1_000, 0, "x"))[0], -2);
  assertEquals(await redis.holder(), null);
  await waitUntil("it is forgotten", async () => (await redis.ask({ owner: "a" }))[0] === 1);
  assertEquals(await redis.leave("a", 60_000), 1);
  assertEquals((await redis.ask({ owner: "a", nonce: "m" }))[0], 1, "another call is not meant");
});

Deno.test("waiters whose inbox has no lease, or no listener, are passed over", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "dead", inbox: "dead" });
  await redis.command("HSET", "w", "idead", 1);
  await redis.ask({ owner: "deaf", inbox: "deaf" });
  await redis.command("HSET", "w", "pdeaf", 1); // it had proved that it listened
  await redis.ask({ owner: "quiet", inbox: "quiet" }); // it has not proved anything yet
  await redis.leave("a");
  assertEquals(await redis.holder(), "quiet#n");
  await redis.leave("quiet");
  assertEquals(await redis.holder(), null);
  const [state] = await redis.ask({ owner: "deaf", inbox: "deaf" });
  assertEquals(state, 1, "a deaf one that asks is alive");
});

Deno.test("if nobody listens all keep their places, and the first one gets a short claim", async () => {
  await using redis = await open();
  const owners = ["b", "c", "d"];
  await redis.ask({ owner: "a" });
  for (const owner of owners) await redis.ask({ owner, inbox: owner });
  for (const inbox of owners) await redis.command("HSET", "w", `p${inbox}`, 1);
  await redis.leave("a");
  assertEquals(await redis.holder(), "b#n");
  assert(Number(await redis.command("PTTL", "l")) <= 1_000);
  assertEquals(await redis.queue(), ["c#n", "d#n"]);
  await redis.isMortal();
  assertEquals((await redis.ask({ owner: "b", inbox: "b", ticket: 1 }))[0], 1, "it is back");
  assert(Number(await redis.command("PTTL", "l")) > 4_000);
  await redis.leave("b", 0, 0);
  assertEquals(await redis.holder(), null);
  assertEquals(await redis.queue(), ["c#n", "d#n"], "without handoff, too");
  await redis.ask({ owner: "late", mode: "try" });
  assertEquals(await redis.holder(), "c#n", "nobody barges");
  await redis.command("DEL", "l"); // its claim has run out
  assertEquals((await redis.ask({ owner: "new", inbox: "new" }))[0], 1, "one that asks is alive");
  assertEquals(await redis.queue(), []);
});

Deno.test("an inbox that let a claim run out is parked whole", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 5; i++) await redis.ask({ owner: `frozen${i}`, inbox: "frozen" });
  await redis.ask({ owner: "b", inbox: "b" });
  await redis.leave("a");
  assertEquals(await redis.holder(), "frozen0#n");
  await redis.command("DEL", "l"); // its claim has run out
  assertEquals((await redis.ask({ owner: "c", mode: "try" }))[0], 0);
  assertEquals(await redis.holder(), "b#n");
});

Deno.test("an inbox that was parked whole comes back before those who came since", async () => {
  await using redis = await open();
  const back = [1, 2, 3].map((ticket) => ({ owner: `frozen${ticket}`, inbox: "frozen", ticket }));
  await redis.ask({ owner: "a" });
  for (const { owner, inbox } of back) await redis.ask({ owner, inbox });
  await redis.leave("a");
  await redis.command("DEL", "l"); // its claim has run out
  // Nobody is in the queue, and one that comes finds the lock free; so does the next.
  assertEquals((await redis.ask({ owner: "b", inbox: "b" }))[0], 1);
  await redis.leave("b");
  assertEquals((await redis.ask({ owner: "c", inbox: "c" }))[0], 1);
  for (const owner of ["d", "e"]) await redis.ask({ owner, inbox: owner });
  for (const ask of back) await redis.ask(ask);
  assertEquals(await redis.queue(), ["frozen1#n", "frozen2#n", "frozen3#n", "d#n", "e#n"]);
  await redis.isMortal();
});

Deno.test("a confirmed holder that dies costs its inbox nothing", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b", inbox: "i" });
  await redis.ask({ owner: "c", inbox: "i" });
  await redis.leave("a");
  assertEquals((await redis.run(RENEW, "b#n", 5_000))[0], 1);
  await redis.command("DEL", "l");
  await redis.ask({ owner: "d", mode: "try" });
  assertEquals(await redis.holder(), "c#n");
});

Deno.test("without handoff a release frees the lock and keeps the queue", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  assertEquals(await redis.leave("a", 0, 0), 1);
  assertEquals(await redis.holder(), null);
  assertEquals(await redis.queue(), ["b#n"]);
  await redis.isMortal();
  assertEquals((await redis.ask({ owner: "b" }))[0], 1);
});

Deno.test("what the dead have left is swept", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  for (let i = 0; i < 200; i++) {
    await redis.ask({ owner: `gone${i}`, inbox: `gone${i}` });
    await redis.command("HSET", "w", `pgone${i}`, 1);
  }
  await redis.ask({ owner: "b" });
  await redis.leave("a");
  assertEquals(await redis.holder(), "b#n", "the others do not listen");
  assertEquals(await redis.queue(), []);
  await redis.leave("b");
  for (let i = 0; i < 200; i++) await redis.command("HSET", "w", `igone${i}`, 1);
  for (let i = 0; i < 64; i++) await redis.ask({ owner: `b${i}` });
  const fields = await redis.command("HKEYS", "w") as string[];
  assertEquals(fields.filter((field) => field.includes("gone")), []);
});

Deno.test("a handover goes through while memory is full", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b" });
  await redis.command("CONFIG", "SET", "maxmemory", 1);
  assertEquals(await redis.leave("a"), 1);
  assertEquals(await redis.holder(), "b#n");
  const refused = await redis.ask({ owner: "c" }).then(() => "", (error) => error.message);
  assert(refused.includes("OOM"), refused);
  assertEquals(await redis.queue(), []);
  await redis.command("CONFIG", "SET", "maxmemory", 0);
  for (const owner of ["c", "d"]) await redis.ask({ owner, inbox: owner });
  await redis.command("CONFIG", "SET", "maxmemory", 1);
  await redis.command("DEL", "l"); // b's claim has run out, and its inbox is parked
  assertEquals(await redis.leave("c"), 0);
  assertEquals(await redis.holder(), "d#n");
  await redis.command("CONFIG", "SET", "maxmemory", 0);
});

Deno.test("an owner id that takes over while it waits is out of the queue", async () => {
  await using redis = await open();
  await redis.ask({ owner: "a" });
  await redis.ask({ owner: "b", nonce: "1" });
  await redis.ask({ owner: "b", nonce: "2" });
  await redis.leave("a");
  assertEquals(await redis.holder(), "b#1");
  assertEquals((await redis.ask({ owner: "b", nonce: "2", ticket: 2 }))[0], 1);
  assertEquals([await redis.holder(), await redis.queue()], ["b#2", []]);
});
