/**
 * `deno task bench zookeeper`: measures ZooKeeper locks in rounds interleaved with the fewest requests that
 * could do the same job through the same client package, and with Curator and kazoo where they are
 * installed. Starts its own servers, one and then three, with their data in memory if possible.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { Buffer } from "node:buffer";
import zooKeeper from "node-zookeeper-client";
import { type Driver, type Kind, startDriver } from "../testing/interop/driver.ts";
import { preparePrograms } from "../testing/interop/programs.ts";
import { called, withClient } from "../testing/servers/zookeeper_cleanup.ts";
import { startZooKeeper } from "../testing/servers/zookeeper.ts";
import {
  startZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../testing/servers/zookeeper_ensemble.ts";
import { ZooKeeperLock } from "../zookeeper/mod.ts";
import { inTurns, judged, summary, timed } from "./compare.ts";

const ROUNDS = 15;
const STEPS = 400;
/** The greatest allowed ratio to the fewest requests. */
const LIMIT = 1.25;
/** Rounds that are not measured: the code of a fresh server is not compiled yet. */
const WARM_UP_ROUNDS = 5;
const ROOT = "/bench";

type Done<T = void> = (error: unknown, result?: T) => void;

interface Client {
  create(path: string, data: Buffer, mode: number, done: Done<string>): void;
  getChildren(path: string, done: Done<string[]>): void;
  remove(path: string, done: Done): void;
  mkdirp(path: string, done: Done<string>): void;
}

function result<T>(start: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) =>
    start((error, value) => error ? reject(error) : resolve(value as T))
  );
}

/** Creates a znode, lists its siblings in the same tick, and removes it. */
async function leastRequests(client: Client, steps: number): Promise<void> {
  const { EPHEMERAL_SEQUENTIAL } = zooKeeper.CreateMode;
  for (let i = 0; i < steps; i++) {
    const prefix = `${ROOT}/least/_c_${crypto.randomUUID()}-lock-`;
    const [path] = await Promise.all([
      result<string>((done) => client.create(prefix, Buffer.alloc(0), EPHEMERAL_SEQUENTIAL, done)),
      result<string[]>((done) => client.getChildren(`${ROOT}/least`, done)),
    ]);
    await result<void>((done) => client.remove(path, done));
  }
}

async function ourCycles(locks: ZooKeeperLock, steps: number): Promise<void> {
  for (let i = 0; i < steps; i++) await (await locks.acquire("n")).release();
}

/** Compares our lock with the fewest requests, in one process. */
async function uncontended(connectString: string): Promise<boolean> {
  let ratio = Infinity;
  await withClient(connectString, async (cleanupClient) => {
    const client = cleanupClient as unknown as Client;
    await called<string>("A path", (done) => client.mkdirp(`${ROOT}/least`, done));
    await using locks = new ZooKeeperLock(connectString, { rootPath: ROOT });
    const jobs = [
      () => timed(STEPS, (steps) => ourCycles(locks, steps)),
      () => timed(STEPS, (steps) => leastRequests(client, steps)),
    ];
    await inTurns(WARM_UP_ROUNDS, jobs);
    const rows = await inTurns(ROUNDS, jobs);
    print("uncontended acquire and release", ["ours", "fewest requests"], rows);
    ratio = summary(rows, 1).ratio;
  });
  const { text, isWithin } = judged(ratio, LIMIT);
  console.log(`  ${text}`);
  return isWithin;
}

/** Compares our lock with Curator and kazoo, each in a process with its own session. */
async function besideOthers(connectString: string, servers: string): Promise<void> {
  const programs = await preparePrograms();
  const kinds: Kind[] = ["ours"];
  if (programs.curator.command) kinds.push("curator");
  if (programs.kazoo.command) kinds.push("kazoo");
  for (const { line } of Object.values(programs)) console.log(`for comparison: ${line}`);
  const drivers: Driver[] = [];
  try {
    for (const kind of kinds) {
      const place = { connectString, path: `${ROOT}/${kind}` };
      drivers.push(await startDriver(kind, place, programs));
    }
    for (const waiters of [1, 8]) {
      const jobs = drivers.map((driver) => async () => {
        await driver.send(`time ${waiters} ${STEPS}`);
        return Number(await driver.line());
      });
      await inTurns(WARM_UP_ROUNDS, jobs);
      const name = waiters === 1 ? "uncontended" : `${waiters} contenders`;
      print(`${name}, a process each, ${servers}`, kinds, await inTurns(ROUNDS, jobs));
    }
    for (const driver of drivers) await driver.end();
  } finally {
    for (const driver of drivers) await driver[Symbol.asyncDispose]();
  }
}

function print(name: string, titles: readonly string[], rows: readonly number[][]): void {
  console.log(`${name}: ${titles[0]} ${summary(rows, 0).us.toFixed(0)} µs`);
  for (const [column, title] of titles.entries()) {
    if (column === 0) continue;
    const { us, ratio, least, most } = summary(rows, column);
    const range = `${least.toFixed(2)} to ${most.toFixed(2)}`;
    console.log(`  ${title} ${us.toFixed(0)} µs, ratio ${ratio.toFixed(2)} (${range})`);
  }
}

if (import.meta.main) {
  await using server = await startZooKeeper();
  if (!await uncontended(server.connectString)) Deno.exitCode = 1;
  await besideOthers(server.connectString, "one server");
  const skip = await zooKeeperEnsembleSkip();
  if (skip === undefined) {
    await using ensemble = await startZooKeeperEnsemble();
    await besideOthers(ensemble.connectString, "three servers");
  } else console.log(`three servers: skipped, because ${skip}`);
}
