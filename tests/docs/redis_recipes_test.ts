/** Programs of `docs/recipes.md` in what can go wrong. `tests/npm/` runs them as they are. */
import { assert } from "@std/assert";
import { DENO } from "../../testing/docs/snippet_runtimes.ts";
import { runSnippet } from "../../testing/docs/snippet_runs.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { documentedSnippets, type Snippet } from "../../tools/docs/snippets.ts";

const NO_OTHER_SERVICE = "http://127.0.0.1:1";

/** The only snippet of the page with this text, as a program that goes on with `code`. */
function programWith(text: string, replaced: string, code = ""): Snippet {
  const [snippet, ...others] = documentedSnippets().filter((snippet) =>
    snippet.file === "docs/recipes.md" && snippet.code.includes(text)
  );
  assert(snippet !== undefined && others.length === 0, `not one snippet with ${text}`);
  return {
    ...snippet,
    code: snippet.code.replace(text, replaced) + code,
    use: { kind: "program" },
  };
}

Deno.test("docs/recipes.md: an Idempotency-Key is answered again to its user, and to no other", async () => {
  const snippet = programWith(
    '(_request) => "user-7"',
    '(request) => request.get("X-User")',
    `
import assert from "node:assert/strict";
async function pay(user) {
  const headers = { "X-User": user, "Idempotency-Key": "6f1c0e5a-1", connection: "close" };
  const answer = await fetch("http://localhost:8080/payments", { method: "POST", headers });
  return (await answer.json()).payment;
}
const payment = await pay("a");
assert.equal(await pay("a"), payment);
assert.notEqual(await pay("b"), payment);
process.kill(process.pid, "SIGTERM");
`,
  );
  await runSnippet(snippet, DENO, { origin: NO_OTHER_SERVICE });
});

Deno.test("docs/recipes.md: a job of BullMQ comes later after an outage of the lock", async () => {
  await using server = await startRedis();
  const made = "new RedisLock(ioredis(client));";
  const snippet = programWith(
    `${made}\nconst queue`,
    `${made}
import { LockUnavailableError as Outage } from "@holdfast/lock";
const { tryAcquire } = locks;
let isOut = true;
queueMicrotask(() => worker.on("failed", () => globalThis.process.exit(1)));
locks.tryAcquire = (...args) => {
  if (!isOut) return tryAcquire.apply(locks, args);
  isOut = false;
  return Promise.reject(new Outage("Cannot reach the service"));
};
const queue`,
  );
  const place = { address: String(server.port), origin: NO_OTHER_SERVICE };
  await runSnippet(snippet, DENO, place);
});
