/**
 * The ACL rule of the docs: it is what the scripts need, it is enough, and each part of it is needed.
 */
import { assert, assertEquals, assertInstanceOf } from "@std/assert";
import { LockSetupError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "../../redis/protocol/scripts.ts";
import { makeArena } from "../../testing/conformance/arena.ts";
import { exclusionSuite } from "../../testing/conformance/exclusion.ts";
import { fencingSuite } from "../../testing/conformance/fencing.ts";
import type { Harness } from "../../testing/conformance/harness.ts";
import { redisHarness } from "../../testing/conformance/redis_harness.ts";
import { releaseSuite } from "../../testing/conformance/release.ts";
import { requestSuite } from "../../testing/conformance/request.ts";
import { waitingSuite } from "../../testing/conformance/waiting.ts";
import { aclRules, commandRights, commandsIn, isRequired } from "../../testing/redis/acl_rule.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import type { RedisClientName } from "../../testing/conformance/lock_spec.ts";
import { keysLeft } from "../../testing/redis/residue.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { KEPT_TTL_MS, scaled } from "../../testing/time.ts";

const SCRIPTS = [ASK, LEAVE, QUERY, RENEW, STEAL];
const RIGHTS = commandRights(SCRIPTS);
const PAGES = ["docs/redis-protocol.md", "docs/redis-clients.md"];
const PASSWORD = "secret";

/** Makes a user with these rules and no others. Returns the URL to log in with. */
async function urlOfUser(server: RedisServer, name: string, rules: string[]): Promise<string> {
  await server.command("ACL", "SETUSER", name, "reset", "on", `>${PASSWORD}`, ...rules);
  return `redis://${name}:${PASSWORD}@${server.hostname}:${server.port}`;
}

for (const page of PAGES) {
  Deno.test(`${page} has the ACL rule that the scripts need`, async () => {
    const text = await Deno.readTextFile(new URL(`../../${page}`, import.meta.url));
    const [, rule] = /```text\nACL SETUSER locks (.*?)```/s.exec(text)!;
    assertEquals(rule!.trim().split(/\s+/), ["on", ">PASSWORD", ...aclRules(RIGHTS, "lock:")]);
  });
}

Deno.test("the ACL rule of docs/redis-clients.md is one command that redis-cli takes", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/redis-clients.md", import.meta.url));
  const [line] = /^ACL SETUSER locks .*$/m.exec(page)!;
  await using server = await startRedis();
  await server.command(...line.split(" "));
  const user = await server.command("ACL", "GETUSER", "locks") as unknown[];
  const has = String(user[user.indexOf("commands") + 1]);
  for (const right of RIGHTS) assert(has.includes(`+${right}`), `${right} is not in ${has}`);
});

/** Clients whose user has the rule of the docs. */
function harness(client: RedisClientName): Harness {
  const started = new AsyncDisposableStack();
  let server: RedisServer;
  let url: string;
  return {
    ...redisHarness(client),
    name: `redis × ${client} with minimal rights`,
    processes: false,
    async start() {
      server = started.use(await startRedis());
      url = await urlOfUser(server, "locks", aclRules(RIGHTS, "lock:"));
    },
    stop: () => started.disposeAsync(),
    arena() {
      const keyPrefix = `lock:${crypto.randomUUID()}:`;
      return Promise.resolve(makeArena({
        spec: ({ ttlMs = KEPT_TTL_MS, label }) => {
          return { strategy: "redis", client, url, keyPrefix, ttlMs, label };
        },
        lose: async ({ name }) => void await server.command("DEL", keyPrefix + name),
        residue: () => keysLeft(server.command, keyPrefix),
        close: () => Promise.resolve(),
      }));
    },
  };
}

/** The rights belong to the scripts, which every client sends: the soak runs a further one. */
const CLIENTS = Deno.env.get("HOLDFAST_SOAK")
  ? ["node-redis", "ioredis"] as const
  : ["node-redis"] as const;

for (const client of CLIENTS) {
  const minimal = harness(client);
  Deno.test.beforeAll(() => minimal.start());
  Deno.test.afterAll(() => minimal.stop());
  for (
    const suite of [exclusionSuite, releaseSuite, waitingSuite, fencingSuite, requestSuite]
  ) suite(minimal);
}

/** Only a release meets these. Its lock then stays held until its TTL is over. */
const ONLY_IN_LEAVE = commandsIn(LEAVE).filter((command) => {
  return ![ASK, QUERY, RENEW, STEAL].some((script) => commandsIn(script).includes(command));
});

/** How often the calls are made until one is refused. */
const MAX_ROUNDS = 5;

/** Only renewals and sweeps meet this. A lease without renewals is lost at its deadline. */
const ONLY_IN_RENEWALS = "hget";

/** Makes calls that meet every command but those of a release and of a renewal. Returns what they reject with. */
async function callAll(server: RedisServer, limited: RedisLock, full: RedisLock, name: string) {
  const errors: unknown[] = [];
  const attempt = async (call: (signal: AbortSignal) => Promise<unknown>) => {
    const signal = AbortSignal.timeout(scaled(1_000));
    await call(signal).catch((error) => error === signal.reason || errors.push(error));
  };
  await attempt(() => limited.query(name));
  await attempt(async (signal) => (await limited.acquire(name, { signal })).release());
  await server.command("DEL", `lock:${name}`);
  const held = await full.acquire(name);
  await attempt((signal) => limited.acquire(name, { signal }));
  const abort = new AbortController();
  const waiting = full.acquire(name, { signal: abort.signal }).catch(() => null);
  await waitUntil("it waits", async () => (await full.query(name)).waiterCount > 0);
  await server.command("DEL", `lock:${name}`);
  await attempt((signal) => limited.tryAcquire(name, { signal }));
  await attempt(() => limited.request(name, { steal: true }, () => {}));
  abort.abort();
  await waiting.then((lease) => lease?.release());
  await held.release();
  return errors;
}

Deno.test("RedisLock rejects with LockSetupError when a right is missing, and never says that Redis is unavailable", async () => {
  await using server = await startRedis();
  const near = await openRedisClient("node-redis", server.url);
  const elsewhere = [...ONLY_IN_LEAVE, ONLY_IN_RENEWALS];
  const required = RIGHTS.filter((right) => isRequired(right) && !elsewhere.includes(right));
  assert(required.length > 12, String(required));
  const keysAndCommands = [
    ...required.map((
      right,
    ) => [right, aclRules(RIGHTS.filter((other) => other !== right), "lock:")]),
    ["the lock's key", aclRules(RIGHTS, "other:")],
    ["the other keys", aclRules(RIGHTS, "lock:").filter((rule) => rule !== "~holdfast:*")],
  ] as const;
  await Promise.all(keysAndCommands.map(async ([right, rules], i) => {
    const url = await urlOfUser(server, `user${i}`, [...rules]);
    const far = await openRedisClient("node-redis", url);
    {
      const quiet = { onWarning: () => {}, disposeTimeoutMs: 300 };
      await using full = new RedisLock(near.client, { ...quiet, ttlMs: KEPT_TTL_MS });
      await using limited = new RedisLock(far.client, { ...quiet, ttlMs: 300 });
      let errors: unknown[] = [];
      let setup: LockSetupError[] = [];
      // On a busy machine the waiter may take the freed lock before the call that should find it free.
      for (let round = 0; round < MAX_ROUNDS && setup.length === 0; round++) {
        errors = await callAll(server, limited, full, `n${i}`);
        setup = errors.filter((error) => error instanceof LockSetupError);
      }
      assert(setup.length > 0, `without ${right}: ${errors.map(String)}`);
      for (const error of setup) {
        assertInstanceOf(error, LockSetupError);
        assert(error.message.includes("NOPERM"), error.message);
      }
      const others = errors.filter((error) => !(error instanceof LockSetupError));
      const names = others.map((error) => (error as Error).name);
      assert(!names.includes("LockUnavailableError"), `without ${right}: ${others.map(String)}`);
    }
    await far.close();
  }));
  await near.close();
});
