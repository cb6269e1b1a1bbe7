// deno-lint-ignore-file no-console -- this is a script
// A server on Bun.serve whose routes are locked, and its clients. Prints a line for each part that works.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { MemoryLock } from "@holdfast/lock";
import { fetchLock } from "@holdfast/lock/http";

const locks = new MemoryLock();
const gate = Promise.withResolvers();
const streamGate = Promise.withResolvers();
const events = [];

const handler = fetchLock(locks, { key: "key", waitMs: 60_000 })(async (request, lease, server) => {
  const { pathname } = new URL(request.url);
  events.push(pathname);
  if (pathname === "/slow") await gate.promise;
  if (pathname === "/stream") {
    return new Response(
      new ReadableStream({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode("first "));
          await streamGate.promise;
          controller.enqueue(new TextEncoder().encode("last"));
          controller.close();
        },
      }),
    );
  }
  return new Response(`${lease.fencingToken} on ${server.port}`);
});
const impatient = fetchLock(locks, "key")(() => new Response("done"));
const brief = fetchLock(locks, { key: "key", maxHoldMs: 50 })(() => new Promise(() => {}));

const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  routes: { "/busy": impatient, "/brief": brief },
  fetch: handler,
});
const ask = async (path, init) => {
  const response = await fetch(new URL(path, server.url), init);
  return [response.status, await response.text()];
};
const isFree = async () => (await locks.query("key")).holders.length === 0;
const until = async (condition) => {
  for (let i = 0; i < 12_000 && !await condition(); i++) await pause(5);
  assert(await condition());
};

const parts = {
  async runs() {
    for (let i = 0; i < 3; i++) {
      assert.match((await ask("/"))[1], new RegExp(`^\\d+ on ${server.port}$`));
      assert(await isFree());
    }
  },
  async excludes() {
    const slow = ask("/slow");
    await until(() => events.includes("/slow"));
    assert.equal((await ask("/busy"))[0], 409);
    const waiting = ask("/waits");
    const controller = new AbortController();
    const left = ask("/left", { signal: controller.signal });
    await until(async () => (await locks.query("key")).waiterCount === 2);
    controller.abort();
    await assert.rejects(left);
    await until(async () => (await locks.query("key")).waiterCount === 1);
    gate.resolve();
    assert.equal((await slow)[0], 200);
    assert.equal((await waiting)[0], 200);
    assert(!events.includes("/left"), "a client that has left never runs the handler");
  },
  async streams() {
    const response = await fetch(new URL("/stream", server.url));
    const reader = response.body.getReader();
    await reader.read();
    assert.equal((await ask("/busy"))[0], 409);
    streamGate.resolve();
    while (!(await reader.read()).done);
    assert.deepEqual(await ask("/busy"), [200, "done"]);
  },
  async loses() {
    const [status, text] = await ask("/brief");
    assert.deepEqual([status, JSON.parse(text).title], [503, "Lease lost"]);
  },
};

for (const [name, part] of Object.entries(parts)) {
  await part();
  console.log(`ok ${name}`);
}
await server.stop();
await locks[Symbol.asyncDispose]();
console.log("end");
