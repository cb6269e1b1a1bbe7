/**
 * An order endpoint on Koa: `deno run -A examples/web/koa.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { koaLock } from "@holdfast/lock/http/koa";
// @ts-types="@types/koa"
import Koa from "koa";
import type { AddressInfo } from "node:net";
import { openShop } from "./shop.ts";

await using shop = await openShop();
const app = new Koa();

/** Returns the order in the path: Koa has no router of its own. */
const orderOf = ({ method, path }: { method: string; path: string }) =>
  method === "POST" ? /^\/orders\/([^/]+)$/.exec(path)?.[1] : undefined;

app.use(koaLock(shop.locks, {
  key(ctx) {
    const order = orderOf(ctx);
    return order && `orders:${order}`; // undefined: this request needs no lock
  },
  waitMs: 2_000,
}));

app.use(async (ctx) => {
  const order = orderOf(ctx);
  if (order === undefined) return;
  const { status, body } = await shop.ship(order, ctx.state.lease);
  ctx.status = status;
  ctx.body = body;
});

const server = app.listen(shop.port, () => {
  console.log(`Listening on http://localhost:${(server.address() as AddressInfo).port}`);
});

await shop.closing;
await new Promise((resolve) => server.close(resolve));
