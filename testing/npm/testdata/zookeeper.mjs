// deno-lint-ignore-file no-console -- this is a script
// Takes turns with another caller of its own on a ZooKeeper server. Prints "ok" at its end.
import assert from "node:assert/strict";
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";

async function main() {
  const locks = new ZooKeeperLock(process.argv[2], { label: "npm" });
  const first = await locks.acquire("a");
  assert.equal(await locks.tryAcquire("a"), null);
  const second = locks.acquire("a", { waitMs: 20_000 });
  await first.release();
  const lease = await second;
  assert(lease.fencingToken > first.fencingToken);
  await lease.release();
  await locks[Symbol.asyncDispose]();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
