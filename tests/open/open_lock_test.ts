/**
 * `openLock()` on real servers: each form of URL, with users and TLS, and that the lock closes its client.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { rm, writeFile } from "node:fs/promises";
import process from "node:process";
import { inspect } from "node:util";
import { type DistributedLock, LockSetupError, LockUnavailableError } from "../../mod.ts";
import { openLock } from "../../open/mod.ts";
import { FileLock } from "../../file/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { noteOpen } from "../../testing/redis/client_timers.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { freePort } from "../../testing/servers/ports.ts";
import { type ProxyTarget, startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";
import {
  PRIMARY_NAME,
  redisSentinelSkip,
  startRedisSentinels,
} from "../../testing/servers/redis_sentinel.ts";
import { startSecureSentinels } from "../../testing/servers/redis_sentinel_tls.ts";
import { redisTlsSkip, startRedisTls } from "../../testing/servers/redis_tls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { zooKeeperEnsembleSkip } from "../../testing/servers/zookeeper_ensemble.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";
import { secure, startTlsScene } from "../../testing/zookeeper/tls_scene.ts";

const IS_SOAK = process.env.HOLDFAST_SOAK === "1";
const CLIENTS = ["redis", "ioredis"] as const;
const OUTAGE = `unavailableAfterMs=${CONDITION_BOUND_MS}`;
/** A cluster client keeps the call until then. */
const SHORT_OUTAGE = `unavailableAfterMs=${scaled(3_000)}`;
const SECRET = "p%40ss%2Fword"; // p@ss/word

async function temporaryDirectory() {
  const path = await makeTempDirectory();
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

/** Opens a lock, uses it, and closes it again. */
async function use<T>(url: string, check: (locks: DistributedLock) => T): Promise<Awaited<T>> {
  const locks = await openLock(url, { label: "opened" });
  const close = noteOpen(() => locks[Symbol.asyncDispose]());
  try {
    assertEquals(await locks.request("orders:42", () => "done"), "done");
    return await check(locks);
  } finally {
    await close();
  }
}

/** The number of connections to a server but that of the observer. */
async function connections({ command }: RedisServer): Promise<number> {
  return String(await command("CLIENT", "LIST")).trim().split("\n").length - 1;
}

Deno.test("openLock: memory, whose label is that of the program", async () => {
  await use("memory:?disposeTimeoutMs=10", async (locks) => {
    await using _lease = await locks.acquire("a");
    assertEquals((await locks.query("a")).holders[0]?.label, "opened");
  });
});

Deno.test("openLock: files, in the directory that FileLock uses", async () => {
  await using dir = await temporaryDirectory();
  await using other = new FileLock({ dir: dir.path });
  await use(`file://${dir.path}?keepFiles=true&pollIntervalMs=20`, async (locks) => {
    await using _lease = await locks.acquire("a");
    assertEquals(await other.tryAcquire("a"), null);
  });
});

for (const client of CLIENTS) {
  Deno.test(`openLock: Redis by ${client}, as a user, in a database of its own`, async () => {
    await using server = await startRedis();
    const { port, command } = server;
    await command("ACL", "SETUSER", "billing", "on", ">p@ss/word", "~*", "&*", "+@all");
    const url =
      `redis://billing:${SECRET}@127.0.0.1:${port}/3?client=${client}&keyPrefix=app:&${OUTAGE}`;
    await use(url, async (locks) => {
      assert(locks instanceof RedisLock);
      await using lease = await locks.acquire("a");
      assert(lease.isHeld);
      await command("SELECT", 3);
      assertEquals(await command("EXISTS", "app:a"), 1);
    });
    await waitUntil("its connections end", async () => await connections(server) === 0);
  });

  Deno.test(`openLock: Redis by ${client}, a wrong password is a setup error without the password, on a cluster too`, async () => {
    await using server = await startRedis();
    await server.command("CONFIG", "SET", "requirepass", "right");
    for (const scheme of ["redis", "redis+cluster"]) {
      const outage = scheme === "redis" ? OUTAGE : SHORT_OUTAGE;
      const at = `:wr0ng@127.0.0.1:${server.port}`;
      const locks = await openLock(`${scheme}://${at}?client=${client}&${outage}`);
      const close = noteOpen(() => locks[Symbol.asyncDispose]());
      try {
        const error = await assertRejects(() => locks.acquire("a"), LockSetupError);
        const all = inspect(error, { depth: Infinity, showHidden: true });
        assert(!all.includes("wr0ng"), all);
      } finally {
        await close();
      }
    }
    await server.command("AUTH", "right");
  });

  Deno.test(`openLock: Redis by ${client}, disposal closes a client that still connects`, async () => {
    await using server = await startRedis();
    await server.command("PING");
    const locks = await openLock(`${server.url}?client=${client}`);
    await noteOpen(() => locks[Symbol.asyncDispose]())();
    await waitUntil("no connection is left", async () => await connections(server) === 0);
  });

  Deno.test(`openLock: Redis by ${client}, no server is an outage, and disposal ends`, async () => {
    const locks = await openLock(
      `redis://127.0.0.1:${freePort()}?client=${client}&unavailableAfterMs=50&disposeTimeoutMs=50`,
    );
    const close = noteOpen(() => locks[Symbol.asyncDispose]());
    await assertRejects(() => locks.acquire("a"), LockUnavailableError, "ECONNREFUSED");
    await within("disposal ends", close());
  });
}

const clusterSkip = await redisClusterSkip();
const clusterNote = clusterSkip === undefined ? "" : ` [skipped: ${clusterSkip}]`;
Deno.test(`openLock: Redis Cluster by each client${clusterNote}`, {
  ignore: clusterSkip !== undefined,
}, async () => {
  await using cluster = await startRedisCluster();
  const hosts = cluster.masters.map(({ port }) => `127.0.0.1:${port}`).join();
  for (const client of CLIENTS) {
    await use(`redis+cluster://${hosts}?client=${client}&${OUTAGE}`, async (locks) => {
      const other = await openRedisClient("node-redis-cluster", cluster.url);
      {
        await using theirs = new RedisLock(other.client);
        await using _lease = await locks.acquire("a");
        assertEquals(await theirs.tryAcquire("a"), null);
      }
      await other.close();
    });
  }
});

Deno.test(
  `openLock: Redis Cluster whose nodes answer late: each client connects, or lets go${clusterNote}`,
  {
    ignore: clusterSkip !== undefined,
  },
  async () => {
    await using cluster = await startRedisCluster();
    for (const client of CLIENTS) {
      await using down = startDown(cluster.masters[0]!);
      const url = `redis+cluster://127.0.0.1:${down.port}?client=${client}&${OUTAGE}`;
      await useLate(url, down, 2); // node-redis gives up after each of them
    }
    await using proxy = startProxy(cluster.masters[0]!);
    const { promise: until, resolve: answer } = Promise.withResolvers<void>();
    let asked = 0;
    proxy.onRequest = (_chunk, { id }) => id === 1 ? "cut" : (asked = id, { until });
    const twice = `127.0.0.1:${proxy.port},127.0.0.1:${proxy.port}`;
    const locks = await openLock(`redis+cluster://${twice}?client=redis`);
    await waitUntil("the second node is asked", () => asked === 2);
    await locks[Symbol.asyncDispose]();
    const last = cluster.masters.at(-1)!;
    const accepted = async () => /total_connections_received:\d+/.exec(await info(last))![0];
    const before = await accepted();
    answer();
    await waitUntil("it connects to all nodes", async () => await accepted() !== before);
    await waitUntil("its connections end", async () => await connections(last) === 0);
  },
);

async function info({ command }: RedisServer): Promise<string> {
  return String(await command("INFO", "stats"));
}

/** A server that closes each connection, until it is up. */
function startDown(target: ProxyTarget) {
  const proxy = startProxy(target);
  const seen = new Set<number>();
  proxy.onRequest = (_chunk, { id }) => (seen.add(id), "cut");
  return {
    port: proxy.port,
    connections: () => seen.size,
    up: () => void (proxy.onRequest = undefined),
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}

/** Opens a lock while the server is down, and uses it once the client has tried in vain so often. */
async function useLate(url: string, down: ReturnType<typeof startDown>, attempts: number) {
  const locks = await openLock(url);
  const close = noteOpen(() => locks[Symbol.asyncDispose]());
  try {
    const waiting = locks.request("a", () => "done");
    waiting.catch(() => {});
    await waitUntil("the client tries again", () => down.connections() >= attempts);
    down.up();
    assertEquals(await waiting, "done");
  } finally {
    await close();
  }
}

const tlsSkip = await redisTlsSkip();
const tlsNote = tlsSkip === undefined ? "" : ` [skipped: ${tlsSkip}]`;
Deno.test(`openLock: Redis with TLS by each client${tlsNote}`, {
  ignore: tlsSkip !== undefined,
}, async () => {
  await using server = await startRedisTls();
  await using dir = await temporaryDirectory();
  const certificates = await write(dir.path, server.files);
  for (const client of CLIENTS) {
    const url = `rediss://127.0.0.1:${server.securePort}?client=${client}`;
    await use(`${url}&${certificates}&${OUTAGE}`, () => {});
    const untrusted = await openLock(`${url}&unavailableAfterMs=50&disposeTimeoutMs=50`);
    const close = noteOpen(() => untrusted[Symbol.asyncDispose]());
    // Until the client knows why it cannot connect, that is an outage.
    await waitUntil("it is a setup error", async () => {
      return (await untrusted.acquire("a").catch((error) => error)) instanceof LockSetupError;
    });
    await close();
  }
});

Deno.test(`openLock: Redis Cluster with TLS by each client${tlsNote}`, {
  ignore: tlsSkip !== undefined,
}, async () => {
  await using server = await startRedisTls(true);
  await waitUntil("all slots are served", async () => {
    return String(await server.command("CLUSTER", "INFO")).includes("cluster_state:ok");
  });
  await using dir = await temporaryDirectory();
  const certificates = await write(dir.path, server.files);
  for (const client of CLIENTS) {
    const url = `rediss+cluster://127.0.0.1:${server.securePort}?client=${client}`;
    await use(`${url}&${certificates}&${OUTAGE}`, (locks) => assert(locks instanceof RedisLock));
  }
});

const lateSkip = IS_SOAK ? await redisSentinelSkip() : "it takes 20 s, so only in a soak";
const lateNote = lateSkip === undefined ? "" : ` [skipped: ${lateSkip}]`;
Deno.test(
  `openLock: sentinels that answer late: each client connects${lateNote}`,
  {
    ignore: lateSkip !== undefined,
  },
  async () => {
    await using servers = await startRedisSentinels();
    const { host: hostname, port } = servers.sentinels[0]!;
    for (const client of CLIENTS) {
      await using down = startDown({ hostname, port });
      const url =
        `redis+sentinel://127.0.0.1:${down.port}/${PRIMARY_NAME}?client=${client}&${OUTAGE}`;
      await useLate(url, down, 20); // node-redis gives up after 17
    }
  },
);

const sentinelSkip = await redisSentinelSkip() ?? tlsSkip;
const sentinelNote = sentinelSkip === undefined ? "" : ` [skipped: ${sentinelSkip}]`;
Deno.test(`openLock: sentinels with TLS and users by each client${sentinelNote}`, {
  ignore: sentinelSkip !== undefined,
}, async () => {
  await using servers = await startSecureSentinels("p@ss/word");
  await using dir = await temporaryDirectory();
  const certificates = await write(dir.path, servers.files);
  const login = `sentinelUser=watcher&sentinelPassword=${SECRET}`;
  for (const client of CLIENTS) {
    await use(
      `rediss+sentinel://locks:${SECRET}@127.0.0.1:${servers.port}/${PRIMARY_NAME}?` +
        [`client=${client}`, certificates, login, OUTAGE].join("&"),
      () => {},
    );
  }
});

Deno.test("openLock: ZooKeeper, below a path, with credentials", async () => {
  await using server = await startZooKeeper();
  const url = `zookeeper://billing:${SECRET}@${server.connectString}`;
  await use(`${url}/app?rootPath=/locks&sessionTimeoutMs=10000&${OUTAGE}`, async (locks) => {
    await using other = new ZooKeeperLock(`${server.connectString}`, {
      rootPath: "/app/locks",
      auth: { scheme: "digest", credentials: "billing:p@ss/word" },
      unavailableAfterMs: CONDITION_BOUND_MS,
    });
    await using _lease = await locks.acquire("a");
    assertEquals(await other.tryAcquire("a"), null);
  });
});

const ensembleSkip = await zooKeeperEnsembleSkip();
const ensembleNote = ensembleSkip ? ` [${ensembleSkip}]` : "";
Deno.test(`openLock: ZooKeeper with TLS${ensembleNote}`, {
  ignore: ensembleSkip !== undefined,
}, async () => {
  await using scene = await startTlsScene();
  await using dir = await temporaryDirectory();
  const { ca, cert, key } = scene.certified as Record<string, string>;
  const files = { "ca.pem": ca!, "client.pem": cert!, "client-key.pem": key! };
  const certificates = await write(dir.path, files);
  await use(`zookeeper://${secure(scene.strict)}?${certificates}&${OUTAGE}`, () => {});
});

Deno.test("openLock: a file with certificates that is missing is a setup error", async () => {
  const url = "rediss://127.0.0.1?caFile=/nowhere/ca.pem";
  const error = await assertRejects(() => openLock(url), LockSetupError);
  assertStringIncludes(error.message, "Cannot read 'caFile', /nowhere/ca.pem (ENOENT)");
});

/** Writes the files of a client, and returns the options that name them. */
async function write(dir: string, files: Readonly<Record<string, string>>): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(`${dir}/${name}`, text);
  const paths = { caFile: "ca.pem", certFile: "client.pem", keyFile: "client-key.pem" };
  return Object.entries(paths).map(([name, file]) => `${name}=${dir}/${file}`).join("&");
}
