/**
 * The program of `docs/production.md` that stops at SIGTERM, while another process has its lock.
 */
import { assertEquals } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { userImports } from "../../tools/import_map.ts";
import { documentedSnippets } from "../../tools/docs/snippets.ts";

const LOCK = "nightly-report";

Deno.test("docs/production.md: a SIGTERM while the program waits for its lock is not a failure", async () => {
  const [snippet, ...others] = documentedSnippets().filter(({ file, code }) =>
    file.endsWith("production.md") && code.includes("SIGTERM")
  );
  assertEquals(others, []);
  await using server = await startRedis();
  const { client, close } = await openRedisClient("ioredis", server.url);
  await using stack = new AsyncDisposableStack();
  stack.defer(close);
  const locks = stack.use(new RedisLock(client));
  await locks.acquire(LOCK);
  const script = await Deno.makeTempFile({ suffix: ".js" });
  stack.defer(() => Deno.remove(script));
  await Deno.writeTextFile(script, snippet!.code.replace("6379", String(server.port)));
  const map = encodeURIComponent(JSON.stringify({ imports: await userImports() }));
  const args = ["run", "-A", "-q", `--import-map=data:application/json,${map}`, script];
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  const { signal } = ending;
  const child = new Deno.Command(Deno.execPath(), { args, signal, stderr: "piped" }).spawn();
  await waitUntil("the program waits", async () => (await locks.query(LOCK)).waiterCount === 1);
  child.kill("SIGTERM");
  const { code, stderr } = await within("the program ends", child.output());
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
});
