/**
 * Express applications under a lock, and what a test asks about them.
 *
 * @module
 */
// @ts-types="@types/express"
import express from "express";
import { expressLock } from "../../http/express.ts";
import type { HoldOptions } from "../../http/mod.ts";
import type { Lease, MemoryLock } from "../../mod.ts";
import { waitUntil } from "../servers/wait.ts";

/** A handler of Express. */
export type Handler = (req: express.Request, res: express.Response) => unknown;

/** Sends a request and reads the response. */
export async function ask(
  url: string,
  init?: RequestInit,
): Promise<[status: number, text: string]> {
  const response = await fetch(url, init);
  return [response.status, await response.text()];
}

/** Whether somebody holds a lock. */
export const isHeld = async (locks: MemoryLock, key = "key") =>
  (await locks.query(key)).holders.length > 0;
/** Waits until nobody holds a lock. */
export const untilFree = (locks: MemoryLock, key = "key") =>
  waitUntil(`${key} is free`, async () => !await isHeld(locks, key));
/** Takes the lock of a request away. Resolves when the request has lost its lease. */
export async function lose(locks: MemoryLock, { locals }: express.Response): Promise<void> {
  const { name, signal } = locals.lease as Lease;
  await locks.request(name, { steal: true }, () => {});
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
}

/** An app with one route under the lock `key`. */
export function appWith(locks: MemoryLock, handler: Handler, options: HoldOptions = {}) {
  const app = express();
  app.set("env", "test"); // no log of errors
  app.use(expressLock(locks, { ...options, key: "key" }));
  app.use(async (req, res) => void await handler(req, res));
  return app;
}
