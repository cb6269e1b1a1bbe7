/**
 * `holdfast doctor` finds each planted misconfiguration of a real server, and none on a good one.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { runCommandLine } from "../../command/command_line.ts";
import { finishHoldfast } from "../../testing/command/holdfast.ts";
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "../../redis/protocol/scripts.ts";
import { aclRules, commandRights } from "../../testing/redis/acl_rule.ts";
import { freePort } from "../../testing/servers/ports.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { type RedisCommand, type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { redisClusterSkip, startRedisCluster } from "../../testing/servers/redis_cluster.ts";
import {
  PRIMARY_NAME,
  redisSentinelSkip,
  startRedisSentinels,
} from "../../testing/servers/redis_sentinel.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import {
  startZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../../testing/servers/zookeeper_ensemble.ts";

const TRIAL = "a lock, its queue and its handoff";
const GOOD = ["--appendonly", "yes"];
const RIGHTS = commandRights([ASK, LEAVE, QUERY, RENEW, STEAL]);
/** Rights by which the doctor looks. */
const LOOKING = ["ping", "time", "config|get"];

interface Finding {
  readonly subject: string;
  readonly state: string;
  readonly text: string;
}

/** Runs the doctor, in this process. */
async function examine(
  url: string,
): Promise<{ code: number; findings: Finding[]; output: string }> {
  const lines: string[] = [];
  const print = (text: string) => void lines.push(text);
  const code = await runCommandLine(["doctor", "--json"], { url, say: print, print });
  const findings = lines.filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Finding);
  return { code, findings, output: lines.join("\n") };
}

/** The subjects in a state. */
function subjects(
  { findings }: { readonly findings: readonly Finding[] },
  state: string,
): string[] {
  const found = findings.filter((finding) => finding.state === state);
  return [...new Set(found.map(({ subject }) => subject))];
}

/** Examines; it must find these, and nothing else. */
async function assertBad(url: string, ...expected: readonly string[]): Promise<void> {
  const report = await examine(url);
  assertEquals(subjects(report, "bad"), expected, report.output);
  assertEquals(report.code, expected.length > 0 ? 1 : 0, report.output);
  assertEquals(subjects(report, "not checked"), [], report.output);
}

Deno.test("holdfast doctor: a good Redis server", async () => {
  await using server = await startRedis({ args: GOOD });
  await assertBad(server.url);
});

/** What is wrong, how it is planted, and the subject that must be bad. */
const PLANTED: Readonly<
  Record<string, readonly [plant: (command: RedisCommand) => Promise<unknown>, subject: string]>
> = {
  "an eviction policy": [async (command) => {
    await command("CONFIG", "SET", "maxmemory", "1gb");
    await command("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
  }, "eviction"],
  "no append-only file": [(command) => command("CONFIG", "SET", "appendonly", "no"), "persistence"],
  "a file that is never synced": [
    (command) => command("CONFIG", "SET", "appendfsync", "no"),
    "persistence",
  ],
  "a memory limit that is almost reached": [async (command) => {
    await command("CONFIG", "SET", "maxmemory-policy", "noeviction");
    const used = /used_memory:(\d+)/.exec(String(await command("INFO", "memory")))![1];
    await command("CONFIG", "SET", "maxmemory", Math.round(Number(used) * 1.05));
  }, "memory"],
};

for (const [what, [plant, subject]] of Object.entries(PLANTED)) {
  Deno.test(`holdfast doctor: finds ${what}`, async () => {
    await using server = await startRedis({ args: GOOD });
    await plant(server.command);
    const report = await examine(server.url);
    assert(subjects(report, "bad").includes(subject), report.output);
    assertEquals(report.code, 1);
  });
}

Deno.test("holdfast doctor: finds that almost all connections are in use", async () => {
  await using server = await startRedis({ args: [...GOOD, "--maxclients", "67"] });
  const idle = await Promise.all(Array.from({ length: 60 }, () => Deno.connect(server)));
  await assertBad(server.url, "connections");
  for (const each of idle) each.close();
});

/** A user with the rights of the docs but one. */
async function withoutRight(
  server: RedisServer,
  right: string,
  ...more: string[]
): Promise<string> {
  const rules = aclRules([...RIGHTS, ...LOOKING], "lock:");
  await server.command("ACL", "SETUSER", "locks", "on", ">secret", ...rules, right, ...more);
  return server.url.replace("redis://", "redis://locks:secret@");
}

for (
  const [what, right] of [
    ["a command of the scripts", "-hset"],
    ["the right to run scripts", "-evalsha"],
    ["the right to publish", "-publish"],
    ["the right to subscribe", "-subscribe"],
    ["the right to the channels", "resetchannels"],
  ] as const
) {
  Deno.test(`holdfast doctor: finds that ${what} is missing`, async () => {
    await using server = await startRedis({ args: GOOD });
    await assertBad(await withoutRight(server, right), TRIAL);
  });
}

Deno.test("holdfast doctor: without the right to look, nothing is good", async () => {
  await using server = await startRedis({ args: GOOD });
  const url = await withoutRight(server, "-info", "-config|get", "-ping");
  const report = await examine(url);
  assertEquals(report.code, 2, report.output);
  assertEquals(subjects(report, "good"), [TRIAL, "clock"], report.output);
  assert(!report.output.includes("secret"));
});

Deno.test("holdfast doctor: finds a slow path", async () => {
  await using server = await startRedis({ args: GOOD });
  await using proxy = await startProxy(server);
  proxy.onReply = () => ({ delayMs: 100 });
  const report = await examine(`redis://127.0.0.1:${proxy.port}?ttlMs=1000`);
  assert(subjects(report, "bad").includes("round trip"), report.output);
  assertEquals(report.code, 1, report.output);
});

Deno.test("holdfast doctor: no server is an outage", async () => {
  const url = `redis://127.0.0.1:${freePort()}?unavailableAfterMs=50`;
  const { code, stdout } = await finishHoldfast(["doctor"], url);
  assertEquals(code, 1);
  assertMatch(stdout, /^BAD {2}a lock, its queue and its handoff: .*ECONNREFUSED.*\n$/);
});

const sentinelSkip = await redisSentinelSkip();
Deno.test({
  name: "holdfast doctor: finds a primary that does not wait for replicas, and a replica" +
    (sentinelSkip === undefined ? "" : ` [skipped: ${sentinelSkip}]`),
  ignore: sentinelSkip !== undefined,
  async fn() {
    await using servers = await startRedisSentinels();
    for (const { command } of [servers.primary, servers.replica]) {
      await command("CONFIG", "SET", "appendonly", "yes");
      await command("CONFIG", "SET", "min-replicas-to-write", 0);
    }
    await assertBad(servers.primary.url, "replication");
    const sentinels = servers.sentinels.map(({ host, port }) => `${host}:${port}`).join();
    for (const client of ["redis", "ioredis"]) {
      const url = `redis+sentinel://${sentinels}/${PRIMARY_NAME}?client=${client}`;
      await assertBad(url, "replication");
    }
    // 0 turns the same feature off.
    const { command } = servers.primary;
    await command("CONFIG", "SET", "min-replicas-to-write", 1);
    await assertBad(servers.primary.url);
    await command("CONFIG", "SET", "min-replicas-max-lag", 0);
    await assertBad(servers.primary.url, "replication");
    const replica = await examine(servers.replica.url);
    assert(subjects(replica, "bad").includes("replication"), replica.output);
  },
});

const clusterSkip = await redisClusterSkip();
Deno.test({
  name: "holdfast doctor: finds slots without a master, and a cluster behind redis:" +
    (clusterSkip === undefined ? "" : ` [skipped: ${clusterSkip}]`),
  ignore: clusterSkip !== undefined,
  async fn() {
    await using cluster = await startRedisCluster({
      args: [...GOOD, "--cluster-require-full-coverage", "no"],
    });
    const hosts = cluster.masters.map(({ port }) => `127.0.0.1:${port}`).join();
    await assertBad(`redis+cluster://${hosts}`);
    assert(subjects(await examine(cluster.url), "bad").includes("cluster"));
    for (const { command } of cluster.masters) {
      await command("CLUSTER", "DELSLOTS", 1).catch(() => {}); // known to one of them only
    }
    const report = await examine(`redis+cluster://${hosts}`);
    assert(subjects(report, "bad").includes("cluster"), report.output);
  },
});

Deno.test("holdfast doctor: finds a single ZooKeeper server, and its limit of sessions", async () => {
  await using server = await startZooKeeper({ maxSessionTimeoutMs: 1_000 });
  const report = await examine(`zookeeper://${server.connectString}`);
  const server_ = `server ${server.connectString}`;
  assertEquals(subjects(report, "bad"), ["session timeout", "servers in the URL", server_]);
});

const ensembleSkip = await zooKeeperEnsembleSkip();
Deno.test({
  name: "holdfast doctor: a good ensemble of ZooKeeper, and one with a server that is down" +
    (ensembleSkip === undefined ? "" : ` [skipped: ${ensembleSkip}]`),
  ignore: ensembleSkip !== undefined,
  async fn() {
    await using ensemble = await startZooKeeperEnsemble();
    const hosts = ensemble.members.map(({ port }) => `127.0.0.1:${port}`);
    await assertBad(`zookeeper://${hosts.join()}`);
    const down = `127.0.0.1:${freePort()}`;
    await assertBad(`zookeeper://${[...hosts.slice(1), down].join()}`, `server ${down}`);
  },
});
