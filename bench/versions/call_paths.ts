/**
 * Records the functions and files through which a call reaches the port.
 *
 * @module
 */
import type { RedisClient } from "../../redis/mod.ts";
import type { CallPath, Frame } from "./jobs.ts";
import { portWith, type Version } from "./version.ts";

/** More frames than any call has. */
const STACK_LIMIT = 100;

/** The paths of a contended acquire, of a release, and of an ask by a waiter that was woken. */
export async function recordPaths(version: Version): Promise<CallPath[]> {
  Error.stackTraceLimit = STACK_LIMIT;
  const holds = recordingPort(await version.port(), version.arguments.tree);
  const waits = recordingPort(await version.port(), version.arguments.tree);
  await using holder = version.lock(holds.port);
  await using waiter = version.lock(waits.port);
  const lease = await holder.acquire("path");
  const first = waits.next();
  const waiting = waiter.acquire("path");
  const firstAsk = await first;
  const nextAsk = await waits.next();
  const release = holds.next();
  await lease.release();
  await (await waiting).release();
  return [
    { title: "first ask of a contended acquire", frames: firstAsk },
    { title: "release of a lease", frames: await release },
    { title: "ask of a waiter that was woken", frames: nextAsk },
  ];
}

interface RecordingPort {
  readonly port: RedisClient;
  /** The path of the next script that is sent. */
  next(): Promise<Frame[]>;
}

function recordingPort(port: RedisClient, tree: string): RecordingPort {
  let onScript: ((frames: Frame[]) => void) | null = null;
  const send: RedisClient["send"] = (command, args, key) => {
    if (command === "EVALSHA") {
      onScript?.(framesOf(new Error().stack ?? "", tree));
      onScript = null;
    }
    return port.send(command, args, key);
  };
  return {
    port: portWith(port, { send }),
    next: () => new Promise((resolve) => onScript = resolve),
  };
}

/** The frames of the version's own code, the user's call first. The bench is not part of it. */
export function framesOf(stack: string, tree: string): Frame[] {
  const frames: Frame[] = [];
  for (const line of stack.split("\n")) {
    const start = line.indexOf(tree);
    const file = /^(.*?):\d+:\d+/.exec(line.slice(start + tree.length))?.[1];
    if (start === -1 || file === undefined || /^bench\/|node_modules\//.test(file)) continue;
    const call = line.slice(0, start).replace(/^\s*at /, "").replace(/\s*\($/, "");
    const name = call.replace(/^async\b\s*/, "") || "(anonymous)";
    frames.unshift({ name, file, isAsync: /^async\b/.test(call) });
  }
  return frames;
}
