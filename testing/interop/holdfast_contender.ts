/**
 * Contends for a lock with `ZooKeeperLock`. `driver.ts` describes the protocol. Arguments: connect
 * string, path of the lock, label.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import type { Buffer } from "node:buffer";
import { openSync, writeSync } from "node:fs";
import process from "node:process";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";
import { called, withClient } from "../servers/zookeeper_cleanup.ts";
import { pause } from "../servers/wait.ts";
import { linesOf } from "../runtime/lines.ts";
import { isShared } from "./record.ts";
import { scriptInput } from "../runtime/processes.ts";

const SECTION_MS = 1;

type Done<T> = (error: unknown, result?: T) => void;

/** The parts of the package that read znodes. */
interface Client {
  getChildren(path: string, done: Done<string[]>): void;
  getData(path: string, done: Done<Buffer | undefined>): void;
}

interface Contender {
  readonly connectString: string;
  /** Another session, to read znodes. */
  readonly client: Client;
  readonly rootPath: string;
  readonly name: string;
  readonly label: string;
  isStopped: boolean;
}

/** Returns the sequence number of the znode with a label: a lease does not reveal its znode's name. */
async function sequenceOf({ client, rootPath, name }: Contender, label: string): Promise<string> {
  const path = `${rootPath}/${name}`;
  const names = await called<string[]>("The list", (done) => client.getChildren(path, done));
  for (const child of names!.sort((a, b) => a.slice(-10) < b.slice(-10) ? -1 : 1)) {
    const read = (done: Done<Buffer | undefined>) => client.getData(`${path}/${child}`, done);
    const data = await called("The data of a znode", read).catch((error) => {
      if ((error as { name?: string }).name === "NO_NODE") return; // another contender has just left
      throw error;
    });
    if (data?.toString() === label) return child.slice(-10);
  }
  throw new Error(`No znode holds "${label}"`);
}

async function contend(contender: Contender, label: string, recordFile: string): Promise<void> {
  const { connectString, rootPath, name } = contender;
  const record = openSync(recordFile, "a");
  const write = (text: string) => void writeSync(record, text);
  await using locks = new ZooKeeperLock(connectString, { rootPath, label });
  const mode = isShared(contender.label) ? "shared" : "exclusive";
  while (!contender.isStopped) {
    const lease = await locks.acquire(name, { mode });
    const who = `${contender.label} ${await sequenceOf(contender, label)}`;
    write(`enter ${who}\n`);
    await pause(SECTION_MS);
    write(`leave ${who}\n`);
    if (!await lease.release()) throw new Error("The lease was lost");
  }
}

/** Returns the µs per acquire and release, with `waiters` concurrent calls of one instance. */
async function time(locks: ZooKeeperLock, name: string, waiters: number, steps: number) {
  const startMs = performance.now();
  let left = steps;
  await Promise.all(Array.from({ length: waiters }, async () => {
    while (left-- > 0) await (await locks.acquire(name)).release();
  }));
  return ((performance.now() - startMs) * 1_000) / steps;
}

async function serve(contender: Contender, locks: ZooKeeperLock): Promise<void> {
  const contending: Promise<void>[] = [];
  const orders = linesOf(scriptInput());
  for (let line; (line = await orders.next()) !== null;) {
    const [word, waiters, last] = line.split(" ") as [string, string, string];
    if (word === "contend") {
      for (let i = 0; i < Number(waiters); i++) {
        contending.push(contend(contender, `${contender.label}-${i}`, last));
      }
    } else console.log(await time(locks, contender.name, Number(waiters), Number(last)));
  }
  contender.isStopped = true;
  await Promise.all(contending);
}

if (import.meta.main) {
  const [connectString, path, label] = process.argv.slice(2) as [string, string, string];
  const slash = path.lastIndexOf("/");
  const [rootPath, name] = [path.slice(0, slash), path.slice(slash + 1)];
  await withClient(connectString, async (client) => {
    await using locks = new ZooKeeperLock(connectString, { rootPath });
    await locks.query(name); // Opens the session.
    console.log("ready");
    const options = { connectString, client: client as unknown as Client, rootPath, name, label };
    await serve({ ...options, isStopped: false }, locks);
  });
}
