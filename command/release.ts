import { createInterface } from "node:readline/promises";
import process from "node:process";
import { parseArgs } from "node:util";
import type { DistributedLock, LockSnapshot } from "../core/contract/distributed_lock.ts";
import { notSupported } from "../core/contract/options.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { printable } from "./snapshot.ts";

export const RELEASE_HELP = `Usage: holdfast release --steal [options] NAME

Takes the lock NAME from all of its holders, and frees it for the first waiter.
That stops no work at once: a holder learns of it at its next renewal. End it
first, or let fencing tokens stop it.

  --steal    required: the lock is somebody else's
  --yes      does not ask; without it, asks again if the holders change
  --at URL   where the locks are; HOLDFAST_URL by default

Exits with 0 if the lock is free or its next waiter's, with 1 if the answer was
no, and with 78 where locks cannot be stolen (ZooKeeper, files).

Example: holdfast release --steal --at redis://127.0.0.1 nightly-report`;

/** `holdfast release --steal`: takes a lock from its holder, and frees it. Resolves with the exit code. */
export async function release(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { at: { type: "string" }, steal: { type: "boolean" }, yes: { type: "boolean" } },
  });
  const [name, ...others] = positionals;
  if (name === undefined || others.length > 0) throw new TypeError("release takes one name");
  if (!values.steal) throw new TypeError("the lock is somebody else's: say --steal");
  const isSure = values.yes === true;
  return await context.withLocks(context.url(values.at), async (locks) => {
    if (locks.capabilities.steal) return await take(locks, name, isSure, context);
    throw notSupported(
      "not supported: these locks cannot be stolen. They are free when their holder ends",
    );
  });
}

async function take(
  locks: DistributedLock,
  name: string,
  isSure: boolean,
  context: CommandContext,
): Promise<number> {
  let agreed: string | undefined;
  for (;;) {
    const snapshot = await locks.query(name);
    const { holders: [holder], holderCount } = snapshot;
    if (holder === undefined) {
      context.print("free");
      return EXIT.ok;
    }
    const others = holderCount > 1 ? ` and ${holderCount - 1} more` : "";
    const { label } = holder;
    const who = (label === undefined ? "a holder without a label" : printable(label)) + others;
    const seen = identityOf(snapshot);
    // While the person thinks, the lock may be granted to somebody else: then the answer was not about them.
    if (isSure || seen === agreed) {
      await locks.request(name, { steal: true }, () => {});
      context.print(`taken from ${who}`);
      return EXIT.ok;
    }
    if (!await confirms(`Take ${JSON.stringify(name)} from ${who}?`)) return EXIT.failed;
    agreed = seen;
  }
}

/** Tells holders apart. Renewals change the order of shared ones, and which of more than 64 are listed. */
function identityOf({ holders, holderCount }: LockSnapshot): string {
  const listed = holderCount > holders.length ? [] : holders;
  const each = listed.map(({ label, fencingToken }) => `${fencingToken} ${label}`);
  return [holderCount, ...each.sort()].join("\n");
}

/** Asks a person. Without a terminal the answer is no. */
async function confirms(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) throw new TypeError("there is nobody to ask: say --yes");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // On Deno a question stays open after Ctrl-C and Ctrl-D.
    const none = new Promise<string>((resolve) => terminal.once("close", () => resolve("no")));
    const answer = terminal.question(`${question} [y/N] `).catch(() => "no");
    return /^y(es)?$/i.test((await Promise.race([answer, none])).trim());
  } finally {
    terminal.close();
  }
}
