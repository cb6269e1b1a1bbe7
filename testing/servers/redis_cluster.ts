/**
 * Starts Redis Clusters for tests: three masters on this machine.
 *
 * @module
 */

import { slotOf } from "../../redis/protocol/keys.ts";
import { type OwnSource, serverSource } from "./find.ts";
import { findLocalRedis } from "./find_local.ts";
import { freeClusterPort } from "./ports.ts";
import { type RedisServer, startRedis } from "./redis.ts";
import { waitUntil } from "./wait.ts";

const MASTERS = 3;
const SLOTS = 16_384;

/** A cluster that belongs to one test. */
export interface RedisCluster extends AsyncDisposable {
  /** The masters; a test may kill, pause and restart each of them. */
  readonly masters: readonly RedisServer[];
  /** The address for clients: one of the masters. */
  readonly url: string;
  /** The master that owns a key, as the masters report it. */
  masterOf(key: string): Promise<RedisServer>;
  /**
   * Moves the slot of a key, with all its keys, to another master.
   *
   * @param meanwhile Called after the move has begun and before any key is moved.
   */
  moveSlot(key: string, target: RedisServer, meanwhile?: () => Promise<void>): Promise<void>;
  /** Resolves when all masters report that the cluster works. */
  ready(): Promise<void>;
  /** Starts a replica of this master. Resolves when it is in sync and may be promoted. */
  addReplica(master: RedisServer): Promise<RedisServer>;
}

/** Why no cluster can be started on this machine; `undefined` if one can. */
export async function redisClusterSkip(): Promise<string | undefined> {
  if (await localSource() !== undefined) return undefined;
  return "the nodes of a cluster must reach each other, so redis-server must be installed here";
}

/** Starts three masters that share the slots, with additional arguments. */
export async function startRedisCluster(
  options: { readonly args?: readonly string[] } = {},
): Promise<RedisCluster> {
  const source = await localSource();
  if (source === undefined) throw new Error("Cannot start a cluster: install redis-server");
  await using stack = new AsyncDisposableStack();
  const args = ["--cluster-enabled", "yes", ...options.args ?? []];
  const masters: RedisServer[] = [];
  while (masters.length < MASTERS) {
    masters.push(stack.use(await startRedis({ args, source, choosePort: freeClusterPort })));
  }
  await join(masters);
  const cluster = control(masters, stack.move(), () => {
    return startRedis({ args, source, choosePort: freeClusterPort });
  });
  try {
    await cluster.ready();
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
  return cluster;
}

/** Only local servers work: a container announces an address that the others cannot reach. */
async function localSource(): Promise<OwnSource | undefined> {
  const { own } = await serverSource("redis");
  if (own?.kind === "local") return own;
  const local = await findLocalRedis();
  return local && { kind: "local", command: local.command };
}

/** Shares the slots and introduces the masters to each other. */
async function join(masters: readonly RedisServer[]): Promise<void> {
  const [first, ...others] = masters;
  for (const [index, { command }] of masters.entries()) {
    const start = Math.ceil(index * SLOTS / masters.length);
    const end = Math.ceil((index + 1) * SLOTS / masters.length);
    const slots = Array.from({ length: end - start }, (_, offset) => start + offset);
    // Distinct epochs: otherwise the masters would first have to agree on them.
    await command("CLUSTER", "SET-CONFIG-EPOCH", index + 1);
    await command("CLUSTER", "ADDSLOTS", ...slots);
  }
  for (const { hostname, port } of others) {
    await first!.command("CLUSTER", "MEET", hostname, port);
  }
}

function control(
  masters: readonly RedisServer[],
  stack: AsyncDisposableStack,
  startNode: () => Promise<RedisServer>,
): RedisCluster {
  const masterOf = async (key: string) => {
    const slot = slotOf(key);
    const range = (await slotsOf(masters)).find(([from, to]) => from <= slot && slot <= to);
    return masters.find(({ port }) => port === range?.[2][1])!;
  };
  return {
    masters,
    url: masters[0]!.url,
    masterOf,
    async moveSlot(key, target, meanwhile) {
      await moveSlot(slotOf(key), masters, await masterOf(key), target, meanwhile);
    },
    async ready() {
      for (const master of masters) await waitUntil("the cluster works", () => isReady(master));
    },
    async addReplica(master) {
      const replica = stack.use(await startNode());
      const masterId = await idOf(master);
      await replica.command("CLUSTER", "MEET", master.hostname, master.port);
      await waitUntil("it is a replica", async () => {
        return await replica.command("CLUSTER", "REPLICATE", masterId).catch(() => "") === "OK";
      });
      await waitUntil("the replica is in sync", async () => {
        return String(await replica.command("INFO", "replication")).includes("link_status:up");
      });
      // A failover that is asked for before would be accepted, and never come.
      const replicaId = await idOf(replica);
      const known = new RegExp(`^${replicaId} .* ${masterId} .* connected`, "m");
      for (const { command } of masters) {
        await waitUntil("all reach the replica", async () => {
          return known.test(String(await command("CLUSTER", "NODES")));
        });
      }
      return replica;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** A range of slots and the address of its master. */
type SlotRange = [from: number, to: number, master: [hostname: string, port: number]];

/** The owners of the slots, as reported by the first master that answers. */
async function slotsOf(masters: readonly RedisServer[]): Promise<SlotRange[]> {
  for (const { command } of masters) {
    const slots = await command("CLUSTER", "SLOTS").catch(() => null);
    if (slots !== null) return slots as SlotRange[];
  }
  throw new Error("Cannot read the slots: no master of the cluster answers");
}

async function isReady({ command }: RedisServer): Promise<boolean> {
  const info = String(await command("CLUSTER", "INFO").catch(() => ""));
  return info.includes("cluster_state:ok") && info.includes(`cluster_slots_ok:${SLOTS}`) &&
    info.includes(`cluster_known_nodes:${MASTERS}`);
}

/** Moves a slot with the commands that an administrator would use. */
async function moveSlot(
  slot: number,
  masters: readonly RedisServer[],
  source: RedisServer,
  target: RedisServer,
  meanwhile?: () => Promise<void>,
): Promise<void> {
  const [sourceId, targetId] = [await idOf(source), await idOf(target)];
  await target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceId);
  await source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", targetId);
  await meanwhile?.();
  for (;;) {
    const keys = await source.command("CLUSTER", "GETKEYSINSLOT", slot, 1_000) as string[];
    if (keys.length === 0) break;
    const to = [target.hostname, target.port, "", 0, 5_000];
    await source.command("MIGRATE", ...to, "KEYS", ...keys);
  }
  for (const { command } of [target, source, ...masters]) {
    await command("CLUSTER", "SETSLOT", slot, "NODE", targetId);
  }
}

async function idOf({ command }: RedisServer): Promise<string> {
  return String(await command("CLUSTER", "MYID"));
}
