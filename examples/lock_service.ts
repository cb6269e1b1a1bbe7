/**
 * Serves locks over HTTP, for programs in any language. `examples/lock_service.sh` is a client for shells.
 *
 * Start it with `LOCK_TOKENS='{"backup": "s3cret"}' deno run -A examples/lock_service.ts`, then
 * `curl -X PUT localhost:8000/lock/nightly/9f3c -H "Authorization: Bearer s3cret" -d '{"ttlMs":20000}'`.
 * Start a second one with `--port 8001`: leases are kept in Redis, so a client can renew a lease at any
 * server, and leases survive restarts of the servers.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { createHash, timingSafeEqual } from "node:crypto";
import { parseArgs } from "node:util";
import { RedisLock } from "@holdfast/lock/redis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { lockRoutes } from "@holdfast/lock/lock-service";
import Fastify from "fastify";
import { createClient } from "redis";

const USAGE = `Serves PUT, PATCH and DELETE /lock/:key/:id, and GET /lock/:key.

  --port N     the port to listen on (8000 by default, 0 for any free port)
  LOCK_TOKENS  the principals and their secrets: {"name": "bearer token", …}; required
  REDIS_URL    the Redis server that keeps the locks (redis://127.0.0.1:6379 by default)`;

/** How long in ms a client may take to send a request. Waiting for a lock does not count. */
const REQUEST_TIMEOUT_MS = 10_000;

const digest = (text: string) => createHash("sha256").update(text).digest();

/** Makes a hook for `authorize` that finds the principal of a request by its bearer token. */
export function bearerTokens(tokens: Readonly<Record<string, string>>) {
  const known = Object.entries(tokens).map(([name, token]) => ({ name, hash: digest(token) }));
  return ({ headers }: { headers: { authorization?: string | undefined } }): string | undefined => {
    const token = /^Bearer (\S+)$/i.exec(headers.authorization ?? "")?.[1];
    if (token === undefined) return undefined; // 401, as for a wrong token
    // All hashes have the same length and all are compared, so the time that it takes reveals nothing.
    const hash = digest(token);
    const found = known.filter((one) => timingSafeEqual(one.hash, hash));
    return found[0]?.name;
  };
}

async function main(): Promise<void> {
  const { values: { port, help } } = parseArgs({
    options: {
      port: { type: "string", default: "8000" },
      help: { type: "boolean" },
    },
  });
  const tokens = JSON.parse(Deno.env.get("LOCK_TOKENS") ?? "{}");
  if (help || Object.keys(tokens).length === 0) return console.log(USAGE);
  const client = createClient({ url: Deno.env.get("REDIS_URL") ?? "redis://127.0.0.1:6379" });
  await client.on("error", console.error).connect();
  // A prefix of its own: no client can take a lock that other programs use on this Redis.
  const keyPrefix = "lock-service:";
  await using lock = new RedisLock(nodeRedis(client), { keyPrefix });
  // A client that sends its request slowly, or never to the end, does not keep the connection.
  const app = Fastify({ requestTimeout: REQUEST_TIMEOUT_MS });
  await app.register(lockRoutes, {
    lock,
    authorize: bearerTokens(tokens), // the principal is the name of the token
    maxTtlMs: 60_000,
    maxBodyMs: 5_000,
    onError: console.error,
  });
  const { promise: stopping, resolve: stop } = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, stop);
  console.log(`locks at ${await app.listen({ port: Number(port), host: "127.0.0.1" })}`);
  await stopping;
  await app.close(); // ends waiting requests; leases outlive this process
  await lock[Symbol.asyncDispose]();
  client.destroy();
}

if (import.meta.main) {
  await main();
  Deno.exit(0); // the signal listeners would keep the process alive
}
