/**
 * The fewest commands that make a lock: `SET NX PX`, and a compare-and-delete script.
 *
 * @module
 */
import type { ClientName, Contender, OpenContender } from "../library/contender.ts";
import { connectIoredis, connectNodeRedis } from "./connections.ts";

/** Compare and delete: the release of any lock on Redis. */
const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";

type Send = (command: string, ...args: string[]) => Promise<unknown>;

interface Connection {
  readonly send: Send;
  close(): Promise<unknown>;
}

/** The bare commands with a client. They do not wait: an attempt at a held lock rejects. */
export function raw(client: ClientName): Contender {
  return {
    name: "raw",
    client,
    package: null,
    has: { fencingToken: false, queue: false, renewal: false },
    sends: ["set", "evalsha"],
    async open(url, { ttlMs }) {
      const { send, close } = await connect(client, url);
      const sha = String(await send("SCRIPT", "LOAD", RELEASE));
      return opened(send, sha, String(ttlMs), close);
    },
  };
}

async function connect(name: ClientName, url: string): Promise<Connection> {
  if (name === "ioredis") {
    const client = await connectIoredis(url);
    return {
      send: (command, ...args) => client.call(command, ...args),
      close: () => client.quit(),
    };
  }
  const client = await connectNodeRedis(url);
  return {
    send: (command, ...args) => client.sendCommand([command, ...args]),
    close: () => client.close(),
  };
}

function opened(
  send: Send,
  sha: string,
  ttl: string,
  close: () => Promise<unknown>,
): OpenContender {
  return {
    async acquire(name) {
      const owner = crypto.randomUUID();
      if (await send("SET", name, owner, "NX", "PX", ttl) === null) {
        throw new Error(`Cannot acquire "${name}": it is held`);
      }
      return { release: () => send("EVALSHA", sha, "1", name, owner) };
    },
    async [Symbol.asyncDispose]() {
      await close();
    },
  };
}
