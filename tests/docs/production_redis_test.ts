/**
 * The program of `docs/production.md` that stops at SIGTERM, while another process has its lock.
 */
import { assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { SHORT_DISPOSAL_MS } from "../../testing/time.ts";
import { userImports } from "../../tools/import_map.ts";
import { documentedSnippets } from "../../tools/docs/snippets.ts";

const LOCK = "nightly-report";

/** Starts the program on a new server, and resolves when it waits for its lock. */
async function startWaiting(edit: (code: string) => string = (code) => code) {
  const [snippet, ...others] = documentedSnippets().filter(({ file, code }) =>
    file.endsWith("production.md") && code.includes("SIGTERM")
  );
  assertEquals(others, []);
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const { client, close } = await openRedisClient("ioredis", server.url);
  stack.defer(close);
  const locks = stack.use(new RedisLock(client, { disposeTimeoutMs: SHORT_DISPOSAL_MS }));
  await locks.acquire(LOCK);
  const script = await Deno.makeTempFile({ suffix: ".js" });
  stack.defer(() => Deno.remove(script));
  await Deno.writeTextFile(script, edit(snippet!.code).replace("6379", String(server.port)));
  const map = encodeURIComponent(JSON.stringify({ imports: await userImports() }));
  const args = ["run", "-A", "-q", `--import-map=data:application/json,${map}`, script];
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  const { signal } = ending;
  const child = new Deno.Command(Deno.execPath(), { args, signal, stderr: "piped" }).spawn();
  await waitUntil("the program waits", async () => (await locks.query(LOCK)).waiterCount === 1);
  const owned = stack.move();
  return { server, child, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

Deno.test("docs/production.md: a SIGTERM while the program waits for its lock is not a failure", async () => {
  await using program = await startWaiting();
  program.child.kill("SIGTERM");
  const { code, stderr } = await within("the program ends", program.child.output());
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
});

Deno.test("docs/production.md: the program ends at SIGTERM also when Redis does not answer", async () => {
  await using program = await startWaiting((code) =>
    code.replace("10_000", `${SHORT_DISPOSAL_MS}`)
  );
  const { child, server } = program;
  await server.pause();
  child.kill("SIGTERM");
  const { code } = await within("the program ends", child.output());
  await server.resume();
  assertEquals(code, 0);
});
