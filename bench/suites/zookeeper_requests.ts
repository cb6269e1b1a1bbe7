/**
 * The fewest requests that make a lock on ZooKeeper, in rounds interleaved with our lock.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import zooKeeper from "node-zookeeper-client";
import { called, withClient } from "../../testing/servers/zookeeper_cleanup.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import type { FigureBook } from "../library/figures.ts";
import { measured } from "../library/meters.ts";
import type { Progress } from "../library/progress.ts";
import { type RoundOptions, runRounds } from "../library/rounds.ts";
import { REQUESTS, US } from "./zookeeper_report.ts";

const ROOT = "/bench-requests";
const CYCLES = 400;

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
async function fewestRequests(client: Client): Promise<void> {
  const { EPHEMERAL_SEQUENTIAL } = zooKeeper.CreateMode;
  const parent = `${ROOT}/fewest`;
  const prefix = `${parent}/_c_${crypto.randomUUID()}-lock-`;
  const [path] = await Promise.all([
    result<string>((done) => client.create(prefix, Buffer.alloc(0), EPHEMERAL_SEQUENTIAL, done)),
    result<string[]>((done) => client.getChildren(parent, done)),
  ]);
  await result<void>((done) => client.remove(path, done));
}

/** Measures both in one process. */
export async function measureRequests(
  connectString: string,
  rounds: RoundOptions,
  book: FigureBook,
  progress: Progress,
): Promise<void> {
  await withClient(connectString, async (cleanupClient) => {
    const client = cleanupClient as unknown as Client;
    await called<string>("A path", (done) => client.mkdirp(`${ROOT}/fewest`, done));
    await using locks = new ZooKeeperLock(connectString, { rootPath: ROOT });
    const job = (contender: string, cycle: () => Promise<unknown>) => ({
      contender,
      at: { servers: 1 },
      async run() {
        const { wallUs } = await measured(async () => {
          for (let i = 0; i < CYCLES; i++) await cycle();
        });
        return { [US]: wallUs / CYCLES };
      },
    });
    const ours = async () => await (await locks.acquire("n")).release();
    const jobs = [job("holdfast", ours), job(REQUESTS, () => fewestRequests(client))];
    await runRounds(jobs, rounds, book, progress);
  });
}
