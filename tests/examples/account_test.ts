import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { DistributedLock, Lease } from "../../mod.ts";
import { MemoryLock } from "../../mod.ts";
import {
  createAccount,
  deposit,
  readAccount,
  writeAccount,
  writeFenced,
} from "../../examples/account.ts";
import { check } from "../../examples/demo/checks.ts";
import type { Event } from "../../examples/demo/history.ts";
import { runTasks } from "../../examples/demo/tasks.ts";
import { filesIn } from "../../testing/examples/run_demo.ts";

/** A folder with an account for two workers. */
async function openFolder(): Promise<AsyncDisposable & { dir: string; file: string }> {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  const file = `${dir}/account.json`;
  await createAccount(file, 2);
  return { dir, file, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

Deno.test("deposit() counts the deposits of each worker", async () => {
  await using folder = await openFolder();
  for (const worker of [1, 2, 2]) {
    await writeAccount(folder.file, deposit(await readAccount(folder.file), worker));
  }
  const account = { balance: 3, deposits: [1, 2], lastToken: 0n };
  assertEquals(await readAccount(folder.file), account);
  assertEquals(filesIn(folder.dir), ["account.json"]);
});

Deno.test("writeFenced() rejects the fencing token of an earlier holder", async () => {
  await using folder = await openFolder();
  const account = await readAccount(folder.file);
  const token = 2n ** 60n; // greater than Number.MAX_SAFE_INTEGER
  await writeFenced(folder.file, deposit(account, 1), token);
  await writeFenced(folder.file, deposit(account, 1), token); // a holder may write twice
  const late = writeFenced(folder.file, deposit(account, 2), token - 1n);
  await assertRejects(() => late, Error, `Cannot accept fencing token ${token - 1n}`);
  assertEquals((await readAccount(folder.file)).lastToken, token);
});

Deno.test("readAccount() never reads a half-written account", async () => {
  await using folder = await openFolder();
  let isWriting = true;
  const write = async () => {
    for (let i = 0; i < 200; i++) {
      await writeAccount(folder.file, deposit(await readAccount(folder.file), 1));
    }
    isWriting = false;
  };
  const read = async () => {
    while (isWriting) {
      const { balance, deposits } = await readAccount(folder.file);
      assertEquals(balance, deposits[0]);
    }
  };
  await Promise.all([write(), read()]);
  assertEquals((await readAccount(folder.file)).balance, 200);
});

const { signal: NEVER } = new AbortController();

/** Grants every call at once: the demo must detect this. */
function brokenLock(): DistributedLock {
  const real = new MemoryLock();
  let grants = 0;
  const acquire = async (): Promise<Lease> => await real.acquire(`account ${grants++}`);
  return Object.assign(Object.create(real), { acquire });
}

Deno.test("check() detects a lock that grants itself to everybody", async () => {
  await using folder = await openFolder();
  const [workers, rounds] = [2, 50];
  const jobs = [1, 2].map((worker) => ({ worker, rounds, accountFile: folder.file }));
  const events: Event[] = [];
  const options = { onEvent: (event: Event) => events.push(event), signal: NEVER };
  const failures = await runTasks(jobs, brokenLock(), options);
  const account = await readAccount(folder.file);
  const run = { workers, rounds, kill: false, events, account, failures };
  const findings = check(run, { rounds, account, failures: [] });
  const text = findings.filter(({ isGood }) => !isGood).map(({ text }) => text).join("\n");
  assertMatch(text, /the balance is \d+, but should be 100/);
  assertMatch(text, /overlaps? another|Cannot accept fencing token/);
});
