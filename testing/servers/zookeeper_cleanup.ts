/**
 * Removes the znodes of a test from a ZooKeeper server that others use too.
 *
 * @module
 */

import { bounded } from "./wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

const ATTEMPTS = 10;

type Callback<T = void> = (error: unknown, result?: T) => void;

/** The calls of the client package that are used here. */
export interface CleanupClient {
  exists(path: string, callback: Callback<unknown>): void;
  mkdirp(path: string, callback: Callback<string>): void;
  getChildren(path: string, callback: Callback<string[]>): void;
  remove(path: string, callback: Callback): void;
}

interface Connecting {
  connect(): void;
  close(): void;
  once(event: "connected" | "disconnected", listener: () => void): void;
}

/** Removes a znode and everything below it. */
export function removeTree(connectString: string, path: string): Promise<void> {
  return withClient(connectString, async (client) => {
    const stat = () => called<unknown>(`Looking for ${path}`, (done) => client.exists(path, done));
    for (let attempt = 1; await stat(); attempt++) {
      try {
        await removeBelow(client, path);
      } catch (error) {
        // Another client created or removed a znode in between: try again.
        if (attempt === ATTEMPTS) throw error;
      }
    }
  });
}

/** The package's own `removeRecursive()` handles only the first level. */
async function removeBelow(client: CleanupClient, path: string): Promise<void> {
  const list = (done: Callback<string[]>) => client.getChildren(path, done);
  for (const name of await called(`Listing ${path}`, list) ?? []) {
    await removeBelow(client, `${path}/${name}`);
  }
  await called(`Removing ${path}`, (done) => client.remove(path, done));
}

/** Connects, runs the work and disconnects. */
export async function withClient<T>(
  connectString: string,
  work: (client: CleanupClient) => Promise<T>,
): Promise<T> {
  // Loaded on demand: most tests do not need the package.
  const { default: zooKeeper } = await import("node-zookeeper-client");
  const client = zooKeeper.createClient(connectString) as unknown as CleanupClient & Connecting;
  try {
    await called(`Connecting to ${connectString}`, (done) => {
      client.once("connected", () => done(null));
      client.connect();
    });
    return await work(client);
  } finally {
    await called("Disconnecting", (done) => {
      client.once("disconnected", () => done(null));
      client.close();
    });
  }
}

/** Settles as the callback reports; rejects after `boundMs`. */
export function called<T>(
  what: string,
  start: (done: Callback<T>) => void,
  boundMs: number = CONDITION_BOUND_MS,
): Promise<T | undefined> {
  return bounded(what, boundMs, (signal) =>
    new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      start((error, result) => error ? reject(error) : resolve(result));
    }));
}
