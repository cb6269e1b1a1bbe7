/** For each kind of body: when the lock is released, and whether the body arrives unchanged. */
import { assertEquals, assertRejects } from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import { fetchLock } from "../../http/mod.ts";
import { MemoryLock } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

const encoder = new TextEncoder();

/** Sends a body through `fetchLock()`. Returns whether the lock is held before the body is read. */
async function send(make: () => BodyInit | null): Promise<[isHeld: boolean, Response]> {
  const locks = new MemoryLock();
  const init = { status: 201, headers: { "content-type": "text/x-test" } };
  const handler = fetchLock(locks, { key: "n" })(() => new Response(make(), init));
  const response = await handler(new Request("http://localhost/"));
  assertEquals([response.status, response.headers.get("content-type")], [201, "text/x-test"]);
  const { holders } = await locks.query("n");
  return [holders.length > 0, response];
}

/** A stream of these chunks. Each comes after that many turns of the event loop. */
function stream(chunks: readonly (string | Error)[], turns: number): ReadableStream {
  let next = 0;
  return new ReadableStream({
    async pull(controller) {
      for (let i = 0; i < turns; i++) await turn();
      const chunk = chunks[next++];
      if (chunk === undefined) controller.close();
      else if (typeof chunk === "string") controller.enqueue(encoder.encode(chunk));
      else controller.error(chunk);
    },
  });
}

const WHOLE: Record<string, () => BodyInit | null> = {
  "text": () => "text äöü",
  "bytes": () => encoder.encode("text äöü"),
  "a blob": () => new Blob(["text ", "äöü"]),
};

for (const [name, make] of Object.entries(WHOLE)) {
  Deno.test(`fetchLock() passes on a body of ${name} unchanged`, async () => {
    const [, response] = await send(make);
    assertEquals(await response.text(), "text äöü");
  });
}

Deno.test("fetchLock() frees the lock when the client has left before a stream that no server reads or cancels", async () => {
  for (const when of ["before", "after"]) {
    await using locks = new MemoryLock();
    const client = new AbortController();
    let isCancelled = false;
    const options = { key: "key", maxHoldMs: 10 * CONDITION_BOUND_MS };
    const handler = fetchLock(locks, options)(() => {
      if (when === "before") client.abort();
      return new Response(
        new ReadableStream({
          pull: () => new Promise(() => {}),
          cancel: () => void (isCancelled = true),
        }),
      );
    });
    await handler(new Request("http://localhost/", { signal: client.signal }));
    if (when === "after") client.abort(); // outer middleware still works: nobody reads yet
    const isFree = async () => (await locks.query("key")).holders.length === 0;
    await waitUntil(`the lock is free: ${when}`, isFree);
    assertEquals(isCancelled, true);
  }
});

Deno.test("fetchLock() frees the lock before it returns a complete body, and keeps its content-length", async () => {
  assertEquals((await send(() => "text"))[0], false);
  assertEquals((await send(() => null))[0], false);
  assertEquals((await send(() => ""))[0], false);
  const handler = fetchLock(new MemoryLock(), { key: "n" })(() => new Response("text"));
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (r) => handler(r));
  const response = await fetch(`http://127.0.0.1:${server.addr.port}`);
  assertEquals([response.headers.get("content-length"), await response.text()], ["4", "text"]);
  const head = await fetch(`http://127.0.0.1:${server.addr.port}`, { method: "HEAD" });
  assertEquals([head.headers.get("content-length"), await head.text()], ["4", ""]);
  await server.shutdown();
});

for (const turns of [0, 1]) {
  Deno.test(`fetchLock() holds the lock until a stream was read, ${turns} turns per chunk`, async () => {
    const chunks = ["one ", "two ", "three ", "four"];
    const [isHeld, response] = await send(() => stream(chunks, turns));
    assertEquals(isHeld, true);
    assertEquals(await response.text(), chunks.join(""));
  });

  Deno.test(`fetchLock() passes on the error of a stream, ${turns} turns per chunk`, async () => {
    for (const before of [[], ["one"], ["one", "two", "three"]]) {
      const [, response] = await send(() => stream([...before, new Error("broken")], turns));
      await assertRejects(() => response.text(), Error, "broken");
    }
  });

  Deno.test(`fetchLock() passes on an empty stream, ${turns} turns to its end`, async () => {
    const [, response] = await send(() => stream([], turns));
    assertEquals(await response.text(), "");
  });
}

Deno.test("fetchLock() cancels the handler's stream when its reader cancels", async () => {
  let cancelled: unknown = null;
  const endless = () =>
    new ReadableStream({
      pull: (controller) => controller.enqueue(encoder.encode("x")),
      cancel: (reason) => void (cancelled = reason),
    });
  const [isHeld, response] = await send(endless);
  assertEquals([isHeld, cancelled], [true, null]);
  await response.body!.cancel("enough");
  assertEquals(cancelled, "enough");
});

Deno.test("fetchLock() rejects and frees the lock when a handler returns no response or a used body", async () => {
  await using locks = new MemoryLock();
  const used = () => {
    const response = new Response("read by somebody else");
    response.body!.getReader();
    return response;
  };
  const others = [undefined, null, {}, [], "text", { status: 200, body: "text" }];
  const handlers = [used, ...others.map((value) => () => value as unknown as Response)];
  for (const [i, respond] of handlers.entries()) {
    for (const options of [{ key: "n", fencingHeader: "Fencing-Token" }, { key: "n" }]) {
      const answer = fetchLock(locks, options)(respond)(new Request("http://localhost/"));
      // Without a header to add, a body with another reader passes: somebody else follows it.
      if (i === 0 && !("fencingHeader" in options)) await answer;
      else if (i === 0) await assertRejects(() => answer, TypeError);
      else await assertRejects(() => answer, TypeError, "its handler must return a Response");
      assertEquals((await locks.query("n")).holders, []);
    }
  }
});

Deno.test("fetchLock() passes on a response of another realm or package, with the token", async () => {
  await using locks = new MemoryLock();
  const { status, headers, body } = new Response("text", { status: 201 });
  const foreign = { status, headers, body } as Response;
  const options = { key: "n", fencingHeader: "Fencing-Token" };
  const response = await fetchLock(locks, options)(() => foreign)(new Request("http://localhost/"));
  assertEquals([response.status, response.headers.get("fencing-token")], [201, "1"]);
  assertEquals(await response.text(), "text");
});

Deno.test("fetchLock() releases the lock, and ends no process, when the stream of a HEAD request fails", async () => {
  await using locks = new MemoryLock();
  for (const turns of [0, 1]) {
    const handler = fetchLock(locks, { key: "n" })(() =>
      new Response(stream([new Error("broken")], turns))
    );
    const response = await handler(new Request("http://localhost/", { method: "HEAD" }));
    assertEquals([response.status, response.body], [200, null]);
    assertEquals((await locks.query("n")).holders, []);
    for (let i = 0; i < 5; i++) await turn(); // a rejection that nobody handles would fail the test
  }
});
