/**
 * An instance of a function, for {@linkcode startInstance}: a process that takes events from its Runtime
 * API and does what they say. Prints events of its handlers; lines on its input open gates.
 *
 * @module
 */
import { setImmediate as turn } from "node:timers/promises";
import { fencedRedis, StaleTokenError } from "../../fencing/mod.ts";
import { FileLock } from "../../file/mod.ts";
import { lambdaLock, NO_LOCK } from "../../http/lambda.ts";
import type { DistributedLock, Lease, LeaseLostError } from "../../mod.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { openRedisClient } from "../redis/clients.ts";
import { Gates } from "./handler.ts";
import type { InstanceEvent, InstanceOptions, InstanceReport } from "./lambda_instances.ts";
import { type RuntimeContext, runtimeLoop } from "./lambda_runtime.ts";

/** The locks of an instance, for both forms of `lambdaLock()`. */
interface Locking {
  readonly shared: DistributedLock;
  readonly factory: (ttlMs: number) => DistributedLock;
  /** The client for fenced writes, which Redis rejects after a later lease. */
  readonly client?: RedisClient;
}

const gates = new Gates();

function report(line: InstanceReport): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(line)}\n`));
}

async function openLocking(
  { place }: InstanceOptions,
  stack: AsyncDisposableStack,
): Promise<Locking> {
  if (place.strategy === "file") {
    const factory = () => new FileLock({ dir: place.dir });
    return { shared: stack.use(factory()), factory };
  }
  const { client, close } = await openRedisClient(place.client, place.url);
  stack.defer(close);
  const { keyPrefix, ttlMs, unavailableAfterMs = 5_000 } = place;
  const make = (ttlMs: number) => new RedisLock(client, { keyPrefix, ttlMs, unavailableAfterMs });
  return { shared: stack.use(make(ttlMs)), factory: make, client };
}

/** The handler of the function. */
async function handle(
  { id, key, mode }: InstanceEvent,
  context: RuntimeContext,
  lease: Lease | undefined,
  client: RedisClient | undefined,
): Promise<unknown> {
  const startUs = nowUs();
  const token = lease === undefined ? null : String(lease.fencingToken);
  const killedAtMs = Date.now() + context.getRemainingTimeInMillis();
  lease?.signal.addEventListener("abort", () => {
    const { reason } = lease.signal.reason as LeaseLostError;
    report({ id, what: "aborted", reason });
  });
  report({ id, what: "entered", token, killedAtMs });
  if (mode === "throw") throw new RangeError("The handler has failed");
  if (mode === "gate" || mode === "write") await gates.pass(id);
  else await turn();
  if (lease !== undefined && mode !== "quick") report({ id, what: "left", ...judge(lease) });
  if (mode === "write") await write(client!, key!, id, lease!);
  return { statusCode: 200, token, held: [startUs, nowUs()] };
}

/** Returns whether `throwIfLost()` throws, and whether the signal has aborted. */
function judge(lease: Lease): Pick<InstanceReport, "throws" | "aborted"> {
  let throws = null;
  try {
    lease.throwIfLost();
  } catch (error) {
    throws = (error as Error).name;
  }
  return { throws, aborted: lease.signal.aborted };
}

async function write(client: RedisClient, key: string, id: string, lease: Lease): Promise<void> {
  try {
    await fencedRedis(client).run(key, lease.fencingToken, ["SET", `value:${key}`, id]);
    report({ id, what: "written" });
  } catch (error) {
    if (!(error instanceof StaleTokenError)) throw error;
    report({ id, what: "refused" });
  }
}

/** Runs the instance until its input ends. */
export async function main(options: InstanceOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const locking = await openLocking(options, stack);
  const stop = new AbortController();
  const loop = runtimeLoop<InstanceEvent>(options.url, (event, context) => {
    const lock = locking[event.form ?? options.form];
    const wrap = lambdaLock(lock, {
      ...event.options,
      key: ({ key }: InstanceEvent) => key ?? NO_LOCK,
    });
    const handler = wrap((event, context: RuntimeContext, lease) =>
      handle(event, context, lease, locking.client)
    );
    return handler(event, context);
  }, stop.signal);
  const lines = Deno.stdin.readable.pipeThrough(new TextDecoderStream());
  for await (const text of lines) for (const gate of text.trim().split("\n")) gates.open(gate);
  stop.abort();
  await loop;
}

// Without Deno.exit(): if anything is left open, the process stays alive, and the test fails.
if (import.meta.main) await main(JSON.parse(Deno.args[0]!));
