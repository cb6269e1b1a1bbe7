import { assert, assertEquals } from "@std/assert";
import { ACQUIRE, type Script, STEAL } from "../../redis/_scripts.ts";
import { bundle, generate } from "../../tools/embed_lua.ts";
import { startRedis } from "../servers/redis.ts";

const SCRIPTS = new URL("../../redis/scripts/", import.meta.url);

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
    assert(source.split("\n").length <= 40, `${name} is too long`);
  }
});

Deno.test("the generated scripts hold what the sources say", () => {
  // The layout is checked by the gate; here only what the server will get.
  const text = generate();
  for (const { source, sha1 } of [ACQUIRE, STEAL]) {
    assert(text.includes(sha1));
    assert(text.includes(JSON.stringify(source.split("\n")[0])));
  }
});

Deno.test("an ask that is executed too late does nothing", async () => {
  await using server = await startRedis();
  const run = (script: Script, notAfterMs: number, last: string) =>
    server.command("EVAL", script.source, 2, "l", "f", "me", "n", 1_000, notAfterMs, last);
  for (const [script, last] of [[ACQUIRE, "take"], [STEAL, "victim"]] as const) {
    const [state, serverMs] = await run(script, Date.now() - 60_000, last) as number[];
    assertEquals(state, -1);
    assert(Math.abs(serverMs! - Date.now()) < 60_000);
    assertEquals(await server.command("EXISTS", "l", "f"), 0);
    const [taken] = await run(script, Date.now() + 60_000, last) as number[];
    assertEquals(taken, 1);
    await server.command("DEL", "l", "f");
  }
});

Deno.test("a replayed ask prolongs but never shortens, and keeps its token", async () => {
  await using server = await startRedis();
  const run = (ttlMs: number, nonce = "n") =>
    server.command("EVAL", ACQUIRE.source, 2, "l", "f", "me", nonce, ttlMs, 0, "take") as Promise<
      number[]
    >;
  const [, , , token] = await run(60_000);
  const [state, , left, again] = await run(1_000);
  assertEquals([state, again], [1, token]);
  assert(left! > 50_000 && Number(await server.command("PTTL", "l")) > 50_000);
  const [taken, , , next] = await run(1_000, "m");
  assertEquals(taken, 1);
  assert(next! > token!, "a new call of the same owner is a new grant");
  assert(Number(await server.command("PTTL", "l")) > 50_000);
});

Deno.test("the last token outlives the lock by a minute and is forgotten then", async () => {
  await using server = await startRedis();
  await server.command("EVAL", ACQUIRE.source, 2, "l", "f", "me", "n", 5_000, 0, "take");
  const left = Number(await server.command("PTTL", "f"));
  assert(left > 60_000 && left <= 65_000, `${left} ms`);
});
