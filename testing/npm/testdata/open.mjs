// deno-lint-ignore-file no-console -- this is a script
// Opens the lock at a URL and uses it. Prints "ok" at its end.
import assert from "node:assert/strict";
import { openLock } from "@holdfast/lock/open";

async function main() {
  const locks = await openLock(process.argv[2], { label: "npm" });
  assert.equal(await locks.request("a", () => "done"), "done");
  await locks[Symbol.asyncDispose]();
  console.log("ok");
}

main().catch((error) => {
  console.error(`${error}`);
  process.exitCode = 1;
});
