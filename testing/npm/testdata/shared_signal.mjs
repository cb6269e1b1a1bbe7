// deno-lint-ignore-file no-console -- this is a script
// Makes many calls with one abort signal that lives as long as the process. Prints the worst stall of the
// event loop: the longest time of this process's CPU between two of its turns.
//
// node shared_signal.mjs <strategy> <address or directory> <calls>
import { setImmediate as turn } from "node:timers/promises";

const [strategy, address, count] = process.argv.slice(2);
const { signal } = new AbortController();
const FLOWS = 64;
const NAMES = 32;
/** Compilation takes its time, too. */
const WARM_UP = Math.min(20_000, Number(count) / 5);

const OPEN = {
  async memory() {
    const { MemoryLock } = await import("@holdfast/lock");
    return { locks: new MemoryLock(), close() {} };
  },
  async file() {
    const { FileLock } = await import("@holdfast/lock/file");
    return { locks: new FileLock({ dir: address }), close() {} };
  },
  async redis() {
    const { RedisLock } = await import("@holdfast/lock/redis");
    const { nodeRedis } = await import("@holdfast/lock/redis/node-redis");
    const { createClient } = await import("redis");
    const client = await createClient({ url: address }).on("error", () => {}).connect();
    return { locks: new RedisLock(nodeRedis(client)), close: () => client.close() };
  },
  async zookeeper() {
    const { ZooKeeperLock } = await import("@holdfast/lock/zookeeper");
    return { locks: new ZooKeeperLock(address), close() {} };
  },
};

const { locks, close } = await OPEN[strategy]();
const CALLS = [
  async (name) => await (await locks.acquire(name, { signal })).release(),
  async (name) => await (await locks.acquire(name, { signal, waitMs: 600_000 })).release(),
  async (name) => await (await locks.tryAcquire(name, { signal, waitMs: 600_000 })).release(),
  async (name) => await locks.request(name, { signal }, () => {}),
];

let made = 0;
let worstMs = 0;
let isOver = false;
let last = { wallMs: 0, cpuMs: 0 };

function readTimes() {
  const { user, system } = process.cpuUsage();
  return { wallMs: performance.now(), cpuMs: (user + system) / 1_000 };
}

function onTurn() {
  const times = readTimes();
  // Other processes may have had the processor, and other threads may have used this one's time.
  const stallMs = Math.min(times.wallMs - last.wallMs, times.cpuMs - last.cpuMs);
  if (made > WARM_UP) worstMs = Math.max(worstMs, stallMs);
  last = times;
  if (!isOver) setImmediate(onTurn);
}

async function flow(i) {
  while (made < Number(count) + WARM_UP) {
    await CALLS[made++ % CALLS.length](`n${i % NAMES}`);
    if (made % 2 === 0) await turn();
  }
}

last = readTimes();
onTurn();
await Promise.all(Array.from({ length: FLOWS }, (_, i) => flow(i)));
isOver = true;
await locks[Symbol.asyncDispose]();
await close();
console.log(JSON.stringify({ calls: made - WARM_UP, worstMs }));
