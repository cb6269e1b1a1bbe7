// deno-lint-ignore-file no-console -- this is a script
// A program of a bundle: makes the locks that load a package. Its argument is the folder of the lock files.
import { FileLock } from "@holdfast/lock/file";
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
import process from "node:process";

async function main() {
  const files = new FileLock({ dir: process.argv[2] });
  console.log(await files.request("n", () => "file"));
  await files[Symbol.asyncDispose]();
  const nodes = new ZooKeeperLock("127.0.0.1:1"); // connects at its first call
  await nodes[Symbol.asyncDispose]();
  console.log("zookeeper");
}

main().catch((error) => console.log(`${error.name}: ${error.message}\n${error.cause}`));
