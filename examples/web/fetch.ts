/**
 * An order endpoint on `Deno.serve`: `deno run -A examples/web/fetch.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fetchLock } from "@holdfast/lock/http";
import { openShop } from "./shop.ts";

await using shop = await openShop();

const route = new URLPattern({ pathname: "/orders/:id" });
const idOf = ({ url }: Request) => route.exec(url)!.pathname.groups.id!;

const ship = fetchLock(shop.locks, {
  key: (request) => `orders:${idOf(request)}`,
  waitMs: 2_000, // then the answer is 409, with Retry-After
})(async (request, lease) => {
  const { status, body } = await shop.ship(idOf(request), lease);
  return Response.json(body, { status });
});

const server = Deno.serve({
  port: shop.port,
  onListen: ({ port }) => console.log(`Listening on http://localhost:${port}`),
}, (request) => {
  if (request.method === "POST" && route.test(request.url)) return ship(request);
  return new Response("Not found", { status: 404 });
});

await shop.closing;
await server.shutdown(); // waits until all requests are answered and their locks released
