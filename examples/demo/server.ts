/**
 * Opens the server for the locks of the demo.
 *
 * @module
 */
import { openLock } from "@holdfast/lock/open";
// The tests' own helpers: they find Redis and ZooKeeper in Docker or on this machine.
import { refuseInstall } from "../../testing/servers/find_apt.ts";
import { findServer, type ServerKind, sourceVariable } from "../../testing/servers/find.ts";
import { sharedRedis, startRedis } from "../../testing/servers/redis.ts";
import { sharedZooKeeper, startZooKeeper } from "../../testing/servers/zookeeper.ts";

const URL_VARIABLES: Record<ServerKind, string> = {
  redis: "REDIS_URL",
  zookeeper: "ZOOKEEPER_CONNECT",
};

const TITLES: Record<ServerKind, string> = { redis: "Redis", zookeeper: "ZooKeeper" };

/** How long in ms a dead holder blocks the others; an ensemble may enforce other limits. */
const BLOCKED_MS = 2_000;

/** A place for locks. Disposal removes it. */
export interface LockPlace extends AsyncDisposable {
  readonly lockUrl: string;
}

/** How to get a server. */
export interface ServerWish {
  readonly kind: ServerKind;
  /** The address of an existing server. */
  readonly url: string | null;
  /** Whether a missing server must not be installed. */
  readonly isInstallRefused: boolean;
}

/**
 * Opens the given server, or that of an environment variable, or a throw-away one.
 *
 * @param tell Called with one line about the choice.
 * @throws {Error} If the server does not answer, or none can be found.
 */
export async function openServer(
  { kind, url, isInstallRefused }: ServerWish,
  tell: (line: string) => void,
): Promise<LockPlace> {
  const variable = URL_VARIABLES[kind];
  const given = url ?? Deno.env.get(variable);
  if (given) {
    const origin = url === null ? variable : "--url";
    tell(`${TITLES[kind]}: the server given by ${origin}, under a random name that is removed`);
    return await openGiven(kind, given, origin);
  }
  if (Deno.env.get(sourceVariable(kind)) === undefined) {
    if (isInstallRefused) refuseInstall();
    const { source, line } = await findServer(kind);
    Deno.env.set(sourceVariable(kind), JSON.stringify(source));
    tell(line);
  }
  return await startOwn(kind);
}

async function startOwn(kind: ServerKind): Promise<LockPlace> {
  if (kind === "redis") {
    const server = await startRedis();
    return placeOn(server, redisUrl(server.url));
  }
  const server = await startZooKeeper();
  return placeOn(server, zooKeeperUrl(server.connectString, "/holdfast"));
}

/** Opens a server that others use too: all keys or znodes have a random name and are removed. */
async function openGiven(kind: ServerKind, url: string, origin: string): Promise<LockPlace> {
  try {
    if (kind === "redis") {
      const server = sharedRedis(url);
      await server.command("PING");
      return placeOn(server, redisUrl(url, server.keyPrefix));
    }
    const server = sharedZooKeeper(url);
    const lockUrl = zooKeeperUrl(url, server.rootPath);
    await using locks = await openLock(lockUrl);
    await locks.query("account");
    return placeOn(server, lockUrl);
  } catch (cause) {
    // The message of the cause may contain the address, and with it a password.
    const problem = `Cannot use the ${TITLES[kind]} at the address given by ${origin}`;
    throw new Error(`${problem}: start it, check the address, or leave it out`, { cause });
  }
}

function redisUrl(url: string, keyPrefix = "lock:"): string {
  const options = `ttlMs=${BLOCKED_MS}&keyPrefix=${encodeURIComponent(keyPrefix)}`;
  return `${url}${url.includes("?") ? "&" : "?"}${options}`;
}

function zooKeeperUrl(connectString: string, rootPath: string): string {
  return `zookeeper://${connectString}?rootPath=${rootPath}&sessionTimeoutMs=${BLOCKED_MS}`;
}

function placeOn(server: AsyncDisposable, lockUrl: string): LockPlace {
  return {
    lockUrl,
    async [Symbol.asyncDispose]() {
      try {
        await server[Symbol.asyncDispose]();
      } catch (cause) {
        throw new Error(
          "Cannot remove the demo's data from the server: check whether it still runs",
          { cause },
        );
      }
    },
  };
}
