/**
 * An order endpoint on Express: `deno run -A examples/web/express.ts`, then
 * `curl -X POST localhost:8000/orders/42`. Start a second one with `--port 8001`: they share the lock.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { expressLock, type ExpressLockRequest } from "@holdfast/lock/http/express";
// @ts-types="@types/express"
import express from "express";
import type { AddressInfo } from "node:net";
import { openShop, orderIn } from "./shop.ts";

await using shop = await openShop();
const app = express();

// Decoded and validated: an order has many URLs, but one lock. A path that names no order is a 404.
const orderOf = ({ params }: ExpressLockRequest) => orderIn(`/orders/${params.id}`);
const lock = expressLock(shop.locks, { key: (req) => `orders:${orderOf(req)}`, waitMs: 2_000 });

app.post("/orders/:id", lock, async (req, res) => {
  const { status, body } = await shop.ship(orderOf(req), res.locals.lease);
  res.status(status).json(body); // answer last: the lock is held until then
});

const server = app.listen(shop.port, () => {
  console.log(`Listening on http://localhost:${(server.address() as AddressInfo).port}`);
});

await shop.closing;
await new Promise((resolve) => server.close(resolve));
