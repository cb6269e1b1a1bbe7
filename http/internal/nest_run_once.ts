// Any version: it must be that of the application.
import { Inject } from "npm:@nestjs/common@x";
import type { DistributedLock } from "../../core/contract/distributed_lock.ts";
import { checkName } from "../../core/contract/options.ts";
import { readRunOnceOptions, runOnce, type RunOnceOptions } from "../../recipes/run_once.ts";

/**
 * The token of the lock that `Lock` and {@linkcode RunOnce} use:
 * `{ provide: LOCKS, useFactory: () => new RedisLock(…) }`. Without it, the application does not start.
 */
export const LOCKS: symbol = Symbol.for("@holdfast/lock/LOCKS");

/** The member of an object with jobs that Nest sets to its lock. */
const OWN_LOCKS = Symbol("the lock of @RunOnce()");

/**
 * Runs a job of `@nestjs/schedule` in one of many processes per tick, by the lock of {@linkcode LOCKS}: above
 * or below `@Cron()` on a method of a provider or a controller. The method gets the lease as its only argument.
 *
 * The lock stays held until `keepMs` after the start, also if the job is shorter, so that a process that is late does
 * not run it again. Runs never overlap: a tick that comes while one lasts does not run, so set `maxHoldMs` if a job
 * may hang. Choose a `keepMs` that is longer than the processes can differ in when they start, and shorter than the
 * period less that. With `@Interval()`, where each process counts from its own start, choose one a little below the
 * period, or each process runs the job. In an outage the job does not run, and Nest logs the error. A call of the
 * method by your own code is such a run, too; it resolves with the value, or with `undefined` if the job did not run.
 *
 * @param name The name of the lock.
 * @param options How long the lock is kept, and held at most.
 * @throws {TypeError|RangeError} If an argument is bad.
 *
 * @example The decorator, applied as a function
 * ```ts
 * import type { Lease } from "@holdfast/lock";
 * import { RunOnce } from "@holdfast/lock/http/nestjs";
 *
 * class Jobs {
 *   async report(lease: Lease) {
 *     await fetch("https://example.com/report", { method: "POST", signal: lease.signal });
 *   }
 * }
 * const { prototype } = Jobs;
 * const descriptor = Object.getOwnPropertyDescriptor(prototype, "report")!;
 * // As decorators: @Cron("0 * * * * *") @RunOnce("report", { keepMs: 30_000 })
 * RunOnce("report", { keepMs: 30_000 })(prototype, "report", descriptor);
 * Object.defineProperty(prototype, "report", descriptor);
 * ```
 */
export function RunOnce(
  name: string,
  options: Pick<RunOnceOptions, "keepMs" | "maxHoldMs">,
): MethodDecorator {
  checkName(name);
  const { keepMs, maxHoldMs } = readRunOnceOptions("@RunOnce()", options);
  return <T>(target: object, _key: string | symbol, descriptor: TypedPropertyDescriptor<T>) => {
    const job = descriptor.value as (...args: unknown[]) => unknown;
    async function run(this: { readonly [OWN_LOCKS]: DistributedLock }): Promise<unknown> {
      const result = await runOnce(this[OWN_LOCKS], name, { keepMs, maxHoldMs }, (lease) => {
        return job.call(this, lease);
      });
      return result.ran ? result.value : undefined;
    }
    copyMetadata(job, run);
    descriptor.value = run as T;
    if (!Object.hasOwn(target, OWN_LOCKS)) {
      Object.defineProperty(target, OWN_LOCKS, { value: undefined, writable: true });
      Inject(LOCKS)(target, OWN_LOCKS);
    }
  };
}

/** A decorator that was applied before, such as `@Cron()`, has left its data at the method. */
function copyMetadata(from: object, to: object): void {
  const reflection = Reflect as unknown as { // by `reflect-metadata`
    getOwnMetadataKeys(target: object): unknown[];
    getOwnMetadata(key: unknown, target: object): unknown;
    defineMetadata(key: unknown, value: unknown, target: object): void;
  };
  for (const key of reflection.getOwnMetadataKeys(from)) {
    reflection.defineMetadata(key, reflection.getOwnMetadata(key, from), to);
  }
}
