/**
 * The process of a trial: takes and holds a lock of one package, on orders from its input.
 *
 * @module
 */
// Paces a workload: a worker tries again after an error.
import { Redis } from "ioredis";
import { linesOf } from "../../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../runtime/processes.ts";
import { nowUs } from "../../processes/machine_clock.ts";
import { pause } from "../../servers/wait.ts";
import type { WorkerEvent } from "../history.ts";
import { type Hold, openPeer, type Peer, type PeerLock, type PeerOptions } from "./locks.ts";

/** How often in ms a holder asks the package whether it still has the lock. */
const ASK_EVERY_MS = 10;
/** The pause in ms between two attempts. */
const RETRY_MS = 20;

/** Options of the process. */
export interface PeerWorkerOptions extends PeerOptions {
  readonly peer: Peer;
  readonly url: string;
  readonly worker: string;
}

/** A lock that is taken once before a trial, so that all scripts are loaded when the trial begins. */
export function warmUpName({ peer, worker }: PeerWorkerOptions): string {
  return `warm:${peer}:${worker}`;
}

type Tell = (kind: WorkerEvent["kind"], more?: Partial<WorkerEvent>) => void;

/** Holds the lock until the package reports its loss, or until `stop` aborts. */
async function work(hold: Hold, stop: AbortSignal, tell: Tell): Promise<void> {
  const { signal } = hold;
  tell("granted");
  const isLost = new Promise<void>((resolve) => {
    const onLost = () => {
      tell("lost");
      resolve();
    };
    if (signal.aborted) onLost();
    else signal.addEventListener("abort", onLost, { once: true });
  });
  // The record must show what the package claims at each moment, not what turns out later.
  const watch = setInterval(() => {
    if (hold.isMine()) tell("renewed");
  }, ASK_EVERY_MS);
  const isStopped = new Promise((resolve) => stop.addEventListener("abort", resolve));
  if (!stop.aborted) await Promise.race([isLost, isStopped]);
  clearInterval(watch);
  if (!signal.aborted) tell("releasing");
}

/** Tries once; resolves with whether the lock was granted. */
async function attempt(
  lock: PeerLock,
  { worker }: PeerWorkerOptions,
  name: string,
  stop: AbortSignal,
): Promise<boolean> {
  const call = crypto.randomUUID().slice(0, 8);
  const tell: Tell = (kind, more) => {
    const atUs = nowUs();
    // The package claims the lock for this moment. How long that will last is not known.
    const claim = kind === "granted" || kind === "renewed" ? { deadlineUs: atUs + 1 } : {};
    const event: WorkerEvent = { atUs, worker, call, name, kind, ...claim, ...more };
    print(`${JSON.stringify(event)}\n`);
  };
  let isGranted = false;
  tell("invoke");
  try {
    await lock.hold(name, (hold) => {
      isGranted = true;
      return work(hold, stop, tell);
    });
    tell("released");
  } catch (error) {
    // In some packages, the release rejects when the lock was lost.
    tell(isGranted ? "released" : "failed", { reason: String(error).slice(0, 120) });
  }
  return isGranted;
}

async function main(options: PeerWorkerOptions): Promise<void> {
  // Some packages do not handle the rejections of failed renewals.
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  const client = new Redis(options.url).on("error", () => {});
  const lock = openPeer(options.peer, client, options);
  const stop = new AbortController();
  await attempt(lock, options, warmUpName(options), AbortSignal.abort());
  const orders = linesOf(scriptInput());
  let holding = Promise.resolve();
  for (let line; (line = await orders.next()) !== null;) {
    const [order, name = ""] = line.split(" ");
    if (order === "stop") stop.abort();
    else {
      holding = (async () => {
        while (!await attempt(lock, options, name, stop.signal) && order === "until") {
          await pause(RETRY_MS);
        }
      })();
    }
  }
  stop.abort();
  await holding;
  await lock[Symbol.asyncDispose]();
  client.disconnect();
}

if (import.meta.main) await main(scriptArgument());
