/**
 * The server that the demo's locks live on.
 *
 * @module
 */
// The tests' own helpers: they find Redis and ZooKeeper in Docker or on this machine.
import { refuseInstall } from "../../testing/servers/find_apt.ts";
import { findServer, type ServerKind, sourceVariable } from "../../testing/servers/find.ts";
import { sharedRedis, startRedis } from "../../testing/servers/redis.ts";
import { sharedZooKeeper, startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { type Backend, openLock } from "../open_lock.ts";

const URL_VARIABLES: Record<ServerKind, string> = {
  redis: "REDIS_URL",
  zookeeper: "ZOOKEEPER_CONNECT",
};

const TITLES: Record<ServerKind, string> = { redis: "Redis", zookeeper: "ZooKeeper" };

/** A place for locks, taken away when disposed of. */
export interface LockPlace extends AsyncDisposable {
  readonly backend: Backend;
}

/** How to get a server. */
export interface ServerWish {
  readonly kind: ServerKind;
  /** A server of the user's own. */
  readonly url: string | null;
  /** Whether a missing server must not be installed. */
  readonly isInstallRefused: boolean;
}

/**
 * Gets a server: the given one, or that of an environment variable, or a throw-away one.
 *
 * @param tell Gets a line about what was chosen.
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
    return placeOn(server, { kind, url: server.url, keyPrefix: "lock:" });
  }
  const server = await startZooKeeper();
  const { connectString } = server;
  return placeOn(server, { kind, connectString, rootPath: "/holdfast" });
}

/** Others use this server too: all that is made there has a random name and is removed. */
async function openGiven(kind: ServerKind, url: string, origin: string): Promise<LockPlace> {
  try {
    if (kind === "redis") {
      const server = sharedRedis(url);
      await server.command("PING");
      return placeOn(server, { kind, url, keyPrefix: server.keyPrefix });
    }
    const server = sharedZooKeeper(url);
    const backend: Backend = { kind, connectString: url, rootPath: server.rootPath };
    await using open = await openLock(backend);
    await open.locks.query("account");
    return placeOn(server, backend);
  } catch (cause) {
    // Its message may hold the address, and that a password.
    const problem = `Cannot use the ${TITLES[kind]} at the address given by ${origin}`;
    throw new Error(`${problem}: start it, check the address, or leave it out`, { cause });
  }
}

function placeOn(server: AsyncDisposable, backend: Backend): LockPlace {
  return {
    backend,
    async [Symbol.asyncDispose]() {
      try {
        await server[Symbol.asyncDispose]();
      } catch (cause) {
        throw new Error("Cannot clean up on the server: look whether it still runs", { cause });
      }
    },
  };
}
