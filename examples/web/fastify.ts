/**
 * An order endpoint on Fastify: `deno run -A examples/web/fastify.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import type { Lease } from "@holdfast/lock";
import { fastifyLock } from "@holdfast/lock/http/fastify";
import Fastify from "fastify";
import { openShop } from "./shop.ts";

await using shop = await openShop();
const app = Fastify();
await app.register(fastifyLock, { lock: shop.locks, waitMs: 2_000 }); // await it, before the routes

interface OrderRoute {
  Params: { id: string };
}

const key = (request: { params: unknown }) =>
  `orders:${(request.params as OrderRoute["Params"]).id}`;

// Decoded and validated: an order has many URLs, but one lock.
app.post<OrderRoute>(
  "/orders/:id(^[1-9][0-9]*$)",
  { config: { lock: key } },
  async (request, reply) => {
    const lease = request.getDecorator<Lease>("lease");
    const { status, body } = await shop.ship(request.params.id, lease);
    return reply.code(status).send(body);
  },
);

console.log(`Listening on ${await app.listen({ port: shop.port })}`);

await shop.closing;
await app.close();
