/**
 * The callback's lease is nullable with `ifAvailable: true` only, and options may be `undefined`.
 */
import { assertEquals } from "@std/assert";
import type { FileLockOptions } from "../../file/mod.ts";
import {
  type AttachableLock,
  type AttachableRequestOptions,
  type DistributedLock,
  MemoryLock,
  type RequestMethod,
  type RequestOptions,
} from "../../mod.ts";
import type { ZooKeeperLockOptions } from "../../zookeeper/mod.ts";

/** Options that a program has read from somewhere: each may be missing. */
interface Settings {
  readonly signal?: AbortSignal | undefined;
  readonly waitMs?: number | undefined;
  readonly label?: string | undefined;
  readonly dir?: string | undefined;
  readonly rootPath?: string | undefined;
}

async function everyForm(locks: Pick<DistributedLock, "request">, settings: Settings) {
  const { signal, waitMs, label } = settings;
  const names = [
    await locks.request("n", (lease) => lease.name),
    await locks.request("n", {}, (lease) => lease.name),
    await locks.request("n", { signal, waitMs, label }, (lease) => lease.name),
    await locks.request("n", { ifAvailable: false, mode: "exclusive" }, ({ name }) => name),
    await locks.request("n", { ifAvailable: undefined, steal: undefined }, ({ name }) => name),
    await locks.request("n", { ifAvailable: true, waitMs }, (lease) => lease?.name),
    // @ts-expect-error: somebody else may hold the lock
    await locks.request("n", { ifAvailable: true }, (lease) => lease.name),
  ];
  const options: RequestOptions = { signal };
  names.push(await locks.request("n", options, (lease) => lease?.name));
  // @ts-expect-error: `ifAvailable` may be true
  names.push(await locks.request("n", options, (lease) => lease.name));
  return names;
}

/** Never called: it only has to compile. */
export async function attachableForms(locks: AttachableLock) {
  await locks.request("n", { ttlMs: 30_000, ownerId: undefined }, (lease) => lease.name);
  await locks.request("n", { ttlMs: 30_000, ifAvailable: true }, (lease) => lease?.name);
  // @ts-expect-error: somebody else may hold the lock
  await locks.request("n", { ttlMs: 30_000, ifAvailable: true }, (lease) => lease.name);
  const request: RequestMethod<AttachableRequestOptions> = locks.request;
  const common: RequestMethod = request;
  // @ts-expect-error: an attach never waits
  await locks.attach("n", "job-7", { waitMs: 5 });
  return common;
}

Deno.test("request() gives its callback a lease, and with ifAvailable a lease or null", async () => {
  await using locks = new MemoryLock();
  const names = await everyForm(locks, {});
  assertEquals(names, names.map(() => "n"));
});

Deno.test("FileLock and ZooKeeperLock take options that are undefined for those that are left out", () => {
  const { dir, rootPath, label }: Settings = {};
  const file: FileLockOptions = { dir, label, sharedDir: undefined, pollIntervalMs: undefined };
  const zookeeper: ZooKeeperLockOptions = {
    ...{ rootPath, label, auth: undefined, tls: undefined, unavailableAfterMs: undefined },
    ...{ sessionTimeoutMs: undefined, requestTimeoutMs: undefined, onWarning: undefined },
  };
  assertEquals([file.dir, zookeeper.rootPath], [undefined, undefined]);
});
