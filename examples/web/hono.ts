/**
 * An order endpoint on Hono: `deno run -A examples/web/hono.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { honoLock, type HonoLockEnv } from "@holdfast/lock/http/hono";
import { Hono } from "hono";
import { openShop } from "./shop.ts";

await using shop = await openShop();
const app = new Hono<HonoLockEnv>();

app.post(
  "/orders/:id{[1-9][0-9]*}", // decoded and validated: an order has many URLs, but one lock
  honoLock(shop.locks, { key: (c) => `orders:${c.req.param("id")}`, waitMs: 2_000 }),
  async (c) => {
    const { status, body } = await shop.ship(c.req.param("id"), c.get("lease"));
    return c.json(body, status);
  },
);

const server = Deno.serve({
  port: shop.port,
  onListen: ({ port }) => console.log(`Listening on http://localhost:${port}`),
}, app.fetch);

await shop.closing;
await server.shutdown();
