/**
 * An order endpoint on `Deno.serve`: `deno run -A examples/web/fetch.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fetchLock } from "@holdfast/lock/http";
import { openShop, orderIn } from "./shop.ts";

await using shop = await openShop();

const orderOf = ({ url }: Request) => orderIn(new URL(url).pathname);

const ship = fetchLock(shop.locks, {
  key: (request) => `orders:${orderOf(request)}`,
  waitMs: 2_000, // then the answer is 409, with Retry-After
})(async (request, lease) => {
  const { status, body } = await shop.ship(orderOf(request), lease);
  return Response.json(body, { status });
});

const server = Deno.serve({
  port: shop.port,
  onListen: ({ port }) => console.log(`Listening on http://localhost:${port}`),
}, (request) => {
  if (request.method === "POST") return ship(request); // 404 if the path names no order
  return new Response("Not found", { status: 404 });
});

await shop.closing;
await server.shutdown(); // waits until all requests are answered and their locks released
