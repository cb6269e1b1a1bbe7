import { assert, assertEquals, assertThrows } from "@std/assert";
import { FENCE_HEADER, fencedHttp, fenceHeader, MemoryFences } from "../../fencing/mod.ts";
import { MemoryLock } from "../../mod.ts";

const LAST = 2n ** 63n - 1n;

/** A service behind `fencedHttp()`; `handled` has the paths and tokens that reached its handler. */
function serve() {
  const handled: [path: string, token: bigint][] = [];
  const pathOf = (request: Request) => new URL(request.url).pathname;
  const handler = fencedHttp(new MemoryFences(), pathOf)(async (request, token, info) => {
    assert(
      (info as Deno.ServeHandlerInfo).remoteAddr.transport === "tcp",
      "further arguments are passed on",
    );
    handled.push([pathOf(request), token]);
    return new Response(`${await request.text()} under ${token}`);
  });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request, info) => handler(request, info),
  );
  const put = async (path: string, headers: HeadersInit) => {
    const url = `http://127.0.0.1:${server.addr.port}${path}`;
    const response = await fetch(url, { method: "PUT", headers, body: "written" });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
  return { handled, put, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("fencedHttp() answers 412 when a greater token was seen for the same resource", async () => {
  await using service = serve();
  await using locks = new MemoryLock();
  const late = await locks.acquire("orders:42");
  await late.release();
  const lease = await locks.acquire("orders:42");
  const { status, body } = await service.put("/42", fenceHeader(lease));
  assertEquals([status, body], [200, `written under ${lease.fencingToken}`]);
  assertEquals((await service.put("/42", fenceHeader(lease))).status, 200, "an equal token");
  const refused = await service.put("/42", fenceHeader(late));
  assertEquals(refused.status, 412);
  assertEquals(refused.headers.get("content-type"), "application/problem+json");
  assertEquals(JSON.parse(refused.body).type, "urn:holdfast:problem:stale-token");
  assertEquals((await service.put("/43", fenceHeader(late))).status, 200, "another resource");
  assertEquals(service.handled.map(([path]) => path), ["/42", "/42", "/43"]);
});

Deno.test("fencedHttp() answers 428 without a token and 400 when the token is malformed", async () => {
  await using service = serve();
  const without = await service.put("/a", {});
  assertEquals([without.status, JSON.parse(without.body).status], [428, 428]);
  assertEquals(JSON.parse(without.body).type, "urn:holdfast:problem:token-required");
  const bad = ["", "x", "-1", "+1", "1.0", "0x1", "1e3", "1, 2", String(LAST + 1n), "9".repeat(40)];
  for (const text of bad) {
    const { status, body } = await service.put("/a", { [FENCE_HEADER]: text });
    assertEquals([status, JSON.parse(body).title], [400, "Bad fencing token"], text);
  }
  assertEquals(service.handled, []);
  for (const text of ["0", "007", String(LAST)]) {
    assertEquals((await service.put("/a", { "If-Fence": text })).status, 200, text);
  }
  assertEquals(service.handled.map(([, token]) => token), [0n, 7n, LAST]);
});

Deno.test("fencedHttp() never accepts a smaller token after a greater one when requests are concurrent", async () => {
  await using service = serve();
  const tokens = Array.from({ length: 200 }, (_, i) => BigInt((i * 7919) % 200));
  const answers = await Promise.all(
    tokens.map((fencingToken) => service.put("/a", fenceHeader({ fencingToken }))),
  );
  const accepted = answers.filter(({ status }) => status === 200).length;
  assertEquals(answers.filter(({ status }) => status === 412).length, 200 - accepted);
  const seen = service.handled.map(([, token]) => token);
  assertEquals(seen.length, accepted);
  assert(seen.every((token, i) => i === 0 || seen[i - 1]! <= token), "tokens never became smaller");
  assertEquals(seen.at(-1), 199n);
});

Deno.test("fencedHttp() with raise: false compares tokens and does not raise them", async () => {
  const fences = new MemoryFences();
  const respond = () => new Response(null, { status: 204 });
  const shared = fencedHttp(fences, () => "catalog", { raise: false })(respond);
  const exclusive = fencedHttp(fences, () => "catalog")(respond);
  const put = async (handler: typeof shared, fencingToken: bigint) => {
    const headers = fenceHeader({ fencingToken });
    return (await handler(new Request("http://localhost/", { method: "PUT", headers }))).status;
  };
  assertEquals([await put(shared, 7n), await put(shared, 6n)], [204, 204]);
  assertEquals(await put(exclusive, 7n), 204);
  assertEquals([await put(shared, 6n), await put(shared, 7n), await put(shared, 8n)], [
    412,
    204,
    204,
  ]);
  assertEquals(await put(exclusive, 7n), 204, "8 was not remembered");
  for (const options of [{ raises: false }, { raise: 0 }, null]) {
    assertThrows(
      () => fencedHttp(fences, () => "catalog", options as { raise?: boolean }),
      TypeError,
    );
  }
  const onlyRaises = { raise: () => Promise.resolve(true) } as unknown as MemoryFences;
  assertThrows(() => fencedHttp(onlyRaises, () => "catalog", { raise: false }), TypeError);
});

Deno.test("fenceHeader() and fencedHttp() throw for the promise of a lease, and for swapped arguments", () => {
  const promise = Promise.resolve({ fencingToken: 7n }) as unknown as { fencingToken: bigint };
  assertThrows(
    () => fenceHeader(promise),
    TypeError,
    "'lease.fencingToken', but it is of type undefined",
  );
  const wrap = fencedHttp as (...args: unknown[]) => unknown;
  assertThrows(
    () => wrap("orders", new MemoryFences()),
    TypeError,
    "a function that names the resource of a request, but they are a string and an object",
  );
});
