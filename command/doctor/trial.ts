import type { DistributedLock, Lease } from "../../core/contract/distributed_lock.ts";
import { openLock } from "../../open/mod.ts";
import { bad, type Finding, good } from "./finding.ts";

const SUBJECT = "a lock, its queue and its handoff";
/** Warnings about what a check of its own judges. */
const ALSO_JUDGED = /maxmemory-policy/;
const WAIT_MS = 10_000;

/**
 * Uses a lock with a random name as programs do: acquires it, waits for it, hands it off, queries and steals it. What
 * a user may not do, or a server does not allow, shows as an error or as a warning.
 */
export async function tryLock(url: string): Promise<{
  readonly findings: Finding[];
  /** How long in ms the first lease was provable when it was granted; `null` without one. */
  readonly provableMs: number | null;
}> {
  const warnings = new Set<string>();
  const onWarning = (message: string) => void warnings.add(message);
  const name = `holdfast-doctor-${crypto.randomUUID()}`;
  const opened: DistributedLock[] = [];
  let provableMs: number | null = null;
  try {
    for (let i = 0; i < 2; i++) opened.push(await openLock(url, { onWarning }));
    const [one, other] = opened as [DistributedLock, DistributedLock];
    const first = await one.acquire(name, { waitMs: WAIT_MS });
    provableMs = first.remainingMs;
    await handOff(name, first, other);
    if (one.capabilities.steal) await one.request(name, { steal: true }, () => {});
    const found = [...warnings].filter((text) => !ALSO_JUDGED.test(text)).map(problem);
    const findings = found.length > 0 ? found : [good(SUBJECT, "works")];
    return { provableMs, findings };
  } catch (error) {
    return { provableMs, findings: [problem((error as Error).message)] };
  } finally {
    await Promise.all(opened.map((locks) => locks[Symbol.asyncDispose]()));
  }
}

/** The messages of locks say themselves what to do, except which rights are missing. */
function problem(text: string): Finding {
  const lacksRight = /NOPERM|ACL|permission/.test(text);
  return bad(
    SUBJECT,
    text,
    lacksRight ? "ACL SETUSER with the rules of docs/redis-clients.md" : undefined,
  );
}

/** Releases a lease for a waiter of another instance. */
async function handOff(name: string, first: Lease, other: DistributedLock): Promise<void> {
  const { promise: waits, resolve } = Promise.withResolvers<void>();
  const second = other.acquire(name, { waitMs: WAIT_MS, onWait: () => resolve() });
  await Promise.race([waits, second]);
  await other.query(name);
  await first.release();
  await (await second).release();
}
