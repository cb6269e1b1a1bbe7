/**
 * An order endpoint on Koa: `deno run -A examples/web/koa.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { koaLock, NO_LOCK } from "@holdfast/lock/http/koa";
// @ts-types="@types/koa"
import Koa from "koa";
import type { AddressInfo } from "node:net";
import { openShop, orderIn } from "./shop.ts";

await using shop = await openShop();
const app = new Koa();

app.use(koaLock(shop.locks, {
  // A path that names no order is a 404. Opting out is explicit: `undefined` would be an error.
  key: ({ method, path }) => method === "POST" ? `orders:${orderIn(path)}` : NO_LOCK,
  waitMs: 2_000,
}));

app.use(async (ctx) => {
  if (ctx.method !== "POST") return;
  const { status, body } = await shop.ship(orderIn(ctx.path), ctx.state.lease);
  ctx.status = status;
  ctx.body = body;
});

const server = app.listen(shop.port, () => {
  console.log(`Listening on http://localhost:${(server.address() as AddressInfo).port}`);
});

await shop.closing;
await new Promise((resolve) => server.close(resolve));
