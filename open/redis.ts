import { LockSetupError } from "../core/contract/errors.ts";
import { oneOf, readTable, text } from "../core/contract/options.ts";
import { promiseTry } from "../core/contract/promise_try.ts";
import { pause, SYSTEM_CLOCK } from "../core/time/clock.ts";
import { ioredis } from "../redis/clients/ioredis.ts";
import { nodeRedis } from "../redis/clients/node_redis.ts";
import { loadPackage, PackageNotFound } from "../packages/load_package.ts";
import type { RedisClient } from "../redis/client.ts";
import { REDIS_LOCK_OPTIONS, type RedisLockOptions } from "../redis/options.ts";
import { RedisLock } from "../redis/redis_lock.ts";
import { bad, type LockUrl, readQuery, unescape } from "./lock_url.ts";
import type { OpenLockOptions } from "./options.ts";
import { readTlsFiles, TLS_FILES } from "./tls_files.ts";

const DEFAULT_PORT = 6379;
const SENTINEL_PORT = 26379;
/** The pause in ms before a client that has given up connects again. */
const RECONNECT_MS = 1_000;

/** The options of the lock, and those that decide on the connection. */
const URL_OPTIONS = {
  ...REDIS_LOCK_OPTIONS,
  ...TLS_FILES,
  client: oneOf(["redis", "ioredis"]),
  sentinelUser: text({ min: 1 }),
  sentinelPassword: text(),
};

/** Which servers to connect to, and how. */
interface Servers {
  readonly kind: "server" | "cluster" | "sentinel";
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly database: number;
  /** What sentinels call the primary. */
  readonly primaryName: string;
  readonly login: ReturnType<typeof loginOf>;
  readonly sentinelLogin: ReturnType<typeof loginOf>;
  /** Left out, without TLS. */
  readonly tls: Awaited<ReturnType<typeof readTlsFiles>> | undefined;
}

/** Opens `redis:` URLs: makes the client, and closes it with the lock. */
export async function open(url: LockUrl, options: OpenLockOptions): Promise<RedisLock> {
  const { client, strategy } = await openClient(url);
  return new RedisLock(client, { ...options, ...strategy });
}

/** Checks the URL, and makes a client that connects in the background. */
export async function openClient(url: LockUrl): Promise<{
  /** Its `close()` closes the client, too: a lock calls it at its disposal. */
  readonly client: RedisClient;
  /** Resolves when it is connected. It may never settle. */
  readonly connected: Promise<unknown>;
  /** The options that the URL has for its lock. */
  readonly strategy: Omit<RedisLockOptions, keyof OpenLockOptions>;
}> {
  const place = readPlace(url);
  const read = readQuery(url, URL_OPTIONS);
  readTable("openLock()", read, URL_OPTIONS); // checks them before the client connects
  const { client, caFile, certFile, keyFile, sentinelUser, sentinelPassword, ...strategy } = read;
  const texts = await readTlsFiles({ caFile, certFile, keyFile });
  const isSecure = url.scheme.startsWith("rediss");
  if (!isSecure && Object.keys(texts).length > 0) {
    throw new TypeError(`Cannot use certificates with ${url.scheme}: write rediss`);
  }
  const hasLogin = sentinelUser !== undefined || sentinelPassword !== undefined;
  if (place.kind !== "sentinel" && hasLogin) {
    throw new TypeError("Cannot use 'sentinelUser' and 'sentinelPassword' without sentinels");
  }
  const servers: Servers = {
    ...place,
    login: loginOf(url.user, url.password),
    sentinelLogin: loginOf(sentinelUser, sentinelPassword),
    tls: isSecure ? texts : undefined,
  };
  const { adapter, connected, close } = await connect(servers, client);
  const owning: RedisClient = Object.create(adapter, {
    close: {
      value: async () => {
        await adapter.close?.();
        await close();
      },
    },
  });
  return { client: owning, connected, strategy };
}

/** A user, unless it is the default one, and a password. */
function loginOf(user: string | undefined, password: string | undefined) {
  return {
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
  };
}

/** Reads the hosts and the path. */
function readPlace(
  { scheme, hosts, path }: LockUrl,
): Pick<Servers, "kind" | "hosts" | "database" | "primaryName"> {
  const [, kind = "server"] = scheme.split("+") as [string, ("cluster" | "sentinel")?];
  if (hosts.length === 0) throw bad(`${scheme}:`, `must name a host, as in ${scheme}://host`);
  if (kind === "server" && hosts.length > 1) {
    throw bad(`${scheme}:`, "has one host; several are a redis+cluster or redis+sentinel");
  }
  const [, ...segments] = path.split("/");
  const primaryName = kind === "sentinel"
    ? unescape("the name of the primary", segments.shift() ?? "")
    : "";
  if (kind === "sentinel" && primaryName === "") {
    throw bad("the path", "must be the name of the primary, as in redis+sentinel://host/mymaster");
  }
  const database = segments.shift() ?? "";
  if (kind === "cluster" && database !== "") {
    throw bad("the path", "must be empty: a cluster has one database");
  }
  if (segments.length > 0 || !/^\d{0,4}$/.test(database)) {
    throw bad("the path", "must end with the number of a database, as in redis://host/0");
  }
  const defaultPort = kind === "sentinel" ? SENTINEL_PORT : DEFAULT_PORT;
  return {
    kind,
    hosts: hosts.map(({ host, port = defaultPort }) => ({ host, port })),
    database: Number(database),
    primaryName,
  };
}

/**
 * Makes a client of the package that was asked for, or of the first one that is installed. It connects in the
 * background.
 */
async function connect(servers: Servers, wanted: "redis" | "ioredis" | undefined) {
  if (wanted !== "ioredis") {
    const found = await loadClient<Parameters<typeof connectNodeRedis>[0]>("redis", "6.3.1");
    if (found !== null) return connectNodeRedis(found, servers);
  }
  if (wanted !== "redis") {
    const found = await loadClient<Parameters<typeof connectIoredis>[0]>("ioredis", "6.0.0");
    if (found !== null) return connectIoredis(found, servers);
  }
  const name = wanted ?? "redis";
  const other = wanted === undefined ? ", or ioredis" : "";
  throw new LockSetupError(
    `Cannot open Redis: the package ${name} is not installed: install it with npm install ${name}${other}`,
  );
}

/**
 * Loads a client package; `null` if it is not installed. Throws a {@linkcode LockSetupError} if it is, but cannot be
 * loaded. On Deno its specifier is no literal, else each user of this module would download both.
 */
async function loadClient<Package>(name: string, version: string): Promise<Package | null> {
  const specifier = `npm:${name}@${version}`;
  try {
    return "Deno" in globalThis ? await import(specifier) : loadPackage<Package>(name);
  } catch (cause) {
    if (cause instanceof PackageNotFound) return null;
    throw new LockSetupError(`Cannot load the package ${name}`, undefined, { cause });
  }
}

/** The first argument is what is used of `npm:redis`. */
function connectNodeRedis(
  redis: Record<
    "createClient" | "createCluster" | "createSentinel",
    (options: object) => Parameters<typeof nodeRedis>[0] & {
      connect(): Promise<unknown>;
      readonly isOpen: boolean;
      destroy(): void | Promise<void>;
    }
  >,
  { kind, hosts, database, primaryName, login, sentinelLogin, tls }: Servers,
) {
  const socket = tls === undefined ? {} : { tls: true, ...tls };
  const client = kind === "server"
    ? redis.createClient({ ...login, database, socket: { ...socket, ...hosts[0] } })
    : kind === "cluster"
    ? redis.createCluster({
      rootNodes: hosts.map((host) => ({ socket: { ...socket, ...host } })),
      defaults: { ...login, socket },
    })
    : redis.createSentinel({
      name: primaryName,
      sentinelRootNodes: hosts,
      nodeClientOptions: { ...login, database, socket },
      sentinelClientOptions: { ...sentinelLogin, socket },
    });
  const closed = new AbortController();
  let attempted = Promise.withResolvers<void>();
  client.on("error", () => attempted.resolve()); // the adapter keeps the error for the calls
  // Not only if it is open: a cluster that was destroyed while it connected has opened connections since. A client
  // of one server throws then.
  const destroy = () => promiseTry(() => client.destroy()).catch(() => {});
  const connect = async () => {
    while (!closed.signal.aborted) {
      attempted = Promise.withResolvers<void>();
      try {
        return await client.connect();
      } catch {
        // Of a cluster it gives up after one round of the nodes, with sentinels after some.
        if (client.isOpen) await destroy(); // version 5 with sentinels: else it could not connect again
      } finally {
        attempted.resolve();
      }
      await pause(SYSTEM_CLOCK, RECONNECT_MS, closed.signal);
    }
    throw new Error("The client is closed");
  };
  const connected = connect();
  connected.catch(() => {});
  return {
    adapter: nodeRedis(client),
    connected,
    async close() {
      closed.abort();
      // A client that is destroyed while it connects leaves that connection open, and the process alive.
      await attempted.promise;
      await destroy();
      connected.then(destroy, () => {}); // one that is not open yet, but connects, opens later
    },
  };
}

/** The first argument is what is used of `npm:ioredis`. */
function connectIoredis(
  { Redis, Cluster }: Record<
    "Redis" | "Cluster",
    new (...args: readonly object[]) => Parameters<typeof ioredis>[0] & {
      readonly status: string;
      once(event: "ready" | "end", listener: () => void): unknown;
      disconnect(): void;
    }
  >,
  { kind, hosts, database, primaryName, login, sentinelLogin, tls }: Servers,
) {
  const secure = tls === undefined ? {} : { tls };
  const client = kind === "server"
    ? new Redis({ ...login, ...secure, ...hosts[0], db: database })
    : kind === "cluster"
    ? new Cluster(hosts, { redisOptions: { ...login, ...secure } })
    : new Redis({
      ...login,
      ...secure,
      name: primaryName,
      sentinels: hosts,
      db: database,
      failoverDetector: true, // without it the client stays on a primary that is one no more
      ...(sentinelLogin.username === undefined ? {} : { sentinelUsername: sentinelLogin.username }),
      ...(sentinelLogin.password === undefined ? {} : { sentinelPassword: sentinelLogin.password }),
      ...(tls === undefined ? {} : { sentinelTLS: tls, enableTLSForSentinelMode: true }),
    });
  client.on("error", () => {}); // the adapter keeps the error for the calls
  const connected = new Promise<void>((resolve) => client.once("ready", resolve));
  return {
    adapter: ioredis(client),
    connected,
    /** Resolves when the connection has ended. */
    async close() {
      const ended = new Promise<void>((resolve) => client.once("end", resolve));
      client.disconnect();
      // One that is between two attempts to connect reports no end.
      if (client.status !== "end" && client.status !== "reconnecting") await ended;
    },
  };
}
