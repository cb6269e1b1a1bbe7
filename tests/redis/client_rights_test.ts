/**
 * The rights that the client packages need in a cluster and with sentinels, besides those of the locks: they
 * are those of the docs, they are enough, and each is used.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "../../redis/protocol/scripts.ts";
import { within } from "../../testing/conformance/bounds.ts";
import {
  aclRules,
  CLIENT_RIGHTS,
  clientRules,
  commandRights,
  type TopologyClientName,
} from "../../testing/redis/acl_rule.ts";
import { openAsUser, type TopologyUsers } from "../../testing/redis/topology_clients.ts";
import { collectRejections } from "../../testing/runtime/reports.ts";
import type { RedisCommand } from "../../testing/servers/redis.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";
import { redisSentinelSkip, startRedisSentinels } from "../../testing/servers/redis_sentinel.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

const RULES = aclRules(commandRights([ASK, LEAVE, QUERY, RENEW, STEAL]), "lock:");
const PAGE = Deno.readTextFileSync(new URL("../../docs/redis-clients.md", import.meta.url));
const PASSWORD = "secret";
const GIVE_UP_MS = 500;
const PATIENT_MS = CONDITION_BOUND_MS;
/** The packages name their connections, and ignore a refusal. */
const NAMES_CONNECTION = /^client\b/;

/** Servers of one kind, and what is needed to log in there. */
interface Stage {
  readonly lockServers: readonly RedisCommand[];
  /** Where the packages need rights of their own: the nodes of the cluster, or the sentinels. */
  readonly topologyServers: readonly RedisCommand[];
  readonly users: Omit<TopologyUsers, "username" | "password">;
}

let users = 0;

/** Makes a user on all servers; those of the locks and of the topology may be the same. */
async function makeUser(stage: Stage, rules: readonly string[]): Promise<string> {
  const username = `user${++users}`;
  const isCluster = stage.lockServers === stage.topologyServers;
  const set = (servers: readonly RedisCommand[], rules: readonly string[]) =>
    Promise.all(servers.map((command) => {
      return command("ACL", "SETUSER", username, "reset", "on", `>${PASSWORD}`, ...rules);
    }));
  await set(stage.lockServers, [...RULES, ...isCluster ? rules : []]);
  if (!isCluster) await set(stage.topologyServers, ["resetchannels", ...rules]);
  return username;
}

/** The commands and channels that servers have refused this user, but for the names of connections. */
async function deniedTo(username: string, servers: readonly RedisCommand[]): Promise<string[]> {
  const logs = await Promise.all(servers.map((command) => command("ACL", "LOG", 100)));
  const entries = (logs as string[][][]).flat();
  const field = (entry: string[], name: string) => entry[entry.indexOf(name) + 1]!;
  return entries.filter((entry) => field(entry, "username") === username)
    .map((entry) => field(entry, "object")).filter((object) => !NAMES_CONNECTION.test(object));
}

/** One process holds the lock, another waits for it and is granted it. */
async function useLock(open: ReturnType<typeof openAsUser>, unavailableAfterMs: number) {
  const options = { ttlMs: LONG_TTL_MS, unavailableAfterMs, disposeTimeoutMs: unavailableAfterMs };
  await using holder = new RedisLock(open.client, options);
  await using waiter = new RedisLock(open.client, options);
  const name = crypto.randomUUID();
  const lease = await holder.acquire(name);
  let waits = false;
  const waiting = waiter.acquire(name, { onWait: () => void (waits = true) });
  waiting.catch(() => {});
  await waitUntil("it waits", () => waits);
  await lease.release();
  await (await within("the waiter is granted", waiting)).release();
}

async function checkRights(client: TopologyClientName, stage: Stage): Promise<void> {
  const all = [...new Set([...stage.lockServers, ...stage.topologyServers])];
  {
    const username = await makeUser(stage, clientRules(client));
    await using open = openAsUser(client, { ...stage.users, username, password: PASSWORD });
    await within("it connects", open.connected);
    assertEquals(await deniedTo(username, all), [], client);
  }
  const { required, optional } = CLIENT_RIGHTS[client];
  const rights = [...required, ...optional].filter((right) => right !== "asking");
  await Promise.all(rights.map(async (right) => {
    const username = await makeUser(stage, clientRules(client, right));
    await using open = openAsUser(client, { ...stage.users, username, password: PASSWORD });
    await waitUntil(`${client} is refused ${right}`, async () => {
      const denied = await deniedTo(username, stage.topologyServers);
      return denied.some((object) => object === right || object === right.split("|")[0]);
    });
    if (optional.includes(right)) await useLock(open, PATIENT_MS);
    else await assertRejects(() => useLock(open, GIVE_UP_MS), Error, undefined, right);
  }));
}

/** The answer to a client whose key is being moved, so that the server redirects it. */
async function askDuringMove(
  client: TopologyClientName,
  cluster: Awaited<ReturnType<typeof startRedisCluster>>,
  stage: Stage,
  without?: string,
): Promise<unknown> {
  const username = await makeUser(stage, clientRules(client, without));
  await using open = openAsUser(client, { ...stage.users, username, password: PASSWORD });
  await within("it connects", open.connected);
  const key = `lock:${crypto.randomUUID()}`;
  const source = await cluster.masterOf(key);
  const target = cluster.masters.find(({ port }) => port !== source.port)!;
  let answer: unknown;
  await cluster.moveSlot(key, target, async () => {
    answer = await open.client.send("EXISTS", [key], key).catch((error) => error);
  });
  return answer;
}

for (const client of Object.keys(CLIENT_RIGHTS) as TopologyClientName[]) {
  Deno.test(`docs/redis-clients.md has the rights that ${client} needs`, () => {
    const rules = clientRules(client).join(" ");
    const [name, mode] = client.split(/-(?=[a-z]+$)/);
    const row = PAGE.split("\n- ").find((text) => text.startsWith(`**${name}, ${mode}**`)) ?? "";
    assert(row.replaceAll(/\s+/g, " ").includes(`\`${rules}\``), `${row} lacks ${rules}`);
  });
}

function test(title: string, skip: string | undefined, fn: () => Promise<void>) {
  const note = skip === undefined ? "" : ` [skipped: ${skip}]`;
  Deno.test({ name: `${title}${note}`, ignore: skip !== undefined, fn });
}

test(
  "Cluster clients work with the documented rights, and not without one",
  await redisClusterSkip(),
  async () => {
    await using cluster = await startRedisCluster();
    const servers = cluster.masters.map(({ command }) => command);
    const addresses = [{ host: "127.0.0.1", port: cluster.masters[0]!.port }];
    const stage = { lockServers: servers, topologyServers: servers, users: { addresses } };
    using unhandled = collectRejections();
    const clients = ["node-redis-cluster", "ioredis-cluster"] as const;
    await Promise.all(clients.map((client) => checkRights(client, stage)));
    for (const client of clients) {
      assertEquals(await askDuringMove(client, cluster, stage), 0, client);
      assertEquals(unhandled.messages, []);
      const error = await askDuringMove(client, cluster, stage, "asking");
      assert(error instanceof Error, `${client}: ${error}`);
    }
    // The docs warn of it: this ends a process.
    const { messages } = unhandled;
    assert(messages.some((reason) => reason.includes("'asking'")), messages.join("\n"));
  },
);

test(
  "Sentinel clients work with the documented rights, and not without one",
  await redisSentinelSkip(),
  async () => {
    await using servers = await startRedisSentinels();
    await using stack = new AsyncDisposableStack();
    const sentinels = await Promise.all(
      servers.sentinels.map(({ host, port }) => connectResp(`redis://${host}:${port}`)),
    );
    for (const sentinel of sentinels) stack.use(sentinel);
    const stage = {
      lockServers: [servers.primary.command, servers.replica.command],
      topologyServers: sentinels.map(({ command }) => command),
      users: { addresses: servers.sentinels },
    };
    const clients = ["node-redis-sentinel", "ioredis-sentinel"] as const;
    await Promise.all(clients.map((client) => checkRights(client, stage)));
  },
);
