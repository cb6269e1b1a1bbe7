/* global test, expect */
// A test of a user, in ES modules. Its locks load their packages.
import { MemoryLock } from "@holdfast/lock";
import { FileLock } from "@holdfast/lock/file";
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
import process from "node:process";

test("locks work in an ES module", async () => {
  for (const locks of [new MemoryLock(), new FileLock({ dir: process.env.LOCK_DIR })]) {
    expect(await locks.request("a", ({ name }) => name)).toBe("a");
    await locks[Symbol.asyncDispose]();
  }
  const locks = new ZooKeeperLock("127.0.0.1:1"); // connects at its first call
  await locks[Symbol.asyncDispose]();
});
