/**
 * Replies that are lost, late or cut off, for every command in turn and every client.
 */
import { assert, assertEquals } from "@std/assert";
import { type Lease, LeaseLostError } from "../../mod.ts";
import { ASK, LEAVE, QUERY, RENEW, type Script } from "../../redis/protocol/scripts.ts";
import { RedisLock } from "../../redis/mod.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { type FaultProxy, startProxy, type Verdict } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { Ledger } from "../../testing/redis/ledger.ts";
import { warmUp } from "../../testing/redis/memory_check.ts";
import { CONDITION_BOUND_MS, ENDING_TTL_MS, LONG_TTL_MS } from "../../testing/time.ts";

const CLIENTS: RedisClientName[] = ["node-redis", "ioredis", "deno-redis-like"];
/** The commands of the job below, in order. */
const COMMANDS: Script[] = [ASK, RENEW, QUERY, LEAVE];

interface Fault {
  readonly name: string;
  readonly ttlMs: number;
  /** Whether the lease must survive it. */
  readonly survivable: boolean;
  strike(proxy: FaultProxy): Verdict;
}

const FAULTS: Fault[] = [
  {
    name: "a reply is lost and the connection breaks later",
    ttlMs: LONG_TTL_MS,
    survivable: true,
    strike(proxy) {
      setTimeout(() => proxy.cutAll(), 200);
      return "drop";
    },
  },
  {
    name: "the connection breaks instead of a reply",
    ttlMs: LONG_TTL_MS,
    survivable: true,
    strike: () => "cut",
  },
  {
    name: "a reply arrives after the TTL",
    ttlMs: ENDING_TTL_MS,
    survivable: false,
    strike: () => ({ delayMs: 1.7 * ENDING_TTL_MS }),
  },
];

/** Makes the fault hit the first reply to this script, on any connection. */
function strikeReply(proxy: FaultProxy, { sha1 }: Script, fault: Fault): { isStruck: boolean } {
  const state = { isStruck: false };
  const asked = new Set<number>();
  const decoder = new TextDecoder();
  proxy.onRequest = (chunk, { id }) => {
    if (decoder.decode(chunk).includes(sha1)) asked.add(id);
    return "pass";
  };
  proxy.onReply = (_chunk, { id }) => {
    if (state.isStruck || !asked.has(id)) return "pass";
    state.isStruck = true;
    return fault.strike(proxy);
  };
  return state;
}

/** Acquires, renews, queries and releases. The fault hits the reply to one of these commands. */
async function job(lock: RedisLock, ledger: Ledger, survivable: boolean): Promise<void> {
  const lease = await within("the lock is acquired well before a TTL", lock.acquire("n"));
  ledger.granted(lease);
  const renewed = await lease.renew().then(() => true, (error) => {
    assert(error instanceof LeaseLostError, String(error));
    return false;
  });
  const { holders } = await lock.query("n");
  if (survivable) {
    assert(renewed && holders.length > 0);
    lease.throwIfLost();
    assertEquals(await lease.release(), true);
  } else await lease.release();
}

async function strikeOne(
  server: RedisServer,
  clientName: RedisClientName,
  fault: Fault,
  command: Script,
): Promise<void> {
  await using proxy = startProxy(server);
  const url = `redis://${proxy.hostname}:${proxy.port}`;
  const { client, close } = await openRedisClient(clientName, url);
  const keyPrefix = `${crypto.randomUUID()}:`;
  const direct = await openRedisClient("node-redis", server.url);
  try {
    const options = { ttlMs: fault.ttlMs, keyPrefix, unavailableAfterMs: CONDITION_BOUND_MS };
    await using lock = new RedisLock(client, options);
    await using rival = new RedisLock(direct.client, options);
    // As in a running service: connected, scripts loaded, the server's clock known.
    await warmUp(lock, proxy);
    const warm = await lock.acquire("warm-up", { ttlMs: LONG_TTL_MS });
    await warm.renew();
    await lock.query("warm-up");
    await warm.release();
    await waitUntil("the warm-up is over", () => proxy.connections === 1);
    const struck = strikeReply(proxy, command, fault);

    const ledger = new Ledger();
    let done = false;
    const contending = contend(rival, ledger, () => done);
    try {
      await job(lock, ledger, fault.survivable);
    } finally {
      done = true;
      await contending;
    }
    assert(struck.isStruck, "the fault never struck");
    const left = await within(
      "no key is left",
      waitUntil("no key", async () => await server.command("EXISTS", `${keyPrefix}n`) === 0),
    );
    assertEquals(left, undefined);
  } finally {
    await close();
    await direct.close();
  }
}

/** Acquires the lock in a loop, as another process would. */
async function contend(rival: RedisLock, ledger: Ledger, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    const lease: Lease | null = await rival.tryAcquire("n");
    if (lease !== null) {
      ledger.granted(lease);
      await pause(5);
      await lease.release();
    }
    await pause(5);
  }
}

for (const client of CLIENTS) {
  for (const fault of FAULTS) {
    Deno.test(`RedisLock × ${client}: never two holders when ${fault.name}, for each command in turn`, async () => {
      await using server = await startRedis();
      const strikes = COMMANDS.map((command) => strikeOne(server, client, fault, command));
      await Promise.allSettled(strikes); // else what goes on after a failure fails the next test, too
      await Promise.all(strikes);
      const keys = await server.command("KEYS", "*") as string[];
      assertEquals(keys.filter((key) => !key.startsWith("holdfast:")), []);
    });
  }
}
