import { SYSTEM_CLOCK, TIMED_OUT, within } from "../../core/time/clock.ts";
import { parseLockUrl } from "../../open/lock_url.ts";
import { openClient } from "../../open/redis.ts";
import { bad, type Finding, good, notChecked } from "./finding.ts";
import { tryLock } from "./trial.ts";

const DEFAULT_TTL_MS = 10_000;
const ANSWER_WITHIN_MS = 3_000;
const PINGS = 10;
/** A round trip of more than this part of the TTL leaves too few attempts for a renewal. */
const MAX_TRIP_SHARE = 1 / 20;
const MAX_CLOCK_DIFFERENCE_MS = 1_000;
const NEARLY_FULL = 0.9;
const CLUSTER_SLOTS = "16384";

type Send = (command: string, ...args: string[]) => Promise<unknown>;

/** Judges what the Redis or Valkey server at a URL risks for locks. In a cluster, one of its masters. */
export async function judgeRedis(url: string): Promise<Finding[]> {
  const trial = await tryLock(url);
  const { client, connected, strategy } = await openClient(parseLockUrl(url));
  const send: Send = (command, ...args) => answered(client.send(command, args, ""));
  try {
    const isConnected = await answered(connected).then(() => true, () => false);
    if (!isConnected) return trial.findings; // which say why
    return [
      ...trial.findings,
      await judgeRoundTrip(send, strategy.ttlMs ?? DEFAULT_TTL_MS),
      await judgeClock(send),
      ...await judgeInfo(send, client.cluster),
    ];
  } finally {
    await client.close?.();
  }
}

/** Rejects if there is no answer in time: a client may keep a command forever. */
async function answered<T>(reply: Promise<T>): Promise<T> {
  const answer = await within(SYSTEM_CLOCK, reply, ANSWER_WITHIN_MS);
  if (answer === TIMED_OUT) throw new Error("no answer");
  return answer;
}

async function judgeRoundTrip(send: Send, ttlMs: number): Promise<Finding> {
  const subject = "round trip";
  try {
    const times: number[] = [];
    for (let i = 0; i < PINGS; i++) {
      const startMs = performance.now();
      await send("PING");
      times.push(performance.now() - startMs);
    }
    const medianMs = times.sort((a, b) => a - b)[PINGS / 2]!;
    const text = `${medianMs.toFixed(1)} ms, TTL ${ttlMs} ms`;
    if (medianMs <= ttlMs * MAX_TRIP_SHARE) return good(subject, text);
    return bad(subject, `${text}: a few slow answers lose a lease`, "raise ttlMs in the URL");
  } catch (error) {
    return notChecked(subject, error);
  }
}

async function judgeClock(send: Send): Promise<Finding> {
  const subject = "clock";
  try {
    const sentMs = Date.now();
    const [seconds, micros] = await send("TIME") as [string, string];
    const middleMs = (sentMs + Date.now()) / 2;
    const aheadMs = Math.round(Number(seconds) * 1_000 + Number(micros) / 1_000 - middleMs);
    if (Math.abs(aheadMs) <= MAX_CLOCK_DIFFERENCE_MS) return good(subject, `${aheadMs} ms ahead`);
    return bad(
      subject,
      `${aheadMs} ms ahead of this machine: after a failover or a loss of data, fencing tokens may shrink`,
      "synchronise the clocks by NTP on both machines",
    );
  } catch (error) {
    return notChecked(subject, error);
  }
}

/** All that INFO tells. */
async function judgeInfo(send: Send, isClusterClient: boolean): Promise<Finding[]> {
  let info: ReadonlyMap<string, string>;
  try {
    info = fieldsOf(await send("INFO"));
  } catch (error) {
    return ["version", "memory", "persistence", "replication", "connections", "cluster"]
      .map((subject) => notChecked(subject, error));
  }
  return [
    judgeVersion(info),
    ...judgeMemory(info),
    await judgePersistence(info, send),
    await judgeReplication(info, send),
    judgeConnections(info),
    ...await judgeCluster(info, send, isClusterClient),
  ];
}

/** The fields of INFO, or of CLUSTER INFO. */
function fieldsOf(reply: unknown): ReadonlyMap<string, string> {
  const lines = String(reply).split(/\r?\n/).filter((line) => line.includes(":"));
  return new Map(lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1)];
  }));
}

function judgeVersion(info: ReadonlyMap<string, string>): Finding {
  const isValkey = info.has("valkey_version");
  const name = isValkey ? "Valkey" : "Redis";
  const version = info.get(isValkey ? "valkey_version" : "redis_version") ?? "";
  const oldestMajor = isValkey ? 7 : 6;
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isNew = major > oldestMajor || (major === oldestMajor && minor >= 2);
  if (isNew) return good("version", `${name} ${version}`);
  const text = `${name} ${version} is not supported`;
  return bad("version", text, `install ${name} ${oldestMajor}.2 or later`);
}

function judgeMemory(info: ReadonlyMap<string, string>): Finding[] {
  const limit = Number(info.get("maxmemory"));
  const policy = info.get("maxmemory_policy") ?? "";
  if (limit === 0) return [good("eviction", "no memory limit")];
  const share = Number(info.get("used_memory")) / limit;
  return [
    policy === "noeviction" ? good("eviction", policy) : bad(
      "eviction",
      `${policy}: a full server deletes locks that are held, and grants them again`,
      "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
    ),
    share < NEARLY_FULL ? good("memory", `${Math.round(share * 100)} % used`) : bad(
      "memory",
      `${Math.round(share * 100)} % used: a full server refuses to grant and to renew`,
      "raise maxmemory, or move the locks to a server of their own",
    ),
  ];
}

/** What a restart, or a crash of the machine, may lose. */
async function judgePersistence(info: ReadonlyMap<string, string>, send: Send): Promise<Finding> {
  const subject = "persistence";
  if (info.get("aof_last_write_status") === "err" || info.get("rdb_last_bgsave_status") === "err") {
    const text = "the last save has failed: the server may refuse to grant and to renew";
    return bad(subject, text, "look into the server's log, free disk space");
  }
  if (info.get("aof_enabled") !== "1") {
    return bad(
      subject,
      "no append-only file: a restart forgets locks that are held, and grants them again",
      "CONFIG SET appendonly yes, and in redis.conf; or fencing tokens at the resource",
    );
  }
  try {
    const value = settingIn(await send("CONFIG", "GET", "appendfsync"));
    if (value !== "no") return good(subject, `append-only file, synced ${value}`);
    return bad(
      subject,
      "the append-only file is never synced: a crash of the machine forgets the last locks",
      "CONFIG SET appendfsync everysec, and in redis.conf",
    );
  } catch (error) {
    return notChecked(subject, error);
  }
}

async function judgeReplication(info: ReadonlyMap<string, string>, send: Send): Promise<Finding> {
  const subject = "replication";
  if (info.get("role") !== "master") {
    return bad(subject, "a read-only replica: it grants nothing", "connect to the primary");
  }
  const replicas = Number(info.get("connected_slaves"));
  if (replicas === 0) return good(subject, "no replicas");
  try {
    const needed = settingIn(await send("CONFIG", "GET", "min-replicas-to-write"));
    const maxLagS = settingIn(await send("CONFIG", "GET", "min-replicas-max-lag"));
    // 0 turns the check off in either of them.
    if (Number(needed) > 0 && Number(maxLagS) > 0) {
      return good(subject, `${replicas} replicas, writes need ${needed} within ${maxLagS} s`);
    }
    const settings = [
      ...Number(needed) > 0 ? [] : ["CONFIG SET min-replicas-to-write 1"],
      ...Number(maxLagS) > 0 ? [] : ["CONFIG SET min-replicas-max-lag 10"],
    ];
    return bad(
      subject,
      "a primary that is cut off from its replicas goes on granting, beside the one that replaces it",
      `${settings.join(", ")}, and in redis.conf`,
    );
  } catch (error) {
    return notChecked(subject, error);
  }
}

/** The value in the reply of CONFIG GET for one setting: a list, or with RESP 3 an object. */
function settingIn(reply: unknown): unknown {
  const list = Array.isArray(reply) ? reply : Object.entries(Object(reply)).flat();
  if (list.length !== 2) throw new Error("the server does not tell");
  return list[1];
}

function judgeConnections(info: ReadonlyMap<string, string>): Finding {
  const subject = "connections";
  const [used, limit] = [Number(info.get("connected_clients")), Number(info.get("maxclients"))];
  if (!(limit > 0)) return notChecked(subject, "the server does not tell its limit");
  if (used < limit * NEARLY_FULL) return good(subject, `${used} of ${limit}`);
  return bad(
    subject,
    `${used} of ${limit}: at the limit, a holder that must reconnect loses its lease`,
    "CONFIG SET maxclients, and in redis.conf",
  );
}

async function judgeCluster(
  info: ReadonlyMap<string, string>,
  send: Send,
  isClusterClient: boolean,
): Promise<Finding[]> {
  const subject = "cluster";
  if (info.get("cluster_enabled") !== "1") return [];
  if (!isClusterClient) {
    const text = "the server is a node of a cluster: it refuses most locks";
    return [bad(subject, text, "write redis+cluster:// in the URL")];
  }
  try {
    const cluster = fieldsOf(await send("CLUSTER", "INFO"));
    const state = cluster.get("cluster_state");
    const slots = cluster.get("cluster_slots_ok");
    if (state === "ok" && slots === CLUSTER_SLOTS) return [good(subject, "all slots are served")];
    const text = `state ${state}, ${slots} of ${CLUSTER_SLOTS} slots served: other locks fail`;
    return [bad(subject, text, "redis-cli --cluster fix HOST:PORT")];
  } catch (error) {
    return [notChecked(subject, error)];
  }
}
