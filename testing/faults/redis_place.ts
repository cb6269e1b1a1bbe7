/**
 * The place of `RedisLock`: a Redis server and its replica, behind a proxy for each worker.
 *
 * @module
 */
import type { RedisClientName } from "../conformance/lock_spec.ts";
import { keysLeft } from "../redis/residue.ts";
import { type FaultProxy, startProxy } from "../servers/proxy.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { scaled } from "../time.ts";
import type { Residue } from "./history.ts";
import { replayedCommands } from "./link_faults.ts";
import type { FaultTable, Healing, Place } from "./place.ts";
import { LOCK_PREFIX, REDIS_CLOCK_FAULTS, REDIS_FAULTS } from "./redis_faults.ts";
import type { ClockMaker, WallClock } from "./wall_clock.ts";

const TTL_MS = scaled(1_000);
const CLIENTS: readonly RedisClientName[] = ["node-redis", "ioredis", "deno-redis-like"];
/** No `fsync`: the operating system keeps written data when a process is killed. */
const ARGS = [
  ...["--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"],
  ...["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"],
];

/** The two servers. */
export class RedisPair implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  /** The target of the proxies: the current master. */
  readonly target: { hostname: string; port: number };
  /** The highest wall clock time in ms that a server has shown before a step. */
  #highestMs = 0;
  #lastLossMs = -Infinity;

  private constructor(
    public master: RedisServer,
    public replica: RedisServer,
    /** The link from the replica to its master. */
    public link: FaultProxy,
    readonly clock: WallClock | null,
  ) {
    this.target = { hostname: master.hostname, port: master.port };
    this.#stack.use(master);
    this.#stack.use(replica);
  }

  /** Starts both. */
  static async start(clock: WallClock | null): Promise<RedisPair> {
    const options = { args: ARGS, ...clock && { env: clock.env } };
    const master = await startRedis(options);
    const replica = await startRedis(options);
    const pair = new RedisPair(master, replica, startProxy(master), clock);
    await pair.follow();
    return pair;
  }

  /** Steps the wall clock of both. */
  step(aheadMs: number): void {
    this.#highestMs = Math.max(this.#highestMs, this.#serverMs);
    this.clock!.set(aheadMs);
  }

  /** Sets the clock right, which is a clock step itself. */
  heal(): Healing | void {
    if (this.clock === null || this.clock.aheadMs === 0) return;
    const tokensMayRepeat = this.clock.aheadMs > 0 && this.hasJustLost;
    this.step(0);
    return { target: "redis", destructive: true, tokensMayRepeat };
  }

  /** Notes a loss of data at this moment; true if tokens may decrease because of it. */
  lose(): boolean {
    this.#lastLossMs = performance.now();
    return this.#highestMs > this.#serverMs;
  }

  /** Whether data were lost within the last 10 s: some locks may not have been granted since. */
  get hasJustLost(): boolean {
    return performance.now() - this.#lastLossMs < 10_000;
  }

  get #serverMs(): number {
    return Date.now() + (this.clock?.aheadMs ?? 0);
  }

  /** Makes the replica follow the master, and waits until it has all data. */
  async follow(): Promise<void> {
    const { replica, link } = this;
    await replica.command("REPLICAOF", link.hostname, link.port);
    await waitUntil("the replica has all data", async () => {
      return String(await replica.command("INFO", "replication")).includes("master_link_status:up");
    });
  }

  /** Promotes the replica to master. The former master becomes the replica once it runs again. */
  async swap(): Promise<void> {
    await this.replica.command("REPLICAOF", "NO", "ONE");
    [this.master, this.replica] = [this.replica, this.master];
    this.target.port = this.master.port;
    await this.link[Symbol.asyncDispose]();
    this.link = startProxy(this.master);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.link[Symbol.asyncDispose]();
    await this.#stack.disposeAsync();
  }
}

/** Starts the servers and the proxies. */
export async function redisPlace(workers: number, makeClock: ClockMaker | null): Promise<Place> {
  await using stack = new AsyncDisposableStack();
  const pair = stack.use(await RedisPair.start(makeClock?.("redis") ?? null));
  const proxies = Array.from({ length: workers }, () => stack.use(startProxy(pair.target)));
  const disposal = stack.move();
  return {
    ...{ strategy: "redis", fifo: true, ttlMs: TTL_MS },
    specFor: (worker) => ({
      ...{ strategy: "redis", keyPrefix: LOCK_PREFIX, ttlMs: TTL_MS } as const,
      client: CLIENTS[worker % CLIENTS.length]!,
      url: `redis://127.0.0.1:${proxies[worker]!.port}`,
    }),
    linksOf: (worker) => [proxies[worker]!],
    faults: faultsOf(pair),
    skipped: pair.clock ? {} : { "server-clock": "it needs Linux and a C compiler" },
    heal: () => Promise.resolve(pair.heal()),
    residue: (boundMs) => residueOf(pair.master, boundMs),
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

function faultsOf(pair: RedisPair): FaultTable {
  const faults = { ...REDIS_FAULTS, ...pair.clock && REDIS_CLOCK_FAULTS };
  const bound = Object.entries(faults).map(([name, { run, ...fault }]) =>
    [name, { ...fault, run: (stage: Parameters<typeof run>[1]) => run(pair, stage) }] as const
  );
  const replay = replayedCommands(() => pair.master.url);
  return { ...Object.fromEntries(bound), "replayed-commands": replay };
}

/** Counts what the workers left. Queue entries of dead workers disappear after half a minute. */
async function residueOf(server: RedisServer, boundMs: number): Promise<Residue[]> {
  let residue: Residue[] = [];
  await waitUntil("nothing is left", async () => {
    residue = await look(server).catch((error) => [
      { what: `unknown residue, as Redis does not answer (${error})`, count: 1 },
    ]);
    return residue.every(({ count }) => count === 0);
  }, boundMs).catch(() => {}); // the residue is reported
  return residue;
}

async function look({ command }: RedisServer): Promise<Residue[]> {
  const clients = String(await command("CLIENT", "LIST")).trim().split("\n");
  const users = clients.filter((line) => !/ flags=S /.test(line)).length - 1; // without this connection
  const channels = await command("PUBSUB", "CHANNELS") as string[];
  return [
    { what: "keys", count: (await keysLeft(command)).length },
    { what: "connections to Redis", count: users },
    { what: "subscriptions", count: channels.length },
  ];
}
