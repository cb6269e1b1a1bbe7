/**
 * A process that holds a lock of some package while it is told to, for the trials.
 *
 * @module
 */
import { Redis } from "ioredis";
import { linesOf } from "../../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../runtime/processes.ts";
import { nowUs } from "../../processes/clock.ts";
import { pause } from "../../servers/wait.ts";
import type { WorkerEvent } from "../history.ts";
import { type Hold, openPeer, type Peer, type PeerLock, type PeerOptions } from "./locks.ts";

/** How often in ms a holder asks whether it still is one. */
const ASK_EVERY_MS = 10;
/** Between two tries. */
const RETRY_MS = 20;

/** What the process is to do. */
export interface PeerWorkerOptions extends PeerOptions {
  readonly peer: Peer;
  readonly url: string;
  readonly worker: string;
}

/** Taken once, and told of by its `released`, so that scripts are loaded when a trial begins. */
export function warmUpName({ peer, worker }: PeerWorkerOptions): string {
  return `warm:${peer}:${worker}`;
}

type Tell = (kind: WorkerEvent["kind"], more?: Partial<WorkerEvent>) => void;

/** Works with what it holds until it is told that it lost it, or to stop. */
async function work(hold: Hold, stop: AbortSignal, tell: Tell): Promise<void> {
  const { signal } = hold;
  tell("granted", { deadlineUs: nowUs() });
  const isLost = new Promise<void>((resolve) => {
    const onLost = () => {
      tell("lost");
      resolve();
    };
    if (signal.aborted) onLost();
    else signal.addEventListener("abort", onLost, { once: true });
  });
  // Good as long as the package says so, not as long as it will turn out to have been.
  const watch = setInterval(() => {
    if (hold.isMine()) tell("renewed", { deadlineUs: nowUs() });
  }, ASK_EVERY_MS);
  const isStopped = new Promise((resolve) => stop.addEventListener("abort", resolve));
  if (!stop.aborted) await Promise.race([isLost, isStopped]);
  clearInterval(watch);
  if (!signal.aborted) tell("releasing");
}

/** Tries once; tells how it went. */
async function attempt(
  lock: PeerLock,
  { worker }: PeerWorkerOptions,
  name: string,
  stop: AbortSignal,
): Promise<boolean> {
  const call = crypto.randomUUID().slice(0, 8);
  const tell: Tell = (kind, more) => {
    const event: WorkerEvent = { atUs: nowUs(), worker, call, name, kind, ...more };
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
    // Of some packages a release fails when the lock was lost.
    tell(isGranted ? "released" : "failed", { reason: String(error).slice(0, 120) });
  }
  return isGranted;
}

async function main(options: PeerWorkerOptions): Promise<void> {
  // Some packages leave failed renewals to nobody.
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
