/**
 * The shared resource of the demo: an account in a file. Like a database that checks fencing tokens,
 * it rejects a stale holder.
 *
 * @module
 */

/** The contents of the file. */
export interface Account {
  readonly balance: number;
  /** How often each worker has added 1; the sum is the balance. */
  readonly deposits: readonly number[];
  /** The greatest fencing token of all writers. */
  readonly lastToken: bigint;
}

/** Writes a new account for this number of workers. */
export async function createAccount(file: string, workers: number): Promise<void> {
  const deposits = Array.from({ length: workers }, () => 0);
  await writeAccount(file, { balance: 0, deposits, lastToken: 0n });
}

/** Reads the account. */
export async function readAccount(file: string): Promise<Account> {
  const account = JSON.parse(await Deno.readTextFile(file));
  return { ...account, lastToken: BigInt(account.lastToken) };
}

/** The account after worker number `worker`, counted from 1, has added 1. */
export function deposit(account: Account, worker: number): Account {
  return {
    ...account,
    balance: account.balance + 1,
    deposits: account.deposits.map((count, index) => index === worker - 1 ? count + 1 : count),
  };
}

/**
 * Writes the account for the holder with this fencing token, unless a later holder has already
 * written. A database does this in one step: `update … where last_token <= $token`.
 *
 * @throws {Error} If a later holder has written.
 */
export async function writeFenced(file: string, account: Account, token: bigint): Promise<void> {
  const { lastToken } = await readAccount(file);
  if (token < lastToken) {
    throw new Error(`Cannot accept fencing token ${token} after ${lastToken}: take the lock again`);
  }
  await writeAccount(file, { ...account, lastToken: token });
}

/** Replaces the file in one step: a writer that is killed never leaves a half-written account. */
export async function writeAccount(file: string, account: Account): Promise<void> {
  const draft = `${file}.${crypto.randomUUID()}`;
  await Deno.writeTextFile(
    draft,
    JSON.stringify({ ...account, lastToken: String(account.lastToken) }),
  );
  await Deno.rename(draft, file);
}
