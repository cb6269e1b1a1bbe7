/**
 * Measures what each path through the scripts costs the server.
 *
 * @module
 */
import { type RedisServer, startRedis } from "../../servers/redis.ts";
import { Crowd, type CrowdSize, isFinished, type ScriptCall } from "./scripted_crowd.ts";
import { type Path, STAGES } from "./paths.ts";

/** A search that goes on for many calls is measured in the first ones. */
const MAX_CALLS = 2;

/** The cost of one call to the server. */
export interface Cost {
  /** Commands that the script called. */
  readonly commands: number;
  /** Items in the replies to these commands: what the script looked at. */
  readonly items: number;
  /** Bytes of the reply to the client. */
  readonly bytes: number;
  /** The server's own time in µs. */
  readonly us: number;
}

/** The cost of the dearest call on a path. */
export interface PathCost extends Cost {
  readonly stage: string;
  readonly path: string;
  readonly looksFurther: boolean;
  readonly size: CrowdSize;
}

/**
 * Measures all paths with a crowd of this size.
 *
 * @param timings How many runs are timed without the counter. If none, its own time is in the times.
 */
export async function measureGrowth(size: CrowdSize, timings = 0): Promise<PathCost[]> {
  await using server = await startRedis();
  await using crowd = await Crowd.open(server, size);
  const meter = { server, crowd, timings };
  const costs: PathCost[] = [];
  for (const stage of STAGES) {
    await crowd.restore();
    await stage.enter(crowd);
    for (const path of stage.paths) {
      const { title, looksFurther = false } = path;
      const place = { stage: stage.title, path: title, looksFurther, size };
      costs.push({ ...place, ...await measure(meter, path) });
    }
  }
  return costs;
}

interface Meter {
  readonly server: RedisServer;
  readonly crowd: Crowd;
  readonly timings: number;
}

async function measure(meter: Meter, path: Path): Promise<Cost> {
  const cost = await run(meter, path, (call) => meter.crowd.count(call));
  const plain = async (call: ScriptCall) => ({ reply: await meter.crowd.run(call), items: 0 });
  let us = meter.timings > 0 ? Infinity : cost.us;
  for (let i = 0; i < meter.timings; i++) us = Math.min(us, (await run(meter, path, plain)).us);
  return { ...cost, us };
}

type Run = (call: ScriptCall) => Promise<{ reply: unknown; items: number }>;

/** The greatest cost of a path's calls. */
async function run({ server, crowd }: Meter, path: Path, execute: Run): Promise<Cost> {
  await crowd.restore();
  await path.prepare?.(crowd);
  let [commands, items, bytes, us] = [0, 0, 0, 0];
  for (const call of path.calls(crowd)) {
    let isOver = false;
    for (let i = 0; i < MAX_CALLS && !isOver; i++) {
      const before = await scriptCosts(server);
      const { reply, items: read } = await execute(call);
      const after = await scriptCosts(server);
      isOver = isFinished(call, reply);
      commands = Math.max(commands, after.commands - before.commands);
      items = Math.max(items, read);
      bytes = Math.max(bytes, replySize(reply));
      us = Math.max(us, after.us - before.us);
    }
  }
  return { commands, items, bytes, us };
}

/** Commands of the measurement itself. */
const OURS = /^(info|eval|evalsha|script|script\|load)$/;

/** The cost of all scripts so far. */
export async function scriptCosts(
  { command }: RedisServer,
): Promise<Pick<Cost, "commands" | "us">> {
  const info = String(await command("INFO", "commandstats"));
  let [commands, us] = [0, 0];
  const lines = info.matchAll(/^cmdstat_(.+?):calls=(\d+),usec=(\d+)/gm);
  for (const [, name, calls, spentUs] of lines) {
    if (!OURS.test(name!)) commands += Number(calls);
    if (/^eval/.test(name!)) us += Number(spentUs);
  }
  return { commands, us };
}

/** The bytes of a reply in RESP2. */
function replySize(reply: unknown): number {
  if (reply === null) return "$-1\r\n".length;
  if (typeof reply === "number") return `:${reply}\r\n`.length;
  if (Array.isArray(reply)) {
    return reply.reduce((sum, item) => sum + replySize(item), `*${reply.length}\r\n`.length);
  }
  const { length } = new TextEncoder().encode(String(reply));
  return `$${length}\r\n`.length + length + 2;
}
