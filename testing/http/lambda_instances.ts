/**
 * Starts instances of a function: real processes, each with its own Runtime API, as in AWS Lambda. The
 * process itself is in `lambda_instance.ts`.
 *
 * @module
 */
import type { OptionalLambdaLockOptions } from "../../http/lambda.ts";
import type { RedisClientName } from "../conformance/open_lock.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import type { RedisServer } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { RuntimeApi, type RuntimeContext } from "./lambda_runtime.ts";
import { LONG_BOUND_MS } from "../time.ts";

/** How long in ms an invocation may take unless a test says otherwise. */
export const TIMEOUT_MS = LONG_BOUND_MS;

/** Where the locks live. */
export type LockPlace =
  | { readonly strategy: "file"; readonly dir: string }
  | {
    readonly strategy: "redis";
    readonly client: RedisClientName;
    readonly url: string;
    readonly keyPrefix: string;
    /** The TTL of the lock that all invocations of an instance share. */
    readonly ttlMs: number;
    readonly unavailableAfterMs?: number;
  };

/** Whether all invocations share a lock, or a factory makes one for each. */
export type LockForm = "shared" | "factory";

/** The options of an instance. */
export interface InstanceOptions {
  /** Where its Runtime API listens. */
  readonly url: string;
  readonly place: LockPlace;
  readonly form: LockForm;
}

/** An event. Its other members decide whether it is an HTTP request. */
export interface InstanceEvent {
  readonly id: string;
  readonly key?: string;
  /** Tells the handler what to do; `gate` and `write` wait until the test opens the gate of this id. */
  readonly mode: "quick" | "gate" | "write" | "throw";
  readonly form?: LockForm;
  readonly options?: Omit<OptionalLambdaLockOptions<InstanceEvent, RuntimeContext>, "key">;
  readonly [more: string]: unknown;
}

/** An event in a handler of an instance. */
export interface InstanceReport {
  readonly id: string;
  readonly what: "entered" | "aborted" | "left" | "written" | "refused";
  readonly token?: string | null;
  /** When the invocation is killed, in ms of wall time. */
  readonly killedAtMs?: number;
  readonly reason?: string;
  readonly throws?: string | null;
  readonly aborted?: boolean;
}

/** The outcome of an invocation. */
export interface Reply {
  readonly ok: boolean;
  // deno-lint-ignore no-explicit-any -- any value that a handler returns
  readonly value: any;
}

/** An instance that runs. */
export interface Instance extends AsyncDisposable {
  readonly pid: number;
  /** Invokes the function. An event without an id gets a random one. */
  invoke(event: Partial<InstanceEvent>, timeoutMs?: number): Promise<Reply>;
  /** Waits until an event has happened in the handler, and returns it. */
  report(id: string, what: InstanceReport["what"]): Promise<InstanceReport>;
  /** Returns all events in the handler for this id so far. */
  reports(id: string): InstanceReport["what"][];
  /** Opens the gate of this id: its handler continues. */
  open(id: string): Promise<void>;
  kill(signal: Deno.Signal): void;
  /** Ends the instance gracefully, which AWS never does. Resolves with its exit code. */
  finish(): Promise<number>;
}

/** Waits until the lease of a lock on Redis has been renewed this often: every third of its TTL. */
export async function untilRenewed(
  { command }: RedisServer,
  key: string,
  times: number,
): Promise<void> {
  let renewals = 0;
  let beforeMs = Infinity;
  await waitUntil(`${key} is renewed`, async () => {
    const leftMs = Number(await command("PTTL", key));
    if (leftMs > beforeMs) renewals++;
    beforeMs = leftMs;
    return renewals >= times;
  });
}

/** Starts an instance. `script` is the module that the process runs. */
export async function startInstance(
  place: LockPlace,
  form: LockForm,
  script = "./lambda_instance.ts",
): Promise<Instance> {
  const api = new RuntimeApi(TIMEOUT_MS);
  const { reports, ...process }: Reporter<InstanceReport> = startReporter(
    new URL(script, import.meta.url),
    { url: api.url, place, form } satisfies InstanceOptions,
  );
  const find = (id: string, what: string) => reports.find((r) => r.id === id && r.what === what);
  return await Promise.resolve({
    pid: process.pid,
    async invoke(event, timeoutMs) {
      const full = { id: crypto.randomUUID(), mode: "quick", ...event };
      const { ok, body } = await api.invoke(full, timeoutMs);
      return { ok, value: JSON.parse(body) };
    },
    async report(id, what) {
      await waitUntil(`${id} ${what}`, () => find(id, what) !== undefined);
      return find(id, what)!;
    },
    reports: (id) => reports.flatMap((report) => report.id === id ? [report.what] : []),
    open: process.send,
    kill: process.kill,
    finish: process.finish,
    async [Symbol.asyncDispose]() {
      await process[Symbol.asyncDispose]();
      await api[Symbol.asyncDispose]();
    },
  });
}
