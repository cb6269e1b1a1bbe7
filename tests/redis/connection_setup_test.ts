/**
 * A certificate that does not fit, or a permission that is missing, is an error of setup and no outage
 * (invariant 9): no retry helps.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Cluster, Redis } from "ioredis";
import { createClient } from "redis";
import { LockSetupError } from "../../mod.ts";
import { denoRedis } from "../../redis/clients/deno_redis.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";
import { noteOpen } from "../../testing/redis/client_timers.ts";
import { connectLike } from "../../testing/redis/deno_redis_like.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { redisTlsSkip, startRedisTls } from "../../testing/servers/redis_tls.ts";

const host = "127.0.0.1";
const skip = await redisTlsSkip();
const note = skip === undefined ? "" : ` [skipped: ${skip}]`;

/** The message of the error with which a call must reject. */
async function setupError(
  client: RedisClient,
  unavailableAfterMs = CONDITION_BOUND_MS,
): Promise<string> {
  await using lock = new RedisLock(client, { unavailableAfterMs, disposeTimeoutMs: 100 });
  const error = await assertRejects(() => lock.acquire("n"), LockSetupError);
  assertEquals(error.lockName, "n");
  return error.message;
}

/** The messages with ioredis and with node-redis, which connect in vain. */
async function messages(port: number, tls?: object): Promise<string[]> {
  const io = new Redis({ host, port, retryStrategy: () => null, ...tls && { tls } });
  const socket = { host, port, reconnectStrategy: false as const };
  const node = createClient({ socket: tls ? { ...socket, ...tls, tls: true } : socket });
  const clients = [ioredis(io.on("error", () => {})), nodeRedis(node.on("error", () => {}))];
  const ended = node.connect().catch(() => {});
  const close = noteOpen(async () => {
    await ended;
    await waitUntil("both have given up", () => io.status === "end" && !node.isOpen);
  });
  try {
    return await Promise.all(clients.map(async (client) => {
      await waitUntil("it cannot connect", () => client.connectionError !== undefined);
      return await setupError(client, 300); // it keeps commands, or says only that it is closed
    }));
  } finally {
    await close();
  }
}

Deno.test({
  name:
    `RedisLock.acquire() rejects with a LockSetupError when the server's certificate is not trusted, or for another host${note}`,
  ignore: skip !== undefined,
  async fn() {
    await using server = await startRedisTls();
    const { "ca.pem": ca, "client.pem": cert, "client-key.pem": key } = server.files;
    for (
      const [tls, code] of [
        [{ cert, key }, /\((?:SELF_SIGNED|UNABLE_TO|DEPTH_ZERO)_\w+\)/],
        [{ ca, cert, key, servername: "redis.example" }, /\(ERR_TLS_CERT_ALTNAME_INVALID\)/],
      ] as const
    ) {
      for (const message of await messages(server.securePort, tls)) {
        assert(code.test(message) && /for this host, .* 'ca'/.test(message), message);
      }
    }
  },
});

Deno.test({
  name:
    `RedisLock.acquire() rejects with a LockSetupError for a certificate when ioredis itself gives up commands${note}`,
  ignore: skip !== undefined,
  async fn() {
    await using server = await startRedisTls();
    for (const limit of [{ maxRetriesPerRequest: 0 }, { commandTimeout: 100 }]) {
      const io = new Redis({ host, port: server.securePort, tls: {}, ...limit });
      const client = ioredis(io.on("error", () => {}));
      const close = noteOpen(() => io.disconnect());
      await waitUntil("it cannot connect", () => client.connectionError !== undefined);
      const message = await setupError(client, scaled(1_000));
      await close();
      assert(/\((?:SELF_SIGNED|UNABLE_TO|DEPTH_ZERO)_\w+\)/.test(message), message);
    }
  },
});

Deno.test("RedisLock.acquire() rejects with a LockSetupError when the nodes of a cluster refuse the password of ioredis", async () => {
  await using server = await startRedis();
  await server.command("CONFIG", "SET", "requirepass", "secret");
  const cluster = new Cluster([server.url], {
    redisOptions: { password: "wrong" },
    clusterRetryStrategy: () => null,
  });
  const client = ioredis(cluster.on("error", () => {}));
  const close = noteOpen(() => waitUntil("it has given up", () => cluster.status === "end"));
  await waitUntil("it cannot connect", () => client.connectionError !== undefined);
  const message = await setupError(client, scaled(1_000));
  await close();
  assert(message.includes("(WRONGPASS)"), message);
});

Deno.test("RedisLock.acquire() says that the client is not logged in when the server only says that its command is too long for that", async () => {
  await using server = await startRedis();
  await server.command("CONFIG", "SET", "requirepass", "secret");
  const client = denoRedis(() => connectLike(server.url));
  const message = await setupError(client);
  assert(message.endsWith("(NOAUTH). Give it the right user and password"), message);
});

Deno.test({
  name: "RedisLock.acquire() rejects with a LockSetupError when Deno lacks --allow-net",
  permissions: { net: false, env: "inherit", read: "inherit", sys: "inherit" },
  async fn() {
    const like = denoRedis(() => connectLike(`redis://${host}:1`));
    const close = noteOpen(() => like.close?.()); // its last attempt to connect may still pause
    for (const message of [...await messages(1), await setupError(like)]) {
      assert(message.endsWith("(--allow-net). Give it this permission for its address"), message);
    }
    await close();
  },
});
