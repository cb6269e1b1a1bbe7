/**
 * Meters of what work costs a Redis server and this process.
 *
 * @module
 */
import process from "node:process";
import v8 from "node:v8";
import type { RedisCommand } from "../../testing/servers/redis.ts";

/** The counters of a server at a moment. */
export interface ServerCounters {
  /** CPU time in µs. */
  readonly cpuUs: number;
  /** Bytes received and sent. */
  readonly bytes: number;
  /** How often each command was executed, inside scripts too. */
  readonly calls: Readonly<Record<string, number>>;
  /** The time in commands that clients sent, in µs. Times in scripts are contained in their script's. */
  readonly commandUs: Readonly<Record<string, number>>;
}

/** Reads the counters of a server. */
export async function readServer(command: RedisCommand): Promise<ServerCounters> {
  const text = String(await command("INFO", "everything"));
  const field = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(text)?.[1]);
  const calls: Record<string, number> = {};
  const commandUs: Record<string, number> = {};
  for (const [, name, count, us] of text.matchAll(/^cmdstat_(\S+?):calls=(\d+),usec=(\d+)/gm)) {
    calls[name!] = Number(count);
    commandUs[name!] = Number(us);
  }
  return {
    cpuUs: (field("used_cpu_user") + field("used_cpu_sys")) * 1e6,
    bytes: field("total_net_input_bytes") + field("total_net_output_bytes"),
    calls,
    commandUs,
  };
}

/** The cost of work to a server. */
export interface ServerCost {
  readonly cpuUs: number;
  readonly bytes: number;
  /** How many commands of the given names the server executed. */
  readonly commands: number;
  /** The time in them in µs. */
  readonly commandUs: number;
}

/** The cost between two readings; `names` are the commands that clients send. */
export function serverCost(
  before: ServerCounters,
  after: ServerCounters,
  names: readonly string[],
): ServerCost {
  const grown = (key: "calls" | "commandUs") =>
    names.reduce((sum, name) => sum + (after[key][name] ?? 0) - (before[key][name] ?? 0), 0);
  return {
    cpuUs: after.cpuUs - before.cpuUs,
    bytes: after.bytes - before.bytes,
    commands: grown("calls"),
    commandUs: grown("commandUs"),
  };
}

/** The cost of work to this process. */
export interface ProcessCost {
  readonly wallUs: number;
  readonly cpuUs: number;
  readonly allocatedBytes: number;
}

/** Runs work, and measures what it costs this process. */
export async function measured(work: () => Promise<void>): Promise<ProcessCost> {
  const bytes = allocatedBytes();
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  await work();
  const wallUs = (performance.now() - startMs) * 1_000;
  const { user, system } = process.cpuUsage(cpu);
  return { wallUs, cpuUs: user + system, allocatedBytes: allocatedBytes() - bytes };
}

/** All bytes that V8 has ever allocated in this process; NaN where it does not count them. */
function allocatedBytes(): number {
  const statistics: { total_allocated_bytes?: number } = v8.getHeapStatistics();
  return statistics.total_allocated_bytes ?? NaN;
}
