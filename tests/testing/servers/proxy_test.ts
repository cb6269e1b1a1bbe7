import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Client, connect, startEcho } from "../../../testing/servers/echo.ts";
import { freePort } from "../../../testing/servers/ports.ts";
import { type FaultProxy, startProxy } from "../../../testing/servers/proxy.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../../testing/time.ts";

async function exchange(client: Client, text: string): Promise<void> {
  const before = client.received;
  await client.send(text);
  await waitUntil(`the echo of ${text}`, () => client.received === before + text);
}

/** Forwards bytes to another server, the same way: those that were sent before would have arrived, too. */
async function othersAreServed(): Promise<void> {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  for (let i = 0; i < 20; i++) await isServed(proxy);
}

async function isServed(proxy: FaultProxy): Promise<boolean> {
  await using client = await connect(proxy);
  await exchange(client, "served");
  return true;
}

Deno.test("startProxy() forwards both ways, counts connections and passes on their ends", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  const first = await connect(proxy);
  await using second = await connect(proxy);
  await exchange(first, "one");
  await exchange(second, "two");
  assertEquals(proxy.connections, 2);
  await first[Symbol.asyncDispose]();
  await waitUntil("the first is closed", () => proxy.connections === 1 && echo.ended === 1);
  await exchange(second, "three");
});

Deno.test("startProxy() with connectForMs waits for a server that does not listen yet", async () => {
  const port = freePort();
  await using proxy = startProxy({ hostname: "127.0.0.1", port, connectForMs: CONDITION_BOUND_MS });
  await using client = await connect(proxy);
  await client.send("early");
  await waitUntil("the proxy has accepted it", () => proxy.connections === 1);
  await othersAreServed();
  assertEquals(client.hasEnded, false);
  using listener = Deno.listen({ hostname: "127.0.0.1", port });
  using server = await listener.accept();
  const chunk = new Uint8Array(5);
  await server.read(chunk);
  assertEquals(new TextDecoder().decode(chunk), "early");
});

Deno.test("blackHole(both) swallows all bytes and keeps connections open until heal()", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  await exchange(client, "before");
  proxy.blackHole("both");
  await client.send("lost");
  await using late = await connect(proxy);
  await late.send("lost");
  await othersAreServed();
  assertEquals([echo.received, client.received, late.received], ["before", "before", ""]);
  assertEquals([client.hasEnded, late.hasEnded, echo.ended], [false, false, 0]);
  assertEquals(proxy.connections, 2);
  proxy.heal();
  await waitUntil("both are closed", () => client.hasEnded && late.hasEnded && echo.ended === 1);
  assertEquals(proxy.connections, 0);
  assert(await isServed(proxy));
});

Deno.test("blackHole(to-client) lets requests through", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.blackHole("to-client");
  await client.send("a");
  await waitUntil("the server gets it", () => echo.received === "a");
  await using late = await connect(proxy);
  await late.send("b");
  await waitUntil("the server gets that, too", () => echo.received === "ab");
  await othersAreServed();
  assertEquals(client.received + late.received, "");
  proxy.heal();
  await waitUntil("both are closed", () => client.hasEnded && late.hasEnded);
});

Deno.test("blackHole(to-server) hides that the client has closed its connection", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  const client = await connect(proxy);
  await exchange(client, "a");
  proxy.blackHole("to-server");
  await client.send("b");
  await client[Symbol.asyncDispose]();
  await othersAreServed();
  assertEquals([echo.received, echo.ended], ["a", 0]);
  proxy.heal();
  await waitUntil("the server's end is closed", () => echo.ended === 1);
});

Deno.test("blackHole(both) hides that the server is out of reach", async () => {
  await using proxy = startProxy({ hostname: "127.0.0.1", port: 1 });
  proxy.blackHole("both");
  await using client = await connect(proxy);
  await client.send("a");
  await othersAreServed();
  assertEquals(client.hasEnded, false);
  proxy.heal();
  await waitUntil("the client is closed", () => client.hasEnded);
});

Deno.test("cutAll() closes open connections and accepts new ones", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  await exchange(client, "a");
  proxy.cutAll();
  await waitUntil("both ends are closed", () => client.hasEnded && echo.ended === 1);
  assertEquals(proxy.connections, 0);
  assert(await isServed(proxy));
});

Deno.test("refuse() refuses new connections on the same port and keeps open ones", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  await exchange(client, "a");
  await proxy.refuse(true);
  await assertRejects(() => connect(proxy), Deno.errors.ConnectionRefused);
  await exchange(client, "b");
  await proxy.refuse(false);
  assert(await isServed(proxy));
});

Deno.test("refuse() waits for a copy of its socket that a starting child still has", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await proxy.refuse(true);
  const copy = Deno.listen({ hostname: proxy.hostname, port: proxy.port });
  const accepts = proxy.refuse(false); // tries at once
  copy.close();
  await accepts;
  assert(await isServed(proxy));
});

Deno.test("onRequest() and onReply() see every chunk with its connection", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  const seen: string[] = [];
  proxy.onRequest = (chunk, { id }) => {
    seen.push(`${id}> ${new TextDecoder().decode(chunk)}`);
    return "pass";
  };
  proxy.onReply = (chunk, { id }) => {
    seen.push(`${id}< ${new TextDecoder().decode(chunk)}`);
    return "pass";
  };
  await using first = await connect(proxy);
  await exchange(first, "a");
  await using second = await connect(proxy);
  await exchange(second, "b");
  proxy.onRequest = undefined;
  await exchange(first, "c");
  assertEquals(seen, ["1> a", "1< a", "2> b", "2< b", "1< c"]);
});

Deno.test("onReply() with drop swallows the reply and all later ones of its connection", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  await exchange(client, "a");
  let cut = () => {};
  proxy.onReply = (_chunk, connection) => {
    cut = () => connection.cut();
    return "drop";
  };
  await client.send("b");
  await waitUntil("the server gets it", () => echo.received === "ab");
  proxy.onReply = undefined;
  await client.send("c");
  await waitUntil("the server gets that, too", () => echo.received === "abc");
  assert(await isServed(proxy));
  assertEquals([client.received, client.hasEnded], ["a", false]);
  cut();
  await waitUntil("it is closed", () => client.hasEnded);
});

Deno.test("onReply() with cut closes the connection after the server has received the request", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.onReply = () => "cut";
  await client.send("a");
  await waitUntil("it is closed", () => client.hasEnded);
  assertEquals([client.received, echo.received], ["", "a"]);
});

Deno.test("onReply() with cutAfterBytes delivers the beginning of the reply, then closes the connection", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.onReply = () => ({ cutAfterBytes: 3 });
  await client.send("abcdef");
  await waitUntil("it is closed", () => client.hasEnded);
  assertEquals([client.received, echo.received], ["abc", "abcdef"]);
});

Deno.test("onRequest() with cut closes the connection before the server receives the request", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.onRequest = () => "cut";
  await client.send("a");
  await waitUntil("it is closed", () => client.hasEnded && echo.ended === 1);
  assertEquals(echo.received, "");
});

Deno.test("onReply() with delayMs delays the reply and those after it", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  let isFirst = true;
  proxy.onReply = () => {
    const verdict = isFirst ? { delayMs: 200 } : "pass";
    isFirst = false;
    return verdict;
  };
  const startedAt = performance.now();
  await client.send("a");
  await waitUntil("the server gets it", () => echo.received === "a");
  await client.send("b");
  await waitUntil("both replies", () => client.received === "ab");
  assert(performance.now() - startedAt >= 195);
});

Deno.test("onReply() with byteEveryMs delivers the reply byte by byte", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.onReply = () => ({ byteEveryMs: 20 });
  const seen = new Set<string>();
  await client.send("slow");
  await waitUntil("the echo", () => seen.add(client.received).has("slow"));
  assert(seen.size > 2, [...seen].join());
});

Deno.test("onReply() with until holds the reply back until a promise resolves or the connection is cut", async () => {
  await using echo = startEcho();
  await using proxy = startProxy(echo);
  for (const isCut of [false, true]) {
    await using client = await connect(proxy);
    const { promise: until, resolve } = Promise.withResolvers<void>();
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    proxy.onReply = () => (arrive(), { until });
    await client.send("a");
    await arrived;
    assertEquals(client.received, "");
    if (isCut) proxy.cutAll();
    else resolve();
    await waitUntil("it is over", () => isCut ? client.hasEnded : client.received === "a");
    assertEquals(client.received, isCut ? "" : "a");
  }
});

Deno.test("startProxy() ends connections and delays on disposal", async () => {
  await using echo = startEcho();
  const proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.onReply = () => ({ delayMs: 600_000 });
  await client.send("a");
  await waitUntil("the server gets it", () => echo.received === "a");
  await proxy[Symbol.asyncDispose]();
  await waitUntil("it is closed", () => client.hasEnded);
});

Deno.test("startProxy() closes connections when the server is out of reach", async () => {
  await using proxy = startProxy({ hostname: "127.0.0.1", port: 1 });
  await using client = await connect(proxy);
  await waitUntil("it is closed", () => client.hasEnded);
  assertEquals(proxy.connections, 0);
});

Deno.test("startProxy() closes the connection when a hook throws, and its disposal rejects with the error", async () => {
  await using echo = startEcho();
  const proxy = startProxy(echo);
  await using client = await connect(proxy);
  proxy.onRequest = () => {
    throw new Error("A mistake in the test");
  };
  await client.send("a");
  await waitUntil("it is closed", () => client.hasEnded);
  await assertRejects(() => proxy[Symbol.asyncDispose](), Error, "A mistake in the test");
});

Deno.test("blackHole(to-client) hides that the server has closed its connection", async () => {
  const echo = startEcho();
  await using proxy = startProxy(echo);
  await using client = await connect(proxy);
  await exchange(client, "a");
  proxy.blackHole("to-client");
  echo.endAll();
  await waitUntil("the server has closed it", () => echo.ended === 1);
  for (let i = 0; i < 5; i++) {
    await client.send("b");
    await othersAreServed();
  }
  assertEquals([client.received, client.hasEnded], ["a", false]);
  proxy.heal();
  await waitUntil("the client is closed", () => client.hasEnded);
  await echo[Symbol.asyncDispose]();
});
