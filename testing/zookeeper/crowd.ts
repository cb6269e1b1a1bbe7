/**
 * A held lock, processes in which many calls wait for it, and what they send and receive.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { BOUND_MS, type Line, lineUp, startLine, tally } from "../load/waiting_lines.ts";
import { type FaultProxy, startProxy } from "../servers/proxy.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import { startZooKeeper, type ZooKeeperServer } from "../servers/zookeeper.ts";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, LONG_BOUND_MS, scaled } from "../time.ts";
import { newRoot } from "./waiter.ts";

const NAME = "n";
/** On a busy machine, a server may need several seconds to start again. */
const UNAVAILABLE_AFTER_MS = CONDITION_BOUND_MS;
/** 10,000 handoffs, each of which may need 20 ms on a busy machine. */
const DRAIN_BOUND_MS = LONG_BOUND_MS;
/** How long in ms the server is observed to see whether the waiters only wait. */
const SETTLED_MS = scaled(200);
/** How often it is observed. */
const QUIET_TIMES = 3;

/** Options of {@linkcode openCrowd}. */
export interface CrowdOptions {
  readonly processes: number;
  /** The number of waiters in all processes. */
  readonly waiters: number;
  /** @default {KEPT_SESSION_MS} */
  readonly sessionTimeoutMs?: number;
}

/** Requests and bytes. */
export interface Traffic {
  /** The requests that the server has received. */
  readonly packets: number;
  /** The bytes that the waiting processes have received. */
  readonly bytes: number;
}

/** A crowd. */
export interface Crowd extends AsyncDisposable {
  readonly server: ZooKeeperServer;
  readonly lines: readonly Line[];
  /** The connect string of the waiting processes, whose bytes are counted. */
  readonly way: string;
  readonly rootPath: string;
  /** The lease that the crowd waits for. Its instance has its own connection. */
  readonly held: Lease;
  /** Makes the calls. Resolves when all wait, and watch their znodes. */
  lineUp(): Promise<void>;
  /** Waits until all waiters watch their znodes. */
  watching(): Promise<void>;
  /** The traffic so far. */
  traffic(): Promise<Traffic>;
  /** Does some work, and returns its traffic until the clients only wait. It may restart the server. */
  during(work: () => unknown): Promise<Traffic>;
  /** Restarts the server, which is down for a while before it starts again. */
  restart(downMs: number): Promise<void>;
  /**
   * Releases the lock, and waits until all calls have had it, in order, and the processes have ended.
   *
   * @returns How long in ms that took without the ends of the processes.
   */
  drain(): Promise<number>;
}

/** Counts the packets that a server receives from clients. */
export class PacketCounter {
  readonly #server: ZooKeeperServer;
  /** The difference to the server's own count. */
  #offset = 0;
  #last = 0;

  /** Asks nothing yet. */
  constructor(server: ZooKeeperServer) {
    this.#server = server;
  }

  /** The packets so far. */
  async read(): Promise<number> {
    const answer = await this.#ask("srvr");
    return this.#last = Number(/^Received: (\d+)$/m.exec(answer)![1]) + this.#offset;
  }

  /** The number of watches that the server keeps for all clients. */
  async watches(): Promise<number> {
    return Number(/^Total watches:(\d+)/m.exec(await this.#ask("wchs"))![1]);
  }

  async #ask(word: string): Promise<string> {
    const answer = await this.#server.fourLetterWord(word);
    this.#offset--; // The server counts this question, too.
    return answer;
  }

  /** The server is restarting: it forgets its count. */
  restart(): void {
    this.#offset = this.#last;
  }
}

/** Starts a server, a holder, and processes that are connected. */
export async function openCrowd(options: CrowdOptions): Promise<Crowd> {
  const { processes, waiters, sessionTimeoutMs = KEPT_SESSION_MS } = options;
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startZooKeeper());
  const proxy = stack.use(startProxy(server));
  const bytes = countedBytes(proxy);
  const rootPath = newRoot();
  const holder = stack.use(
    new ZooKeeperLock(server.connectString, { rootPath, sessionTimeoutMs }),
  );
  const held = await holder.acquire(NAME);
  const way = `127.0.0.1:${proxy.port}`;
  const common = { strategy: "zookeeper", connectString: way, rootPath } as const;
  const spec = {
    ...common,
    sessionTimeoutMs,
    unavailableAfterMs: UNAVAILABLE_AFTER_MS,
  };
  const line = { spec, name: NAME, waiters: waiters / processes };
  const lines = await Promise.all(Array.from({ length: processes }, () => startLine(line)));
  for (const each of lines) stack.use(each);
  const counter = new PacketCounter(server);
  const traffic = async () => ({ packets: await counter.read(), bytes: bytes() });
  const settled = () => waitUntil("all only wait", () => isSettled(counter, processes), BOUND_MS);
  const watching = () =>
    waitUntil("all have set their watches", async () => {
      return await counter.watches() >= waiters;
    }, BOUND_MS);
  const owned = stack.move();
  return {
    ...{ server, lines, way, rootPath, held, traffic },
    async lineUp() {
      await lineUp(lines);
      await watching();
    },
    watching,
    async during(work) {
      const before = await traffic();
      await work();
      await settled();
      const after = await traffic();
      return { packets: after.packets - before.packets, bytes: after.bytes - before.bytes };
    },
    // Paces a workload: how long the server is down.
    async restart(downMs) {
      await server.kill();
      await pause(downMs);
      await server.restart();
      counter.restart();
    },
    async drain() {
      held.throwIfLost();
      const startMs = performance.now();
      assertEquals(await held.release(), true);
      const isServed = ({ grants, waiters }: Line) => grants.length >= waiters;
      await waitUntil("all were granted", () => lines.every(isServed), DRAIN_BOUND_MS);
      const elapsedMs = performance.now() - startMs;
      await finished(lines);
      return elapsedMs;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function countedBytes(proxy: FaultProxy): () => number {
  let count = 0;
  proxy.onReply = ({ length }) => {
    count += length;
    return "pass";
  };
  return () => count;
}

/** Heartbeats, and checks of the server, may come meanwhile. On a busy machine, a crowd may pause. */
async function isSettled(counter: PacketCounter, processes: number): Promise<boolean> {
  for (let i = 0; i < QUIET_TIMES; i++) {
    const before = await counter.read();
    await pause(SETTLED_MS);
    if (await counter.read() - before > 1 + processes) return false;
  }
  return true;
}

async function finished(lines: readonly Line[]): Promise<void> {
  assertEquals(await Promise.all(lines.map((line) => line.finish())), lines.map(() => 0));
  assertEquals(tally(lines.flatMap((line) => line.rejections)), "none");
  for (const { grants, waiters } of lines) {
    assertEquals(grants.length, waiters);
    assertEquals(grants.filter(({ isValid }) => !isValid), []);
    // A token is the number of the create, so it also shows the order of the calls.
    const tokens = grants.map(({ token }) => BigInt(token));
    assertEquals(tokens, tokens.toSorted((a, b) => a < b ? -1 : 1));
  }
}
